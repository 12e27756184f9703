"""Say that no trial is recorded, and what claims no size to be tuned at."""

from ladder.system.errors import LadderError
from ladder.system.terminal import job, say

with job(snakemake):
    for line in snakemake.params.not_tuned:
        say(line)
    raise LadderError(f"tune: no trial is recorded for {snakemake.params.title}; run it on a machine with that GPU")
