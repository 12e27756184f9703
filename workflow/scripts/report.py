"""Write the HTML report of a GPU."""

from pathlib import Path

from ladder.plan import plan_of_run
from ladder.records import write_text
from ladder.report import gather, render
from ladder.script import one_line_errors

with one_line_errors(snakemake.log[0]):
    target = Path(snakemake.output[0])
    write_text(target, render(gather(plan_of_run(snakemake.config), target.parent)))
