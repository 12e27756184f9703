# shipped: a device of the user's own beside the records that ship, which are never mixed.
RECORDS_THAT_SHIP = (
    present(f"results/{GPU}/raw/time/{name}.zip" for name in RUNGS) if PLAN.own else []
)
SHIPPED = [f"{DERIVED}/tables/shipped.csv"] if RECORDS_THAT_SHIP and FIGURES else []


if SHIPPED:

    rule shipped:
        """This device's times beside those that ship, as a table and a figure."""
        input:
            own=records("time", "zip", RUNGS),
            shipped=RECORDS_THAT_SHIP,
            timings=f"{DERIVED}/tables/timings.csv",
            code=code("shipped"),
        output:
            table=in_report(f"{DERIVED}/tables/shipped.csv", "shipped"),
            svg=in_report(f"{DERIVED}/figures/shipped.svg", "shipped"),
            png=f"{DERIVED}/figures/shipped.png",
        log:
            f"{LOGS}/{GPU}/shipped.log",
        priority: AWAITED
        conda:
            CONDA
        params:
            gpu=GPU,
            raw=RAW,
            recorded=caption_of,
            shipped=recorded_on(Path(f"results/{GPU}/raw")),
        script:
            "../scripts/shipped.py"
