# sanitize: no part of `all`, for it is slow.
SANITIZED = records("sanitize", "json", PLAN.checked)


if PLAN.measuring:

    rule watch:
        """compute-sanitizer's tools on one rung."""
        input:
            "build/{gpu}/{kernel}",
        output:
            update("results/{gpu}/raw/sanitize/{kernel}.json"),
        log:
            "logs/{gpu}/sanitize/{kernel}.log",
        conda:
            CONDA
        resources:
            gpu=1,
        params:
            cases=PLAN.sanitizer_cases(),
            compute_sanitizer=PLAN.settings["sanitize"]["compute_sanitizer"],
            time_limit_s=PLAN.settings["sanitize"]["time_limit_s"],
        script:
            "../scripts/watch.py"


rule sanitize:
    """compute-sanitizer's tools on small products of every rung; slow, and on a GPU alone."""
    input:
        SANITIZED,
    log:
        "logs/sanitize.log",
    conda:
        CONDA
    params:
        measuring=PLAN.measuring,
        gpu=GPU,
    script:
        "../scripts/sanitize.py"
