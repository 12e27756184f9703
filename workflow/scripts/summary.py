"""Print the summary of the run, and fail where a rung failed."""

from pathlib import Path

from ladder.show.summary import FAILURES, run_summary
from ladder.system.errors import LadderError
from ladder.system.terminal import job, say
from ladder.tables.files import read_table

with job(snakemake):
    rungs, timings = read_table(snakemake.input.rungs), read_table(snakemake.input.timings)
    text = run_summary(rungs, timings, snakemake.params.headline, f"results/{snakemake.wildcards.gpu}")
    say("\n" + text)
    Path(snakemake.output[0]).write_text(text)
    failed = rungs.loc[rungs["status"].isin(FAILURES), "rung"]
    if len(failed):
        raise LadderError(f"{len(failed)} of {len(rungs)} rungs failed: {', '.join(failed)}")
