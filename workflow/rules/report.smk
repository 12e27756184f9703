# report: all of it on one page.
if FIGURES:

    rule published:
        """What others published beside what was measured."""
        input:
            timings=f"{DERIVED}/tables/timings.csv",
            profiles=f"{DERIVED}/tables/profiles.csv",
            paper=f"{DERIVED}/tables/paper.csv",
            advice=f"{DERIVED}/tables/advice.csv",
            hardware=HARDWARE_READ,
            trials=TUNING[:1],
            gpus=sorted(
                map(os.path.relpath, WORKFLOW.parent.glob("config/gpus/*.yaml"))
            ),
            rungs=f"{DERIVED}/tables/rungs.csv",
            code=code("published"),
        output:
            table=in_report(f"{DERIVED}/tables/published.csv", "published"),
            svg=in_report(f"{DERIVED}/figures/published.svg", "published"),
            png=f"{DERIVED}/figures/published.png",
            page=f"{DERIVED}/pages/published.md",
        log:
            f"{LOGS}/{GPU}/published.log",
        priority: AWAITED
        conda:
            CONDA
        params:
            gpu=[PLAN.gpu],
            recorded=caption_of,
        script:
            "../scripts/published.py"


rule html_report:
    """One HTML page a GPU, self-contained."""
    input:
        tables=table_files(TABLES + PUBLISHED)
        + ACCURACY_FILES[:1]
        + SURVEY_READ
        + HARDWARE_READ
        + SHIPPED,
        pages=PAGE_FILES,
        code=code("report"),
        drawings=DRAWING_FILES,
        templates=[
            "workflow/report/report.html.j2",
            "workflow/report/report.css",
            "workflow/report/report.js",
        ],
    output:
        f"{DERIVED}/report.html",
    log:
        f"{LOGS}/{GPU}/report.log",
    priority: AWAITED
    conda:
        CONDA
    params:
        gpu=[PLAN.gpu],
        recorded=caption_of,
        baseline=PLAN.baseline.name,
        rungs=list(PLAN.rungs),
        ladder=LADDER,
    script:
        "../scripts/report.py"
