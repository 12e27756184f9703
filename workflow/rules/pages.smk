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
            code=code("analysis"),
        output:
            [
                in_report(f"results/{{gpu}}/figures/{figure}.svg", "analysis")
                for figure in ANALYSIS
            ],
            expand("results/{{gpu}}/figures/{figure}.png", figure=ANALYSIS),
        log:
            "logs/{gpu}/analysis.log",
        conda:
            CONDA
        params:
            gpu=[PLAN.gpu],
            ladder=LADDER,
            baseline=PLAN.baseline.name,
            recorded=caption_of,
        script:
            "../scripts/analysis.py"


rule pages:
    """One page a rung with all that is known of it, and their index."""
    input:
        tables=expand("results/{{gpu}}/tables/{table}.csv", table=TABLES),
        inspections=[f"build/{GPU}/inspect/{rung.name}.json" for rung in PAGES],
        code=code("pages"),
        drawings=expand("results/{{gpu}}/drawings/{name}.svg", name=DRAWINGS),
    output:
        index="results/{gpu}/pages/README.md",
        pages=[f"results/{{gpu}}/pages/{rung.name}.md" for rung in PAGES],
    log:
        "logs/{gpu}/pages.log",
    priority: AWAITED
    conda:
        CONDA
    params:
        rungs=PAGES,
    script:
        "../scripts/pages.py"
