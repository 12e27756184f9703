# figures: what the tables say, as SVG and PNG.
if FIGURES:

    rule figures:
        input:
            timings="results/{gpu}/tables/timings.csv",
            rungs="results/{gpu}/tables/rungs.csv",
        output:
            report(
                expand("results/{{gpu}}/figures/{figure}.svg", figure=FIGURES),
                caption="../report/figures.rst",
                category="Figures",
            ),
            expand("results/{{gpu}}/figures/{figure}.png", figure=FIGURES),
        log:
            "logs/{gpu}/figures.log",
        conda:
            "../../envs/gemm-ladder.yaml"
        params:
            package=PACKAGE,
        script:
            "../scripts/figures.py"
