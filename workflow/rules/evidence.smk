# evidence: no part of `all`, for git keeps what it writes.
ALL_TABLES = (
    table_files(TABLES + PUBLISHED)
    + ([f"{DERIVED}/tables/experiments.csv"] if EXPERIMENTS else [])
    + ACCURACY_FILES[:1]
    + HARDWARE_READ
    + TUNING[:1]
    + [path for path in SURVEY_READ if Path(path).stem != "survey"]
)


rule evidence:
    """Copy the whole ladder's tables, the README's figure and the comparison of GPUs to where git keeps them."""
    input:
        refuse_a_selection,
        derived=[
            path for path in ALL_TABLES if Path(path).stem not in ("checks", "samples")
        ]
        + figure_files(OVERVIEW + [f"{name}_dark" for name in OVERVIEW], "png")
        + expand(
            f"{ACROSS}/{{name}}",
            name=[
                "gpus.csv",
                "gpus.png",
                "gpus_by_size.png",
                "cards.csv",
                "cards.png",
            ],
        ),
    log:
        f"{LOGS}/evidence.log",
    conda:
        CONDA
    script:
        "../scripts/evidence.py"
