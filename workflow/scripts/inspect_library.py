"""Read registers, shared memory, spills and launches from one compiled rung."""

from pathlib import Path

from ladder.build.compile import Build
from ladder.build.inspection import inspect
from ladder.build.toolchain import find_nvcc
from ladder.records import store
from ladder.system.terminal import job

with job(snakemake):
    (gpu,), shapes, log = snakemake.params.gpu, snakemake.params.shapes, Path(snakemake.log[0])
    nvcc = find_nvcc(snakemake.params.nvcc)
    calculator = Path(snakemake.input.calculator) if snakemake.input.calculator else None
    products = list(snakemake.params.products)
    record = inspect(Build(Path(snakemake.input.build)), shapes, gpu, log, nvcc, calculator, products)
    store.write_json(Path(snakemake.output[0]), record)
