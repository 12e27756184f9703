# check: is it right? On the GPU, and on the CPU for all that an emulator can run.
if PLAN.measuring:

    rule check:
        """Is it right? A verdict for each rung on the GPU, with the errors of every case; a wrong rung fails no job."""
        input:
            f"{BUILD}/{{gpu}}/rungs/{{kernel}}",
            REMEASURE,
            measured_on=MEASURED_ON,
        output:
            update(f"{RAW_OF}/check/{{kernel}}.json"),
        log:
            f"{LOGS}/{{gpu}}/check/{{kernel}}.log",
        priority: MEASURED_FIRST
        conda:
            CONDA
        resources:
            gpu=GPUS_OF_A_JOB,
            gres=PLAN.gpu.gres,
        params:
            devices=SETTINGS["devices"],
            cases=lambda wildcards: PLAN.cases(wildcards.kernel),
            drawing=lambda wildcards: PLAN.drawing(wildcards.kernel),
            runs=SETTINGS["check"]["runs"],
            declared=lambda wildcards: PLAN.by_name(wildcards.kernel).declared,
            claims=lambda wildcards: PLAN.by_name(wildcards.kernel).claims,
            time_limit_s=SETTINGS["check"]["time_limit_s"],
        script:
            "../scripts/check.py"


EMULATOR = sorted(map(str, Path("kernels/emulator").glob("*.[hct]*")))


rule engine:
    """The engine of the emulator and the headers of all rungs, compiled once."""
    input:
        EMULATOR,
        "kernels/include/gemm.cuh",
    output:
        engine=f"{BUILD}/{{gpu}}/emulator/engine.o",
        headers=f"{BUILD}/{{gpu}}/emulator/emulator_launch.h.gch",
    log:
        f"{LOGS}/{{gpu}}/engine.log",
    priority: AWAITED
    conda:
        CONDA
    params:
        gxx=gxx_version(),
    script:
        "../scripts/engine.py"


rule emulate:
    """The same check on the CPU, of the same source: it needs no GPU and finds races."""
    input:
        build=f"{BUILD}/{{gpu}}/rungs/{{kernel}}",
        engine=f"{BUILD}/{{gpu}}/emulator/engine.o",
        headers=f"{BUILD}/{{gpu}}/emulator/emulator_launch.h.gch",
        emulator=EMULATOR,
        code=code("emulate"),
    output:
        f"{BUILD}/{{gpu}}/emulated/{{kernel}}.json",
    log:
        f"{LOGS}/{{gpu}}/emulate/{{kernel}}.log",
    priority: AWAITED
    conda:
        CONDA
    params:
        rung=rung_of,
        cases=lambda wildcards: PLAN.emulated_cases(wildcards.kernel),
        time_limit_s=SETTINGS["check"]["time_limit_s"],
    script:
        "../scripts/emulate.py"
