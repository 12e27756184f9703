# pages: why is it not faster?
if FIGURES:

    rule analysis:
        """The figures that say why: roofline, issue slots, instructions, occupancy, prediction."""
        input:
            tables=expand(
                "results/{{gpu}}/tables/{table}.csv",
                table=[
                    "rungs",
                    "timings",
                    "profiles",
                    "slots",
                    "instructions",
                    "resources",
                    "paper",
                ],
            ),
        output:
            [
                report(
                    f"results/{{gpu}}/figures/{figure}.svg",
                    caption="../report/analysis.rst",
                    category="Figures",
                    labels={"figure": figure.replace("_", " "), "GPU": "{gpu}"},
                )
                for figure in ANALYSIS
            ],
            expand("results/{{gpu}}/figures/{figure}.png", figure=ANALYSIS),
        log:
            "logs/{gpu}/analysis.log",
        conda:
            CONDA
        params:
            package=PACKAGE,
        script:
            "../scripts/analysis.py"


rule pages:
    """One page a rung with all that is known of it, and their index."""
    input:
        tables=expand("results/{{gpu}}/tables/{table}.csv", table=TABLES),
        inspections=[f"build/{GPU}/inspect/{name}.json" for name in PAGES],
        drawings=expand("results/{{gpu}}/drawings/{name}.svg", name=DRAWINGS),
    output:
        index="results/{gpu}/pages/README.md",
        pages=expand("results/{{gpu}}/pages/{name}.md", name=PAGES),
    log:
        "logs/{gpu}/pages.log",
    priority: AWAITED
    conda:
        CONDA
    params:
        package=PACKAGE,
    script:
        "../scripts/pages.py"
