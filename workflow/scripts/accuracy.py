"""The errors against k of every recorded rung, as a table and a figure."""

from pathlib import Path

from ladder.config.sources import source_digest
from ladder.records import store
from ladder.show.figures import accuracy
from ladder.show.origin import changed_line
from ladder.show.static import draw, save
from ladder.system.terminal import job
from ladder.tables.accuracy import accuracy_table, clocks
from ladder.tables.files import read_table, write_table

with job(snakemake):
    rungs, params, output = snakemake.params.rungs, snakemake.params, snakemake.output
    recorded = {path.stem: store.read_record(path) for path in map(Path, snakemake.input.records)}
    digests = {rung.name: source_digest(rung) for rung in rungs}
    table = accuracy_table(recorded, {rung.name: rung.precision for rung in rungs}, digests)
    write_table(table, Path(output.table))
    caption = f"Recorded on {params.recorded}."
    if clock := clocks(recorded):
        caption += f" Time is the median of launches at that shape, by {clock}."
    caption = f"{caption} {changed_line(table)}".strip()
    figure = accuracy.figure(table, read_table(snakemake.input.rungs), params.baseline, params.ladder)
    save(draw(figure, caption), [Path(output.svg), Path(output.png)])
