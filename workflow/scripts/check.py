"""Check one rung on the GPU, in the cases that no record holds, and record the verdict."""

import secrets
from pathlib import Path

from ladder.build.compile import Build
from ladder.measure.check.stage import check_rung
from ladder.measure.pool import candidates, lease
from ladder.model.claims import claimed_cases
from ladder.records import store
from ladder.records.checks import drawn_by, held_cases, merge_check
from ladder.records.provenance import environment, settings_digest
from ladder.system.paths import ROOT
from ladder.system.process import LEASED
from ladder.system.terminal import job

with job(snakemake) as progress:
    output, params = Path(snakemake.output[0]), snakemake.params
    devices = candidates(snakemake.wildcards.gpu, params.devices, output)
    device = devices[0]
    made, asked = Build(Path(snakemake.input[0])), snakemake.params.cases

    def started(done, case):
        if done % 50 == 0:
            progress(f"{case}  ({done}/{len(cases)} cases)")

    def where(compiled):
        return environment(ROOT, device, compiled, settings_digest([case.as_record() for case in asked]))

    held = set()
    if not snakemake.config["remeasure"] and made.record["status"] == "ok":
        held = held_cases(output, where(made.record), params.runs, params.declared)
    drawn = params.drawing.cases(next(iter(drawn_by(held)), 0) or 1 + secrets.randbits(31))
    cases = [case for case in asked + claimed_cases(params.claims, drawn) if case not in held]
    if cases:
        with lease(devices) as device:
            log, limit_s = Path(snakemake.log[0]), params.time_limit_s
            done = made, cases, LEASED, limit_s, where, log, started, params.runs, params.declared
            record = check_rung(*done)
        record = {"stage": "check", "rung": snakemake.wildcards.kernel, **merge_check(output, record)}
    else:
        record = store.read_record(output)
    record = {key: value for key, value in record.items() if key != "claims"}
    store.write_json(output, record | ({"claims": params.claims} if params.claims else {}))
    progress.ended(record["status"], record["message"])
