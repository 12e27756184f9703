rule compile:
    """One shared library for each rung, with the compiler's resource report."""
    input:
        lambda wildcards: [
            os.path.relpath(path) for path in sources(PLAN.by_name(wildcards.kernel))
        ],
    output:
        directory("build/{gpu}/{kernel}"),
    log:
        "logs/{gpu}/compile/{kernel}.log",
    priority: AWAITED
    conda:
        CONDA
    params:
        architecture=PLAN.gpu.architecture,
        nvcc=PLAN.settings["compile"]["nvcc"],
        flags=PLAN.settings["compile"]["flags"],
        tuned=lambda wildcards: PLAN.by_name(wildcards.kernel).parameters,
    script:
        "../scripts/compile.py"
