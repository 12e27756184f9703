"""Check one rung on the GPU, in the cases that no record holds, and record the verdict."""

import os
from pathlib import Path

from ladder.build.compile import Build
from ladder.commands.session import REMEASURE
from ladder.config.plan import plan_of_run
from ladder.measure.check.stage import check_rung
from ladder.records import store
from ladder.records.checks import merge_check, still_to_check
from ladder.records.provenance import environment, settings_digest
from ladder.system.paths import ROOT
from ladder.system.process import gpu_lock
from ladder.system.terminal import Progress, one_line_errors

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    name, output, log = snakemake.wildcards.kernel, Path(snakemake.output[0]), Path(snakemake.log[0])
    made, declared = Build(Path(snakemake.input[0])), run.by_name(name).declared
    asked, runs = snakemake.params.cases, snakemake.params.runs
    progress = Progress("check", name, run.checked)

    def started(done, case):
        if done % 50 == 0:
            progress(f"{case}  ({done}/{len(cases)} cases)")

    def where(compiled):
        return environment(ROOT, run.device, compiled, settings_digest([case.as_record() for case in asked]))

    cases = asked
    if REMEASURE not in os.environ and made.record["status"] == "ok":
        cases = still_to_check(output, asked, where(made.record), runs, declared)
    if cases:
        with gpu_lock(run.device.uuid):
            record = check_rung(
                made,
                cases,
                run.settings["device"],
                snakemake.params.time_limit_s,
                where,
                log,
                started,
                runs,
                declared,
            )
        record = {"rung": name, **merge_check(output, record)}
    else:
        record = store.read_json(output)
    store.write_json(output, record)
    progress.ended(record["status"], record["message"])
