# accuracy: errors against k, of the libraries and of every class of arithmetic beside FP32.
MEASURED = [rung.name for rung in PLAN.accurate]
ACCURACY = records("accuracy", "json", MEASURED)


if PLAN.measuring:

    rule measure_accuracy:
        """One rung's errors against k."""
        input:
            build=f"{BUILD}/{{gpu}}/rungs/{{kernel}}",
            check=f"{RAW_OF}/check/{{kernel}}.json",
            measured_on=MEASURED_ON,
        output:
            update(f"{RAW_OF}/accuracy/{{kernel}}.json"),
        log:
            f"{LOGS}/{{gpu}}/accuracy/{{kernel}}.log",
        conda:
            CONDA
        resources:
            gpu=GPUS_OF_A_JOB,
            gres=PLAN.gpu.gres,
        params:
            devices=SETTINGS["devices"],
            settings=SETTINGS["accuracy"],
        script:
            "../scripts/measure_accuracy.py"


if ACCURACY:

    rule accuracy:
        """How accurate is it? Errors against k, with time beside them, as a table and a figure."""
        input:
            records=ACCURACY,
            rungs=f"{DERIVED}/tables/rungs.csv",
            code=code("accuracy"),
        output:
            table=in_report(f"{DERIVED}/tables/accuracy.csv", "accuracy"),
            svg=in_report(f"{DERIVED}/figures/accuracy.svg", "accuracy"),
            png=f"{DERIVED}/figures/accuracy.png",
        log:
            f"{LOGS}/{GPU}/accuracy.log",
        priority: AWAITED
        conda:
            CONDA
        params:
            rungs=list(PLAN.accurate),
            ladder=LADDER,
            baseline=PLAN.baseline.name,
            recorded=caption_of,
        script:
            "../scripts/accuracy.py"

    rule overview:
        """The README's figure: speed and error beside cuBLAS."""
        input:
            timings=f"{DERIVED}/tables/timings.csv",
            rungs=f"{DERIVED}/tables/rungs.csv",
            accuracy=f"{DERIVED}/tables/accuracy.csv",
            code=code("overview"),
        output:
            svg=in_report(f"{DERIVED}/figures/overview.svg", "overview"),
            png=f"{DERIVED}/figures/overview.png",
            dark=f"{DERIVED}/figures/overview_dark.png",
        log:
            f"{LOGS}/{GPU}/overview.log",
        conda:
            CONDA
        params:
            ladder=LADDER,
            baseline=PLAN.baseline.name,
            recorded=caption_of,
        script:
            "../scripts/overview.py"


OVERVIEW = ["overview"] if ACCURACY else []
ACCURACY_FILES = (
    [f"{DERIVED}/tables/accuracy.csv", f"{DERIVED}/figures/accuracy.svg"]
    if ACCURACY
    else []
)
