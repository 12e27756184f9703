# time: one rung at a time, each with what it is compared with.
if PLAN.measuring:

    rule time:
        """How fast is it? Every sample of a rung and of what it is compared with, side by side in one process."""
        input:
            builds=lambda wildcards: [
                f"{BUILD}/{wildcards.gpu}/rungs/{name}"
                for name in PLAN.side_by_side(wildcards.kernel)
            ],
            checks=lambda wildcards: [
                f"{RAW}/check/{name}.json"
                for name in PLAN.side_by_side(wildcards.kernel)
                if name in PLAN.checked
            ],
            remeasure=REMEASURE,
            measured_on=MEASURED_ON,
        output:
            update(f"{RAW_OF}/time/{{kernel}}.zip"),
        log:
            f"{LOGS}/{{gpu}}/time/{{kernel}}.log",
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
                str(shape) for shape in PLAN.timed(wildcards.kernel)
            ],
            settings=SETTINGS["timing"],
            expected=lambda wildcards: PLAN.expected(
                PLAN.side_by_side(wildcards.kernel)
            ),
        script:
            "../scripts/time.py"
