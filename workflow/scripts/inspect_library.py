"""Read registers, shared memory, spills and launches from one compiled rung."""

from pathlib import Path

from ladder import records
from ladder.build import Build
from ladder.config import Shape
from ladder.inspection import inspect
from ladder.script import one_line_errors

with one_line_errors(snakemake.log[0]):
    shapes = [Shape.parse(shape) for shape in snakemake.params.shapes]
    record = inspect(Build(Path(snakemake.input[0])), shapes, snakemake.params.sms)
    records.write_json(Path(snakemake.output[0]), record)
