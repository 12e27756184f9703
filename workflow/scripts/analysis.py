"""Draw the figures that say why, from the tables."""

from pathlib import Path

from ladder.config.plan import plan_of_run, recorded_on
from ladder.show.figures import why
from ladder.show.static import draw, save
from ladder.system.terminal import one_line_errors
from ladder.tables.files import read_table

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    tables = {Path(path).stem: read_table(path) for path in snakemake.input.tables}
    folder = Path(snakemake.output[0]).parent
    ladder = [rung.entry for rung in run.ladder.values() if rung.role == "rung"]
    recorded = recorded_on(run.raw())
    caption = (
        f"Recorded on {recorded}; profiles by Nsight Compute, code by nvcc." if recorded else "Nothing is measured."
    )
    for name, figure in why.figures(tables, run.gpu, run.baseline.name, ladder).items():
        save(draw(figure, caption), [folder / f"{name}.svg", folder / f"{name}.png"])
