"""Check one rung on the GPU and record the verdict."""

from pathlib import Path

from ladder import records
from ladder.build import Build, environment, settings_digest
from ladder.checking import check_rung, describe, merge_check
from ladder.config import ROOT
from ladder.plan import plan
from ladder.script import Progress, one_line_errors
from ladder.worker import gpu_lock

with one_line_errors(snakemake.log[0]):
    run = plan(snakemake.config)
    name, output, log = snakemake.wildcards.kernel, Path(snakemake.output[0]), Path(snakemake.log[0])
    cases = snakemake.params.cases
    progress = Progress("check", name, run.checked)

    def started(done, case):
        if done % 50 == 0:
            progress(f"{describe(case)}  ({done}/{len(cases)} cases)")

    def where(compiled):
        return environment(ROOT, run.device, compiled, settings_digest(cases))

    with gpu_lock(run.device.uuid):
        record = check_rung(
            Build(Path(snakemake.input[0])),
            cases,
            run.settings["device"],
            snakemake.params.time_limit_s,
            where,
            log,
            started,
            snakemake.params.runs,
            run.by_name(name).declared,
        )
    records.write_json(output, {"rung": name, **merge_check(output, record)})
    progress.ended(record["status"], record["message"])
