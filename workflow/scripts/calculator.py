"""Compile NVIDIA's occupancy calculator."""

from pathlib import Path

from ladder.occupancy import compile_calculator
from ladder.script import one_line_errors
from ladder.toolchain import find_nvcc

with one_line_errors(snakemake.log[0]):
    compile_calculator(find_nvcc(snakemake.params.nvcc), Path(snakemake.output[0]))
