# profile: why is it not faster?
if PLAN.measuring:

    rule profile:
        """Nsight Compute's metrics and advice for each rung at the configured sizes."""
        input:
            build=f"{BUILD}/{{gpu}}/rungs/{{kernel}}",
            check=f"{RAW_OF}/check/{{kernel}}.json",
            again=once_more,
            measured_on=MEASURED_ON,
        output:
            update(f"{RAW_OF}/profile/{{kernel}}.json.xz"),
        log:
            f"{LOGS}/{{gpu}}/profile/{{kernel}}.log",
        priority: MEASURED_FIRST
        conda:
            CONDA
        resources:
            gpu=GPUS_OF_A_JOB,
            gres=PLAN.gpu.gres,
        params:
            devices=SETTINGS["devices"],
            shapes=lambda wildcards: [
                str(shape) for shape in PLAN.profile_shapes_of(wildcards.kernel)
            ],
            settings=SETTINGS["profile"],
            undone=undone,
        script:
            "../scripts/profile.py"
