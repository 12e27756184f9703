# profile: why is it not faster?
if PLAN.measuring:

    rule profile:
        """Nsight Compute's metrics and advice for each rung at the configured sizes."""
        input:
            build="build/{gpu}/rungs/{kernel}",
            check="results/{gpu}/raw/check/{kernel}.json",
        output:
            update("results/{gpu}/raw/profile/{kernel}.json.gz"),
        log:
            "logs/{gpu}/profile/{kernel}.log",
        priority: MEASURED_FIRST
        conda:
            CONDA
        resources:
            gpu=1,
        params:
            device=SETTINGS["device"],
            shapes=lambda wildcards: [
                str(shape) for shape in PLAN.profile_shapes_of(wildcards.kernel)
            ],
            settings=SETTINGS["profile"],
        script:
            "../scripts/profile.py"
