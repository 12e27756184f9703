"""Draw the README's figure from the tables."""

from pathlib import Path

from ladder.config.plan import plan_of_run, recorded_on
from ladder.show.overview import overview
from ladder.show.style import save
from ladder.system.terminal import one_line_errors
from ladder.tables.files import read_table

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    tables = [read_table(path) for path in (snakemake.input.timings, snakemake.input.rungs, snakemake.input.accuracy)]
    caption = f"Recorded on {recorded_on(run.raw())}; medians."
    ladder = [rung.entry for rung in run.ladder.values() if rung.role == "rung"]
    figure = overview(*tables, run.baseline.name, caption, ladder)
    save(figure, [Path(snakemake.output.svg), Path(snakemake.output.png)])
