"""Make the table of the trials behind docs/performance.md."""

from pathlib import Path

from ladder.system.terminal import job
from ladder.tables.experiments import experiment_table
from ladder.tables.files import write_table

with job(snakemake):
    table = experiment_table([Path(path) for path in snakemake.input.records], snakemake.params.baseline)
    write_table(table, Path(snakemake.output[0]))
