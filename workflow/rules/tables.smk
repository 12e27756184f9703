# tables: everything recorded, as tidy CSV. Derived from raw alone: equal records give equal bytes.
TABLES = [
    "rungs",
    "timings",
    "geomeans",
    "checks",
    "resources",
    "instructions",
    "ways",
    "paper",
    "predictions",
    "prediction_fit",
    "levers",
    "profiles",
    "advice",
    "metrics_by_rung",
    "slots",
    "diagnosis",
    "hotspots",
    "hot_instructions",
    "executed",
    "memory",
    "environment",
    "records",
    "samples",
] + (["sustained"] if SUSTAINED else [])
SHOWN_TABLES = ["rungs", "timings", "geomeans", "environment"]  # in Snakemake's report


rule tables:
    """Everything recorded, as tidy CSV."""
    input:
        inspections=[f"{BUILD}/{GPU}/inspect/{name}.json" for name in RUNGS],
        emulated=[f"{BUILD}/{GPU}/emulated/{name}.json" for name in CHECKED],
        checks=records("check", "json", CHECKED),
        timings=records("time", "zip", RUNGS),
        sustained=SUSTAINED,
        hardware=HARDWARE,
        profiles=records("profile", "json.xz", PLAN.profiled),
        elsewhere=[os.path.relpath(path) for path in PLAN.profiled_elsewhere],
        code=code("tables"),
    output:
        [in_report(path, "tables") for path in table_files(SHOWN_TABLES)],
        table_files(name for name in TABLES if name not in SHOWN_TABLES),
    log:
        f"{LOGS}/{GPU}/tables.log",
    priority: AWAITED
    conda:
        CONDA
    params:
        gpu=[PLAN.gpu],
        raw=lambda wildcards: RAW,
        rungs=list(PLAN.rungs),
        shapes=SHAPES,
        passed_on=lambda wildcards: {} if PLAN.measuring else PLAN.passed_on(),
        baseline=PLAN.baseline.name,
        first=PLAN.first.name,
        sanitized={
            Path(path).stem: digest_files([Path(path)]) for path in present(SANITIZED)
        },
    script:
        "../scripts/tables.py"
