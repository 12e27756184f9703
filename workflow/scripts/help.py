"""Print what can be asked of Snakemake here."""

from ladder.system.terminal import one_line_errors

with one_line_errors(snakemake.log[0]):
    print(snakemake.params.listing)
