"""Write the HTML report of a GPU."""

from pathlib import Path

from ladder.config.plan import plan_of_run
from ladder.records.store import write_text
from ladder.show.report import gather, render
from ladder.system.terminal import one_line_errors

with one_line_errors(snakemake.log[0]):
    target = Path(snakemake.output[0])
    write_text(target, render(gather(plan_of_run(snakemake.config), target.parent)))
