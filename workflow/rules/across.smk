# across: no part of `all`.
rule across:
    """Every GPU that has records beside the others, from raw alone: results/across."""
    input:
        records=recorded_anywhere(),
        code=code("across"),
    output:
        table=in_report("results/across/gpus.csv", "across"),
        svg=in_report("results/across/gpus.svg", "across"),
        png="results/across/gpus.png",
        by_size_svg=in_report("results/across/gpus_by_size.svg", "across"),
        by_size_png="results/across/gpus_by_size.png",
    log:
        "logs/across.log",
    conda:
        CONDA
    params:
        rungs=list(PLAN.rungs),
        shapes=[] if SETTINGS["sizes"] == "gpu" else SHAPES,
        baseline=PLAN.baseline.name,
        first=PLAN.first.name,
    script:
        "../scripts/across.py"
