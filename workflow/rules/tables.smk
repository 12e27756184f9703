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
]


rule tables:
    """Everything recorded, as tidy CSV."""
    input:
        inspections=[f"build/{GPU}/inspect/{name}.json" for name in RUNGS],
        emulated=[
            f"build/{GPU}/emulated/{name}.json"
            for name in RUNGS
            if name in PLAN.checked
        ],
        checks=records(
            "check", "json", [name for name in RUNGS if name in PLAN.checked]
        ),
        timings=records("time", "zip", RUNGS),
        profiles=records("profile", "json.gz", PLAN.profiled),
        sanitized=[path for path in SANITIZED if os.path.exists(path)],
    output:
        [
            report(
                f"results/{{gpu}}/tables/{table}.csv",
                caption="../report/tables.rst",
                category="Tables",
                labels={"table": table, "GPU": "{gpu}"},
            )
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
        package=PACKAGE,
        rungs=RUNGS,
        shapes=SHAPES,
    script:
        "../scripts/tables.py"
