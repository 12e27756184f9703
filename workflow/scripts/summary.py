"""Print the summary of the run, and fail where a rung failed."""

import sys
from pathlib import Path

from ladder.show.summary import FAILURES, run_summary
from ladder.system.terminal import one_line_errors, say
from ladder.tables.files import read_table

with one_line_errors(snakemake.log[0]):
    rungs, timings = read_table(snakemake.input.rungs), read_table(snakemake.input.timings)
    text = run_summary(rungs, timings, snakemake.params.headline, f"results/{snakemake.wildcards.gpu}")
    say("\n" + text)
    Path(snakemake.output[0]).write_text(text)
    if rungs["status"].isin(FAILURES).any():
        sys.exit(1)
