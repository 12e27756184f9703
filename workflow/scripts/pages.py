"""Write one page a rung and their index, from the tables and the inspections."""

from pathlib import Path

from ladder import records
from ladder.pages import index, page
from ladder.plan import plan_of_run
from ladder.script import one_line_errors
from ladder.tables import read_table

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    tables = {Path(path).stem: read_table(path) for path in snakemake.input.tables}
    rungs = [rung for rung in run.rungs if rung.role != "floor"]
    folder = Path(snakemake.output.index).parent
    for rung, path in zip(rungs, snakemake.input.inspections, strict=True):
        records.write_text(folder / f"{rung.name}.md", page(rung, records.read_json(Path(path)), tables))
    records.write_text(Path(snakemake.output.index), index(rungs, tables))
