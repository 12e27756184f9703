# across: no part of `all`.
ACROSS = f"{RESULTS}/across/{PLAN.folder}"


rule across:
    """Every GPU that has records beside the others, and the cards of one name among themselves, from raw alone."""
    input:
        records=recorded_anywhere(),
        code=code("across"),
    output:
        table=in_report(f"{ACROSS}/gpus.csv", "across"),
        svg=in_report(f"{ACROSS}/gpus.svg", "across"),
        png=f"{ACROSS}/gpus.png",
        by_size_svg=in_report(f"{ACROSS}/gpus_by_size.svg", "across"),
        by_size_png=f"{ACROSS}/gpus_by_size.png",
        cards=in_report(f"{ACROSS}/cards.csv", "cards"),
        cards_svg=in_report(f"{ACROSS}/cards.svg", "cards"),
        cards_png=f"{ACROSS}/cards.png",
    log:
        f"{LOGS}/across.log",
    conda:
        CONDA
    params:
        rungs=list(PLAN.rungs),
        shapes=[] if SETTINGS["sizes"] == "gpu" else SHAPES,
        baseline=PLAN.baseline.name,
        first=PLAN.first.name,
        results=lambda wildcards: RESULTS,
        own=own_records,
    script:
        "../scripts/across.py"
