"""Draw sustained launches beside isolated ones, and their energy, from the tables."""

from pathlib import Path

from ladder.show.figures import sustained
from ladder.show.static import draw, save
from ladder.system.terminal import job
from ladder.tables.files import read_table

with job(snakemake):
    given, params, output = snakemake.input, snakemake.params, snakemake.output
    figure = sustained.figure(read_table(given.sustained), read_table(given.rungs))
    save(draw(figure, f"Recorded on {params.recorded}."), [Path(output.svg), Path(output.png)])
