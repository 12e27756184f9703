# check: is it right? A verdict for each rung, with the errors of every case; a wrong rung fails no job.
if PLAN.measuring:

    rule check:
        input:
            "build/{gpu}/{kernel}",
        output:
            update("results/{gpu}/raw/check/{kernel}.json"),
        log:
            "logs/{gpu}/check/{kernel}.log",
        conda:
            CONDA
        resources:
            gpu=1,
        params:
            cases=PLAN.cases(),
            time_limit_s=PLAN.settings["check"]["time_limit_s"],
        script:
            "../scripts/check.py"
