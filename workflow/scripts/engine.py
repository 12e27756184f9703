"""Compile the emulator's engine."""

from pathlib import Path

from ladder.emulation import compile_engine
from ladder.script import one_line_errors

with one_line_errors(snakemake.log[0]):
    compile_engine(Path(snakemake.output[0]))
