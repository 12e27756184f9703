"""Read registers, shared memory, spills and launches from one compiled rung."""

from pathlib import Path

from ladder import records
from ladder.build import Build
from ladder.inspection import inspect
from ladder.script import one_line_errors

with one_line_errors(snakemake.log[0]):
    shapes, sms, log = snakemake.params.shapes, snakemake.params.sms, Path(snakemake.log[0])
    record = inspect(Build(Path(snakemake.input[0])), shapes, sms, log)
    records.write_json(Path(snakemake.output[0]), record)
