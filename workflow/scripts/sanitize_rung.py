"""Run compute-sanitizer's tools on one rung and record what they find."""

from pathlib import Path

from ladder.build.compile import Build
from ladder.measure.pool import candidates, lease
from ladder.measure.sanitize.stage import require_sanitizer, sanitize_rung
from ladder.records import store
from ladder.records.provenance import environment, settings_digest
from ladder.system.paths import ROOT
from ladder.system.process import LEASED
from ladder.system.terminal import job

with job(snakemake, "sanitize") as progress:
    cases, limit_s, output = snakemake.params.cases, snakemake.params.time_limit_s, Path(snakemake.output[0])
    sanitizer = require_sanitizer(snakemake.params.compute_sanitizer)
    devices = candidates(snakemake.wildcards.gpu, snakemake.params.devices, output)

    def where(compiled):
        return environment(ROOT, device, compiled, settings_digest([case.as_record() for case in cases]))

    with lease(devices) as device:
        made, log = Build(Path(snakemake.input[0])), Path(snakemake.log[0])
        record = sanitize_rung(made, sanitizer, cases, LEASED, limit_s, where, log, progress)
    store.write_json(output, {"stage": "sanitize", "rung": snakemake.wildcards.kernel, **record})
    progress.ended(record["status"], record["message"])
