"""Set every GPU that has records beside the others."""

from pathlib import Path

from ladder.model.shape import Shape
from ladder.show.across import at_one_size, by_size
from ladder.show.style import save
from ladder.system.paths import ROOT
from ladder.system.terminal import job
from ladder.tables.across import across_table
from ladder.tables.files import write_table

with job(snakemake):
    params, output = snakemake.params, snakemake.output
    shapes = [Shape.parse(shape) for shape in params.shapes] or None
    table = across_table(ROOT / "results", params.rungs, shapes, params.baseline, params.first)
    save(at_one_size(table, params.baseline), [Path(output.svg), Path(output.png)])
    save(by_size(table), [Path(output.by_size_svg), Path(output.by_size_png)])
    write_table(table, Path(output.table))
