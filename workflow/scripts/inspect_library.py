"""Read registers, shared memory, spills and launches from one compiled rung."""

from pathlib import Path

from ladder.build.compile import Build
from ladder.build.inspection import inspect
from ladder.build.occupancy import limits_of
from ladder.build.toolchain import find_nvcc
from ladder.config.plan import plan_of_run
from ladder.records import store
from ladder.system.terminal import one_line_errors

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    shapes, sms, log = snakemake.params.shapes, snakemake.params.sms, Path(snakemake.log[0])
    nvcc = find_nvcc(run.settings["compile"]["nvcc"])
    calculator = Path(snakemake.input.calculator) if snakemake.input.calculator else None
    record = inspect(Build(Path(snakemake.input.build)), shapes, sms, log, nvcc, limits_of(run.gpu), calculator)
    store.write_json(Path(snakemake.output[0]), record)
