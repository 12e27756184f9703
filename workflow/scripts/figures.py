"""Draw every figure from the tables."""

from pathlib import Path

from ladder.figures import all_figures, save
from ladder.plan import plan, recorded_on
from ladder.script import one_line_errors
from ladder.tables import read_table

with one_line_errors(snakemake.log[0]):
    run = plan(snakemake.config)
    timings, rungs = read_table(snakemake.input.timings), read_table(snakemake.input.rungs)
    caption = f"Recorded on {recorded_on(run.raw())}; medians with their 95 % intervals."
    folder = Path(snakemake.output[0]).parent
    for name, figure in all_figures(timings, rungs, run.baseline.name, run.gpu.peak_gflops, caption).items():
        save(figure, [folder / f"{name}.svg", folder / f"{name}.png"])
