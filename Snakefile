# gemm-ladder: `snakemake --cores all` compiles, checks, times and profiles every rung, and draws what was found.
report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/compile.smk"
include: "workflow/rules/inspect.smk"
include: "workflow/rules/check.smk"
include: "workflow/rules/time.smk"
include: "workflow/rules/sustained.smk"
include: "workflow/rules/hardware.smk"
include: "workflow/rules/survey.smk"
include: "workflow/rules/profile.smk"
include: "workflow/rules/unmeasured.smk"
include: "workflow/rules/sanitize.smk"
include: "workflow/rules/accuracy.smk"
include: "workflow/rules/tune.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/experiments.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/drawings.smk"
include: "workflow/rules/shipped.smk"
include: "workflow/rules/pages.smk"
include: "workflow/rules/compare.smk"
include: "workflow/rules/across.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/evidence.smk"


# What says something to the user, or copies files for git, does it here, also where jobs are sent to nodes.
localrules:
    all,
    help,
    gpu_file,
    sanitize,
    compare,
    evidence,


rule all:
    """What a plain run makes: tables, figures, pages, report, summary; it fails where a rung failed."""
    default_target: True
    input:
        refuse_to_measure(*stages_to_stop_after(ARGUMENTS)),
        refuse_several_stages,
        ALL_TABLES,
        figure_files(
            FIGURES + SUSTAINING + SURVEY_SHOWN + PUBLISHED + ANALYSIS + OVERVIEW,
            "svg",
        ),
        figure_files(
            FIGURES + SUSTAINING + SURVEY_SHOWN + PUBLISHED + ANALYSIS + OVERVIEW,
            "png",
        ),
        ACCURACY_FILES,
        TUNING,
        PAGE_FILES,
        f"{DERIVED}/report.html",
        rungs=f"{DERIVED}/tables/rungs.csv",
        timings=f"{DERIVED}/tables/timings.csv",
        shipped=SHIPPED,
        sustained=table_files(SUSTAINING),
        surveyed=[path for path in SURVEY_READ if "classes" in path],
    log:
        f"{LOGS}/{GPU}/summary.log",
    conda:
        CONDA
    params:
        headline=PLAN.headline,
        made=lambda wildcards: derived_files(),
    script:
        str(WORKFLOW / "scripts/summary.py")


rule help:
    """This list."""
    log:
        f"{LOGS}/help.log",
    conda:
        "envs/gemm-ladder.yaml"
    params:
        listing=lambda wildcards: listing(workflow, PLAN.ladder),
    script:
        "workflow/scripts/help.py"


rule gpu_file:
    """Keep the properties of the GPU that is here as a file in config/gpus."""
    log:
        f"{LOGS}/gpu_file.log",
    conda:
        "envs/gemm-ladder.yaml"
    params:
        devices=SETTINGS["devices"],
    script:
        "workflow/scripts/gpu_file.py"


offer_targets(workflow)
