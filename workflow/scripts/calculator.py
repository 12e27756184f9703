"""Compile NVIDIA's occupancy calculator."""

from pathlib import Path

from ladder.build.occupancy import compile_calculator
from ladder.build.toolchain import find_nvcc
from ladder.system.terminal import one_line_errors

with one_line_errors(snakemake.log[0]):
    compile_calculator(find_nvcc(snakemake.params.nvcc), Path(snakemake.output[0]))
