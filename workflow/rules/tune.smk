# tune: which parameters are best? It tries what config/kernels.yaml declares; no part of `all` where it measures.
TRIED = [
    entry
    for entry in PLAN.tuned_entries
    if PLAN.measuring or os.path.exists(f"{RAW}/trials/{entry}.json.gz")
]
# A run that does not measure derives these as it derives everything that is recorded; one that does leaves them alone.
TUNING = (
    [f"{DERIVED}/tables/trials.csv"]
    + [f"{DERIVED}/figures/tuning.{ending}" for ending in ("svg", "png")]
    if TRIED and not PLAN.measuring
    else []
)


if PLAN.measuring:

    rule trial_builds:
        """The libraries of an entry's trials."""
        input:
            lambda wildcards: [
                shown(path) for path in sources(PLAN.of_entry(wildcards.entry))
            ],
        output:
            f"{BUILD}/{{gpu}}/trials/{{entry}}.json",
        log:
            f"{LOGS}/{{gpu}}/trial_builds/{{entry}}.log",
        conda:
            CONDA
        threads: 4
        params:
            rung=lambda wildcards: [PLAN.of_entry(wildcards.entry)],
            gpu=[PLAN.gpu],
            nvcc=SETTINGS["compile"]["nvcc"],
            flags=SETTINGS["compile"]["flags"],
        script:
            "../scripts/trial_builds.py"

    rule trials:
        """The trials of an entry: checked, timed, recorded."""
        input:
            builds=f"{BUILD}/{{gpu}}/trials/{{entry}}.json",
            baseline=f"{BUILD}/{{gpu}}/rungs/{PLAN.baseline.name}",
            measured_on=MEASURED_ON,
        output:
            update(f"{RAW_OF}/trials/{{entry}}.json.gz"),
        log:
            f"{LOGS}/{{gpu}}/trials/{{entry}}.log",
        conda:
            CONDA
        resources:
            gpu=GPUS_OF_A_JOB,
            gres=PLAN.gpu.gres,
        params:
            devices=SETTINGS["devices"],
            rungs=lambda wildcards: [
                rung for rung in PLAN.ladder.values() if rung.entry == wildcards.entry
            ],
            tune=SETTINGS["tune"],
            timing=SETTINGS["timing"],
            cases=SETTINGS["check"]["cases"],
            shapes=lambda wildcards: [
                str(shape) for shape in PLAN.tune_shapes_of(wildcards.entry)
            ],
        script:
            "../scripts/trials.py"


if TRIED:

    rule tune:
        """Each rung's best parameters on this GPU, for later runs; without a GPU what is recorded of it."""
        input:
            trials=[f"{RAW}/trials/{entry}.json.gz" for entry in TRIED],
            code=code("tune"),
        output:
            table=in_report(f"{DERIVED}/tables/trials.csv", "trials"),
            svg=in_report(f"{DERIVED}/figures/tuning.svg", "trials"),
            png=f"{DERIVED}/figures/tuning.png",
            tuned=[update(PLAN.tuned_path)] if PLAN.measuring else [],
        log:
            f"{LOGS}/{GPU}/tune.log",
        conda:
            CONDA
        params:
            gpu=[PLAN.gpu],
            ladder=list(PLAN.ladder.values()),
            rungs=[PLAN.of_entry(entry) for entry in TRIED],
            sizes=[str(shape) for shape in PLAN.tune_shapes],
            shapes={
                entry: [str(shape) for shape in PLAN.tune_shapes_of(entry)]
                for entry in TRIED
            },
            not_tuned=PLAN.not_tuned,
        script:
            "../scripts/tune.py"

else:

    rule tune:
        """Each rung's best parameters on this GPU, for later runs; without a GPU what is recorded of it."""
        log:
            f"{LOGS}/{GPU}/tune.log",
        conda:
            CONDA
        params:
            title=PLAN.gpu.title,
            not_tuned=PLAN.not_tuned,
        script:
            "../scripts/untuned.py"
