"""Draw the figures that say why, from the tables."""

from pathlib import Path

from ladder.show.figures import why
from ladder.show.static import draw, save
from ladder.system.terminal import job
from ladder.tables.files import read_table

with job(snakemake):
    params, folder = snakemake.params, Path(snakemake.output[0]).parent
    (gpu,) = params.gpu
    tables = {Path(path).stem: read_table(path) for path in snakemake.input.tables}
    caption = f"Recorded on {params.recorded}; profiles by Nsight Compute, code by nvcc."
    for name, figure in why.figures(tables, gpu, params.baseline, params.ladder).items():
        save(draw(figure, caption), [folder / f"{name}.svg", folder / f"{name}.png"])
