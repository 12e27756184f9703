"""Draw the README's figure from the tables."""

from pathlib import Path

from ladder.show.overview import overview
from ladder.show.style import save
from ladder.system.terminal import job
from ladder.tables.files import read_table

with job(snakemake):
    params, given, output = snakemake.params, snakemake.input, snakemake.output
    tables = [read_table(path) for path in (given.timings, given.rungs, given.accuracy)]
    figure = overview(*tables, params.baseline, f"Recorded on {params.recorded}; medians.", params.ladder)
    save(figure, [Path(output.svg), Path(output.png)])
