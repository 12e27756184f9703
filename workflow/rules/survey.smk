# survey: products and data that nobody chose; no part of `all`, for it takes long.
SURVEYED = records("survey", "json.gz", PLAN.surveyed)
SURVEY_TABLES = ["survey", "survey_classes", "survey_data"] if SURVEYED else []
SURVEY_FIGURES = ["survey", "survey_bandwidth", "survey_data"] if SURVEYED else []


if PLAN.measuring:

    rule survey_rung:
        """One rung and its references on drawn products, and on data as users have them."""
        input:
            builds=lambda wildcards: [
                f"{BUILD}/{wildcards.gpu}/rungs/{name}"
                for name in PLAN.surveyed_beside(wildcards.kernel)
            ],
            checks=lambda wildcards: [
                f"{RAW}/check/{name}.json"
                for name in PLAN.surveyed_beside(wildcards.kernel)
            ],
            remeasure=REMEASURE,
            measured_on=MEASURED_ON,
        output:
            update(f"{RAW_OF}/survey/{{kernel}}.json.gz"),
        log:
            f"{LOGS}/{{gpu}}/survey/{{kernel}}.log",
        priority: MEASURED_FIRST
        conda:
            CONDA
        resources:
            gpu=GPUS_OF_A_JOB,
            gres=PLAN.gpu.gres,
        params:
            devices=SETTINGS["devices"],
            expected=lambda wildcards: PLAN.expected(
                PLAN.surveyed_beside(wildcards.kernel)
            ),
            settings=SETTINGS["survey"],
            seed=SURVEY_SEED,
        script:
            "../scripts/survey_rung.py"


if SURVEYED:

    rule survey:
        """Is it slower anywhere? Every rung beside cuBLAS on random shapes and on data of many kinds; takes long."""
        input:
            records=SURVEYED,
            hardware=HARDWARE_READ,
            rungs=f"{DERIVED}/tables/rungs.csv",
            timings=f"{DERIVED}/tables/timings.csv",
            code=code("survey"),
        output:
            tables=table_files(SURVEY_TABLES),
            svg=[in_report(path, "survey") for path in figure_files(SURVEY_FIGURES)],
            png=figure_files(SURVEY_FIGURES, "png"),
        log:
            f"{LOGS}/{GPU}/survey.log",
        priority: AWAITED
        conda:
            CONDA
        params:
            gpu=[PLAN.gpu],
            rungs=[PLAN.by_name(name) for name in PLAN.surveyed],
            ladder=LADDER,
            baseline=PLAN.baseline.name,
            recorded=caption_of,
        script:
            "../scripts/survey.py"


# What a run that measures other things shows of it: nothing that it would have to measure.
SURVEY_SHOWN = [] if PLAN.measuring else SURVEY_FIGURES
SURVEY_READ = [] if PLAN.measuring else table_files(SURVEY_TABLES)
