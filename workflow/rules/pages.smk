# pages: why is it not faster?
if FIGURES:

    rule analysis:
        """The figures that say why: roofline, issue slots, instructions, occupancy, prediction."""
        input:
            tables=table_files(
                [
                    "rungs",
                    "timings",
                    "profiles",
                    "slots",
                    "instructions",
                    "resources",
                    "paper",
                    "predictions",
                ]
            )
            + HARDWARE_READ,
            code=code("analysis"),
        output:
            [in_report(path, "analysis") for path in figure_files(ANALYSIS)],
            figure_files(ANALYSIS, "png"),
        log:
            f"{LOGS}/{GPU}/analysis.log",
        conda:
            CONDA
        params:
            gpu=[PLAN.gpu],
            ladder=LADDER,
            baseline=PLAN.baseline.name,
            recorded=caption_of,
        script:
            "../scripts/analysis.py"


PAGE_FILES = [f"{DERIVED}/pages/{rung.name}.md" for rung in PAGES]


rule pages:
    """One page a rung with all that is known of it, and their index."""
    input:
        tables=table_files(TABLES) + SURVEY_READ + HARDWARE_READ,
        inspections=[f"{BUILD}/{GPU}/inspect/{rung.name}.json" for rung in PAGES],
        code=code("pages"),
        drawings=DRAWING_FILES,
    output:
        index=f"{DERIVED}/pages/README.md",
        timeline=f"{DERIVED}/pages/timeline.md",
        hardware=[f"{DERIVED}/pages/hardware.md"] if HARDWARE_READ else [],
        pages=PAGE_FILES,
    log:
        f"{LOGS}/{GPU}/pages.log",
    priority: AWAITED
    conda:
        CONDA
    params:
        rungs=PAGES,
    script:
        "../scripts/pages.py"
