"""Check one rung in the emulator, on the CPU."""

from pathlib import Path

from ladder.build.compile import Build
from ladder.build.emulator import EMULATED
from ladder.measure.check.emulate import emulate_rung
from ladder.records import store
from ladder.system.terminal import job

with job(snakemake) as progress:
    (rung,) = snakemake.params.rung
    record = emulate_rung(
        rung,
        Build(Path(snakemake.input.build)),
        snakemake.params.cases,
        snakemake.threads,
        snakemake.params.time_limit_s,
        Path(snakemake.log[0]),
        Path(snakemake.input.engine),
    )
    store.write_json(Path(snakemake.output[0]), {"rung": rung.name, **record})
    told = f"{len(record['cases'])} cases" if record["status"] == EMULATED else record["message"]
    progress.ended(record["status"], told)
