"""Set every GPU that has records beside the others."""

from pathlib import Path

from ladder.config.plan import plan_of_run
from ladder.show.across import at_one_size, by_size
from ladder.show.style import save
from ladder.system.paths import ROOT
from ladder.system.terminal import one_line_errors
from ladder.tables.across import across_table
from ladder.tables.files import write_table

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    shapes = None if run.settings["sizes"] == "gpu" else list(run.shapes)
    table = across_table(ROOT / "results", run.rungs, shapes, run.baseline.name, run.first.name)
    output = snakemake.output
    save(at_one_size(table, run.baseline.name), [Path(output.svg), Path(output.png)])
    save(by_size(table), [Path(output.by_size_svg), Path(output.by_size_png)])
    write_table(table, Path(output.table))
