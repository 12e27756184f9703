# figures: one message each.
if FIGURES:

    rule figures:
        """What the tables say, as SVG and PNG."""
        input:
            timings="results/{gpu}/tables/timings.csv",
            rungs="results/{gpu}/tables/rungs.csv",
            code=code("figures"),
        output:
            [
                in_report(f"results/{{gpu}}/figures/{figure}.svg", "figures")
                for figure in FIGURES
            ],
            expand("results/{{gpu}}/figures/{figure}.png", figure=FIGURES),
        log:
            "logs/{gpu}/figures.log",
        conda:
            CONDA
        params:
            peak_gflops=PLAN.gpu.peak_gflops,
            ladder=LADDER,
            baseline=PLAN.baseline.name,
            recorded=caption_of,
        script:
            "../scripts/figures.py"
