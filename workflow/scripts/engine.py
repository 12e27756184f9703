"""Compile the emulator's engine and headers."""

from pathlib import Path

from ladder.build.emulator import compile_engine
from ladder.system.terminal import job

with job(snakemake):
    compile_engine(Path(snakemake.output.engine), Path(snakemake.output.headers))
