# tables: everything recorded, as tidy CSV. Derived from raw alone: equal records give equal bytes.
TABLES = [
    "rungs",
    "timings",
    "geomeans",
    "checks",
    "resources",
    "instructions",
    "paper",
    "profiles",
    "advice",
    "metrics_by_rung",
    "slots",
    "diagnosis",
    "hotspots",
    "environment",
    "records",
    "samples",
]


rule tables:
    """Everything recorded, as tidy CSV."""
    input:
        inspections=[f"build/{GPU}/inspect/{name}.json" for name in RUNGS],
        emulated=[f"build/{GPU}/emulated/{name}.json" for name in CHECKED],
        checks=records("check", "json", CHECKED),
        timings=records("time", "zip", RUNGS),
        profiles=records("profile", "json.gz", PLAN.profiled),
        code=code("tables"),
    output:
        [
            in_report(f"results/{{gpu}}/tables/{table}.csv", "tables")
            for table in ["rungs", "timings", "geomeans", "environment"]
        ],
        expand(
            "results/{{gpu}}/tables/{table}.csv",
            table=[
                table
                for table in TABLES
                if table not in ["rungs", "timings", "geomeans", "environment"]
            ],
        ),
    log:
        "logs/{gpu}/tables.log",
    priority: AWAITED
    conda:
        CONDA
    params:
        gpu=[PLAN.gpu],
        rungs=list(PLAN.rungs),
        shapes=SHAPES,
        baseline=PLAN.baseline.name,
        first=PLAN.first.name,
        sanitized={
            Path(path).stem: digest_files([Path(path)]) for path in present(SANITIZED)
        },
    script:
        "../scripts/tables.py"
