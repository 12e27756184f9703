"""Draw every figure from the tables."""

from pathlib import Path

from ladder.config.plan import plan_of_run, recorded_on
from ladder.show.figures import by_size
from ladder.show.static import draw, save
from ladder.system.terminal import one_line_errors
from ladder.tables.files import read_table

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    timings, rungs = read_table(snakemake.input.timings), read_table(snakemake.input.rungs)
    caption = f"Recorded on {recorded_on(run.raw())}; medians with their 95 % intervals; ratios measured side by side."
    folder = Path(snakemake.output[0]).parent
    ladder = [rung.entry for rung in run.ladder.values() if rung.role == "rung"]
    figures = by_size.figures(timings, rungs, run.baseline.name, run.gpu.peak_gflops, ladder)
    for name, figure in figures.items():
        save(draw(figure, caption), [folder / f"{name}.svg", folder / f"{name}.png"])
