# across: no part of `all`.
rule across:
    """Every GPU that has records beside the others, from raw alone: results/across."""
    input:
        records=recorded_anywhere(),
        code=code("across"),
    output:
        table=report(
            "results/across/gpus.csv",
            caption="../report/across.rst",
            category="Tables",
            labels={"table": "gpus", "GPU": "all"},
        ),
        svg=report(
            "results/across/gpus.svg",
            caption="../report/across.rst",
            category="Figures",
            labels={"figure": "gpus", "GPU": "all"},
        ),
        png="results/across/gpus.png",
        by_size_svg=report(
            "results/across/gpus_by_size.svg",
            caption="../report/across.rst",
            category="Figures",
            labels={"figure": "gpus by size", "GPU": "all"},
        ),
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
