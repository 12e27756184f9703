"""The table of the GPU's parts, from its record."""

from pathlib import Path

from ladder.records.hardware import read_hardware
from ladder.system.terminal import job
from ladder.tables.files import write_table
from ladder.tables.hardware import hardware_table

with job(snakemake):
    (gpu,) = snakemake.params.gpu
    write_table(hardware_table(read_hardware(Path(snakemake.input.record)), gpu), Path(snakemake.output[0]))
