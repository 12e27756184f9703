"""Write one page a rung and their index, from the tables and the inspections."""

from pathlib import Path

from ladder.records import store
from ladder.show.hardware_page import hardware_page
from ladder.show.pages import page, pages_index
from ladder.show.timeline import timeline
from ladder.system.terminal import job
from ladder.tables.files import read_table

with job(snakemake):
    tables = {Path(path).stem: read_table(path) for path in snakemake.input.tables}
    rungs, output = snakemake.params.rungs, snakemake.output
    for rung, inspection, target in zip(rungs, snakemake.input.inspections, output.pages, strict=True):
        store.write_text(Path(target), page(rung, store.read_json(Path(inspection)), tables))
    store.write_text(Path(output.index), pages_index(rungs, tables))
    store.write_text(Path(output.timeline), timeline(rungs, tables))
    for target in output.hardware:
        store.write_text(Path(target), hardware_page(tables["hardware"]))
