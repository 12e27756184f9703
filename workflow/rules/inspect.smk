# inspect: from the compiled library, without a GPU.
rule inspect:
    """What the compiled library says of itself: registers, occupancy, instructions, paper calculation."""
    input:
        "build/{gpu}/{kernel}",
    output:
        "build/{gpu}/inspect/{kernel}.json",
    log:
        "logs/{gpu}/inspect/{kernel}.log",
    priority: AWAITED
    conda:
        CONDA
    params:
        package=PACKAGE,
        shapes=SHAPES,
        sms=PLAN.gpu.sms,
        limits=PLAN.gpu.limits,
    script:
        "../scripts/inspect_library.py"
