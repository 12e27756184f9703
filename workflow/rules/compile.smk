rule compile:
    """One shared library for each rung, with the compiler's resource report."""
    input:
        lambda wildcards: [
            shown(path) for path in sources(rung_named(wildcards.kernel))
        ],
    output:
        directory(f"{BUILD}/{{gpu}}/rungs/{{kernel}}"),
    log:
        f"{LOGS}/{{gpu}}/compile/{{kernel}}.log",
    priority: AWAITED
    conda:
        CONDA
    params:
        rung=rung_of,
        compiler=lambda wildcards: state_of_compiler(
            rung_named(wildcards.kernel).language
        ),
        target=PLAN.gpu.target,
        nvcc=SETTINGS["compile"]["nvcc"],
        flags=SETTINGS["compile"]["flags"],
    script:
        "../scripts/compile.py"
