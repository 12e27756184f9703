# inspect: from the compiled library, without a GPU.
rule calculator:
    """NVIDIA's occupancy calculator, compiled once for all rungs."""
    input:
        "workflow/ladder/build/occupancy.cpp",
    output:
        "build/{gpu}/occupancy.so",
    log:
        "logs/{gpu}/calculator.log",
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
        build="build/{gpu}/rungs/{kernel}",
        calculator="build/{gpu}/occupancy.so" if PLAN.gpu.limits else [],
        code=code("inspect_library"),
    output:
        "build/{gpu}/inspect/{kernel}.json",
    log:
        "logs/{gpu}/inspect/{kernel}.log",
    priority: AWAITED
    conda:
        CONDA
    params:
        shapes=SHAPES,
        gpu=[PLAN.gpu],
        nvcc=SETTINGS["compile"]["nvcc"],
    script:
        "../scripts/inspect_library.py"
