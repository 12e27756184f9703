"""Write the HTML report of a GPU."""

from pathlib import Path

from ladder.records.store import write_text
from ladder.show.report import Material, render
from ladder.system.terminal import job
from ladder.tables.files import read_table

with job(snakemake):
    params, target = snakemake.params, Path(snakemake.output[0])
    (gpu,), tables = params.gpu, [Path(path) for path in snakemake.input.tables]
    material = Material(
        gpu=gpu,
        recorded=params.recorded,
        baseline=params.baseline,
        rungs=params.rungs,
        ladder=params.ladder,
        tables={path.stem: read_table(path) for path in tables},
        results=target.parent,
    )
    write_text(target, render(material))
