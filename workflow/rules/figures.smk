# figures: one message each.
if FIGURES:

    rule figures:
        """What the tables say, as SVG and PNG."""
        input:
            timings=f"{DERIVED}/tables/timings.csv",
            rungs=f"{DERIVED}/tables/rungs.csv",
            code=code("figures"),
        output:
            [in_report(path, "figures") for path in figure_files(FIGURES)],
            figure_files(FIGURES, "png"),
        log:
            f"{LOGS}/{GPU}/figures.log",
        conda:
            CONDA
        params:
            peak_gflops=PLAN.gpu.peak_gflops,
            ladder=LADDER,
            baseline=PLAN.baseline.name,
            recorded=caption_of,
        script:
            "../scripts/figures.py"
