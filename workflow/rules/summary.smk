rule summary:
    """The last words of a run; it fails where a rung failed, so that the run's exit status says so."""
    input:
        rungs="results/{gpu}/tables/rungs.csv",
        timings="results/{gpu}/tables/timings.csv",
        report="results/{gpu}/report.html",
        figures=expand("results/{{gpu}}/figures/{figure}.svg", figure=FIGURES),
        overview=OVERVIEW,
        code=code("summary"),
    output:
        "build/{gpu}/summary.txt",
    log:
        "logs/{gpu}/summary.log",
    conda:
        CONDA
    params:
        headline=PLAN.headline,
    script:
        "../scripts/summary.py"
