"""Compile the emulator's engine and headers."""

from pathlib import Path

from ladder.build.emulator import compile_engine
from ladder.system.terminal import job

with job(snakemake):
    Path(snakemake.log[0]).write_text(f"g++ {snakemake.params.gxx or 'not found'}\n")  # another one compiles anew
    compile_engine(Path(snakemake.output.engine), Path(snakemake.output.headers))
