"""Print the summary of the run, and fail where a rung failed."""

from pathlib import Path

from ladder.show.summary import run_summary, why_run_fails
from ladder.system.errors import LadderError
from ladder.system.terminal import job, say
from ladder.tables.files import read_table

with job(snakemake):
    rungs, timings = read_table(snakemake.input.rungs), read_table(snakemake.input.timings)
    text = run_summary(rungs, timings, snakemake.params.headline, f"results/{snakemake.wildcards.gpu}")
    say("\n" + text)
    Path(snakemake.output[0]).write_text(text)
    if why := why_run_fails(rungs):
        raise LadderError(why)
