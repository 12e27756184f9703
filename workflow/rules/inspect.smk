# inspect: from the compiled library, without a GPU.
rule calculator:
    """NVIDIA's occupancy calculator, compiled once for all rungs."""
    input:
        "workflow/ladder/build/occupancy.cpp",
    output:
        f"{BUILD}/{{gpu}}/occupancy.so",
    log:
        f"{LOGS}/{{gpu}}/calculator.log",
    priority: AWAITED
    conda:
        CONDA
    params:
        nvcc=SETTINGS["compile"]["nvcc"],
    script:
        "../scripts/calculator.py"


rule inspect:
    """What the compiled library says of itself: registers, occupancy, instructions, paper calculation."""
    input:
        build=f"{BUILD}/{{gpu}}/rungs/{{kernel}}",
        calculator=f"{BUILD}/{{gpu}}/occupancy.so" if PLAN.gpu.limits else [],
        code=code("inspect_library"),
    output:
        f"{BUILD}/{{gpu}}/inspect/{{kernel}}.json",
    log:
        f"{LOGS}/{{gpu}}/inspect/{{kernel}}.log",
    priority: AWAITED
    conda:
        CONDA
    params:
        shapes=[str(shape) for shape in PLAN.inspected_shapes],
        products=lambda wildcards: PLAN.asked_products(wildcards.kernel),
        gpu=[PLAN.gpu],
        nvcc=SETTINGS["compile"]["nvcc"],
    script:
        "../scripts/inspect_library.py"
