# sanitize: no part of `all`, for it is slow.
SANITIZED = records("sanitize", "json", PLAN.checked)


if PLAN.measuring:

    rule sanitize_rung:
        """compute-sanitizer's tools on one rung."""
        input:
            f"{BUILD}/{{gpu}}/rungs/{{kernel}}",
            measured_on=MEASURED_ON,
        output:
            update(f"{RAW_OF}/sanitize/{{kernel}}.json"),
        log:
            f"{LOGS}/{{gpu}}/sanitize/{{kernel}}.log",
        conda:
            CONDA
        resources:
            gpu=GPUS_OF_A_JOB,
            gres=PLAN.gpu.gres,
        params:
            devices=SETTINGS["devices"],
            cases=lambda wildcards: PLAN.sanitizer_cases(wildcards.kernel),
            compute_sanitizer=SETTINGS["sanitize"]["compute_sanitizer"],
            time_limit_s=SETTINGS["sanitize"]["time_limit_s"],
        script:
            "../scripts/sanitize_rung.py"


rule sanitize:
    """compute-sanitizer's tools on small products of every rung; slow, and on a GPU alone."""
    input:
        SANITIZED,
    log:
        f"{LOGS}/sanitize.log",
    conda:
        CONDA
    params:
        measuring=PLAN.measuring,
        gpu=GPU,
    script:
        "../scripts/sanitize.py"
