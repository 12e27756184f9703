"""Make every table from the records of this run's rungs."""

from pathlib import Path

from ladder.model.shape import Shape
from ladder.records.hardware import read_hardware
from ladder.system.terminal import job
from ladder.tables.every import all_tables
from ladder.tables.evidence import read_evidence
from ladder.tables.files import write_table

with job(snakemake):
    params, output = snakemake.params, {Path(path).stem: Path(path) for path in snakemake.output}
    (gpu,), shapes = params.gpu, [Shape.parse(shape) for shape in params.shapes]
    inspections = Path(snakemake.input.inspections[0]).parent
    emulated = {Path(path).stem: Path(path) for path in snakemake.input.emulated}
    sustained = {Path(path).stem for path in snakemake.input.sustained}
    elsewhere = [Path(path) for path in snakemake.input.elsewhere]
    evidence = [
        read_evidence(
            *(rung, inspections / f"{rung.name}.json", Path(params.raw), shapes, emulated.get(rung.name)),
            sanitized=rung.name in params.sanitized,
            passed_on=params.passed_on.get(rung.name, ""),
            sustained=rung.name in sustained,
            elsewhere=[path for path in elsewhere if path.name == f"{rung.name}.json.xz"],
        )
        for rung in params.rungs
    ]
    hardware = read_hardware(Path(snakemake.input.hardware[0])) if snakemake.input.hardware else None
    for name, table in all_tables(evidence, gpu, params.baseline, params.first, hardware).items():
        if name in output:
            write_table(table, output[name])
