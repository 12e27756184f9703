"""Draw the figures over sizes from the tables."""

from pathlib import Path

from ladder.show.figures import by_size
from ladder.show.static import draw, save
from ladder.system.terminal import job
from ladder.tables.files import read_table

with job(snakemake):
    params, folder = snakemake.params, Path(snakemake.output[0]).parent
    timings, rungs = read_table(snakemake.input.timings), read_table(snakemake.input.rungs)
    caption = f"Recorded on {params.recorded}; medians with their 95 % intervals; ratios measured side by side."
    figures = by_size.figures(timings, rungs, params.baseline, params.peak_gflops, params.ladder)
    for name, figure in figures.items():
        save(draw(figure, caption), [folder / f"{name}.svg", folder / f"{name}.png"])
