# compare: no part of `all`.
rule comparison:
    """This run against the baseline, as a table and a figure."""
    input:
        records("time", "zip", RUNGS),
    output:
        table=f"{DERIVED}/comparison/comparison.csv",
        svg=f"{DERIVED}/comparison/comparison.svg",
        png=f"{DERIVED}/comparison/comparison.png",
    log:
        f"{LOGS}/{GPU}/comparison.log",
    conda:
        CONDA
    params:
        gpu=GPU,
        raw=lambda wildcards: RAW,
        rungs=RUNGS,
        shapes=SHAPES,
        title=PLAN.gpu.title,
        baseline={
            "name": SETTINGS["baseline"],
            "identity": identity(SETTINGS["baseline"], GPU),
        },
    script:
        "../scripts/comparison.py"


rule compare:
    """This run against another: --config baseline=FOLDER_OR_REVISION; for CI against=CHECKOUT_OR_REVISION."""
    input:
        [] if SETTINGS["against"] else f"{DERIVED}/comparison/comparison.csv",
    log:
        f"{LOGS}/compare.log",
    conda:
        CONDA
    resources:
        gpu=1 if SETTINGS["against"] else 0,
    params:
        rungs=RUNGS,
        against=SETTINGS["against"],
        baseline=SETTINGS["baseline"],
        fail_on=SETTINGS["fail_on"],
    script:
        "../scripts/compare.py"
