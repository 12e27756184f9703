"""Compile the emulator's engine and headers."""

from pathlib import Path

from ladder.build.emulator import compile_engine
from ladder.system.terminal import one_line_errors

with one_line_errors(snakemake.log[0]):
    compile_engine(Path(snakemake.output.engine), Path(snakemake.output.headers))
