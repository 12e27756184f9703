rule compile:
    """One shared library for each rung, with the compiler's resource report."""
    input:
        lambda wildcards: [
            os.path.relpath(path) for path in sources(rung_named(wildcards.kernel))
        ],
    output:
        directory("build/{gpu}/rungs/{kernel}"),
    log:
        "logs/{gpu}/compile/{kernel}.log",
    priority: AWAITED
    conda:
        CONDA
    params:
        rung=rung_of,
        target=PLAN.gpu.target,
        nvcc=SETTINGS["compile"]["nvcc"],
        flags=SETTINGS["compile"]["flags"],
    script:
        "../scripts/compile.py"
