"""Write one page a rung and their index, from the tables and the inspections."""

from pathlib import Path

from ladder.config.plan import plan_of_run
from ladder.records import store
from ladder.show.pages import page, pages_index
from ladder.system.terminal import one_line_errors
from ladder.tables.files import read_table

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    tables = {Path(path).stem: read_table(path) for path in snakemake.input.tables}
    rungs = [rung for rung in run.rungs if rung.role != "floor"]
    folder = Path(snakemake.output.index).parent
    for rung, path in zip(rungs, snakemake.input.inspections, strict=True):
        store.write_text(folder / f"{rung.name}.md", page(rung, store.read_json(Path(path)), tables))
    store.write_text(Path(snakemake.output.index), pages_index(rungs, tables))
