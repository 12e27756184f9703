# report: all of it on one page.
if FIGURES:

    rule published:
        """What others published beside what was measured."""
        input:
            timings="results/{gpu}/tables/timings.csv",
            geomeans="results/{gpu}/tables/geomeans.csv",
            rungs="results/{gpu}/tables/rungs.csv",
            code=code("published"),
        output:
            table=in_report("results/{gpu}/tables/published.csv", "published"),
            svg=in_report("results/{gpu}/figures/published.svg", "published"),
            png="results/{gpu}/figures/published.png",
        log:
            "logs/{gpu}/published.log",
        priority: AWAITED
        conda:
            CONDA
        params:
            recorded=caption_of,
        script:
            "../scripts/published.py"


rule html_report:
    """One HTML page a GPU, self-contained."""
    input:
        tables=expand("results/{{gpu}}/tables/{table}.csv", table=TABLES + PUBLISHED)
        + ACCURACY_FILES[:1],
        figures=expand("results/{{gpu}}/figures/{figure}.svg", figure=PUBLISHED)
        + ACCURACY_FILES[1:],
        pages=[f"results/{{gpu}}/pages/{rung.name}.md" for rung in PAGES],
        code=code("report"),
        drawings=expand("results/{{gpu}}/drawings/{name}.svg", name=DRAWINGS),
        templates=[
            "workflow/report/report.html.j2",
            "workflow/report/report.css",
        ],
    output:
        "results/{gpu}/report.html",
    log:
        "logs/{gpu}/report.log",
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
