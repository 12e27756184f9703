"""Make every table from the records of this run's rungs."""

from pathlib import Path

from ladder.config.plan import plan_of_run
from ladder.system.terminal import one_line_errors
from ladder.tables.every import all_tables
from ladder.tables.evidence import read_evidence
from ladder.tables.files import write_table

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    inspections = Path(snakemake.input.inspections[0]).parent
    emulated = {Path(path).stem: Path(path) for path in snakemake.input.emulated}
    evidence = [
        read_evidence(rung, inspections / f"{rung.name}.json", run.raw(), list(run.shapes), emulated.get(rung.name))
        for rung in run.rungs
    ]
    for name, table in all_tables(evidence, run.gpu, run.baseline.name, run.first.name).items():
        write_table(table, Path(f"results/{run.gpu.name}/tables/{name}.csv"))
