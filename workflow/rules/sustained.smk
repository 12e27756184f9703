# sustained: back to back for seconds, one rung at a time between its references.
SUSTAINED = records("sustained", "json", PLAN.sustained)
SUSTAINING = ["sustained"] if SUSTAINED else []


if PLAN.measuring:

    rule sustained:
        """How fast is it without a pause, and what energy does it take? Launches back to back until the clock settles."""
        input:
            builds=lambda wildcards: [
                f"{BUILD}/{wildcards.gpu}/rungs/{name}"
                for name in PLAN.sustained_beside(wildcards.kernel)
            ],
            checks=lambda wildcards: [
                f"{RAW}/check/{name}.json"
                for name in PLAN.sustained_beside(wildcards.kernel)
            ],
            remeasure=REMEASURE,
            measured_on=MEASURED_ON,
        output:
            update(f"{RAW_OF}/sustained/{{kernel}}.json"),
        log:
            f"{LOGS}/{{gpu}}/sustained/{{kernel}}.log",
        priority: MEASURED_FIRST
        conda:
            CONDA
        resources:
            gpu=GPUS_OF_A_TIMING,
            gres=PLAN.gpu.gres,
        params:
            devices=SETTINGS["devices"],
            exclusive=SETTINGS["exclusive"],
            shapes=lambda wildcards: [
                str(shape) for shape in PLAN.sustained_shapes_of(wildcards.kernel)
            ],
            expected=lambda wildcards: PLAN.expected([wildcards.kernel]),
            settings=SETTINGS["sustained"],
        script:
            "../scripts/sustained.py"


if SUSTAINED:

    rule energy:
        """Sustained launches beside isolated ones, and their energy, as a figure."""
        input:
            sustained=f"{DERIVED}/tables/sustained.csv",
            rungs=f"{DERIVED}/tables/rungs.csv",
            code=code("energy"),
        output:
            svg=in_report(f"{DERIVED}/figures/sustained.svg", "sustained"),
            png=f"{DERIVED}/figures/sustained.png",
        log:
            f"{LOGS}/{GPU}/energy.log",
        conda:
            CONDA
        params:
            recorded=caption_of,
        script:
            "../scripts/energy.py"
