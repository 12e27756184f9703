# profile: why is it not faster?
if PLAN.measuring:
    # Each run writes it anew: an input whose time counts where the machine kept an earlier run from profiling.
    THIS_RUN = ".snakemake/this_run"
    if workflow.is_main_process:
        Path(THIS_RUN).write_text(str(time.time_ns()))

    def undone(kernel):
        """The file that a job leaves where the machine kept it from profiling a rung."""
        return f"build/{GPU}/profile/{kernel}/undone"

    def once_more(wildcards):
        """What makes a rung be profiled again where an earlier run was kept from it."""
        again = os.path.exists(undone(wildcards.kernel))
        return THIS_RUN if again else ancient(THIS_RUN)

    rule profile:
        """Nsight Compute's metrics and advice for each rung at the configured sizes."""
        input:
            build="build/{gpu}/rungs/{kernel}",
            check=f"{RAW_OF}/check/{{kernel}}.json",
            again=once_more,
        output:
            update(f"{RAW_OF}/profile/{{kernel}}.json.gz"),
        log:
            "logs/{gpu}/profile/{kernel}.log",
        priority: MEASURED_FIRST
        conda:
            CONDA
        resources:
            gpu=1,
        params:
            device=SETTINGS["device"],
            measured_on=measured_on,
            shapes=lambda wildcards: [
                str(shape) for shape in PLAN.profile_shapes_of(wildcards.kernel)
            ],
            settings=SETTINGS["profile"],
            undone=lambda wildcards: undone(wildcards.kernel),
        script:
            "../scripts/profile.py"
