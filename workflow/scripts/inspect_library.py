"""Read registers, shared memory, spills and launches from one compiled rung."""

from pathlib import Path

from ladder import records
from ladder.build import Build
from ladder.inspection import inspect
from ladder.occupancy import limits_of
from ladder.plan import plan_of_run
from ladder.script import one_line_errors
from ladder.toolchain import find_nvcc

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    shapes, sms, log = snakemake.params.shapes, snakemake.params.sms, Path(snakemake.log[0])
    nvcc = find_nvcc(run.settings["compile"]["nvcc"])
    calculator = Path(snakemake.input.calculator) if snakemake.input.calculator else None
    record = inspect(Build(Path(snakemake.input.build)), shapes, sms, log, nvcc, limits_of(run.gpu), calculator)
    records.write_json(Path(snakemake.output[0]), record)
