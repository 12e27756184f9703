"""Check one rung in the emulator, on the CPU."""

from pathlib import Path

from ladder.build.compile import Build
from ladder.build.emulator import EMULATED
from ladder.config.plan import plan_of_run
from ladder.measure.check.emulate import emulate_rung
from ladder.records import store
from ladder.system.terminal import Progress, one_line_errors

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    name, log = snakemake.wildcards.kernel, Path(snakemake.log[0])
    cases = snakemake.params.cases
    progress = Progress("emulate", name, run.checked)
    record = emulate_rung(
        run.by_name(name),
        Build(Path(snakemake.input.build)),
        cases,
        snakemake.threads,
        snakemake.params.time_limit_s,
        log,
        Path(snakemake.input.engine),
    )
    store.write_json(Path(snakemake.output[0]), {"rung": name, **record})
    told = f"{len(record['cases'])} cases" if record["status"] == EMULATED else record["message"]
    progress.ended(record["status"], told)
