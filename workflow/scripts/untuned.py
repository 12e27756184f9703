"""Say that no trial is recorded."""

from ladder.system.errors import LadderError
from ladder.system.terminal import job

with job(snakemake):
    raise LadderError(f"tune: no trial is recorded for {snakemake.params.title}; run it on a machine with that GPU")
