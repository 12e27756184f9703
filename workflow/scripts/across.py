"""Set every GPU that has records beside the others."""

from pathlib import Path

from ladder.config.plan import plan_of_run
from ladder.show.figures import gpus, gpus_by_size
from ladder.show.static import draw, save
from ladder.system.paths import ROOT
from ladder.system.terminal import one_line_errors
from ladder.tables.across import across_table, caption
from ladder.tables.files import write_table

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    shapes = None if run.settings["sizes"] == "gpu" else list(run.shapes)
    table = across_table(ROOT / "results", run.rungs, shapes, run.baseline.name, run.first.name)
    output = snakemake.output
    where = caption(table)
    save(draw(gpus.figure(table, run.baseline.name), where), [Path(output.svg), Path(output.png)])
    save(draw(gpus_by_size.figure(table), where), [Path(output.by_size_svg), Path(output.by_size_png)])
    write_table(table, Path(output.table))
