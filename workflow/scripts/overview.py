"""Draw the README's figure from the tables."""

from pathlib import Path

from ladder.show.dark import darken
from ladder.show.figures import overview
from ladder.show.static import draw, save
from ladder.system.terminal import job
from ladder.tables.files import read_table

with job(snakemake):
    params, given, output = snakemake.params, snakemake.input, snakemake.output
    tables = [read_table(path) for path in (given.timings, given.rungs, given.accuracy)]
    figure = overview.figure(*tables, params.baseline, params.ladder)
    picture = draw(figure, f"Recorded on {params.recorded}; medians.")
    save(picture, [Path(output.svg), Path(output.png)])
    save(darken(picture), [Path(output.dark)])
