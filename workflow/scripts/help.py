"""Print what can be asked of Snakemake here."""

from ladder.system.terminal import job

with job(snakemake):
    print(snakemake.params.listing)
