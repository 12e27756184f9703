"""Compile NVIDIA's occupancy calculator."""

from pathlib import Path

from ladder.build.occupancy import compile_calculator
from ladder.build.toolchain import find_nvcc
from ladder.system.terminal import job

with job(snakemake):
    compile_calculator(find_nvcc(snakemake.params.nvcc), Path(snakemake.output[0]))
