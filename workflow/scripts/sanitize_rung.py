"""Run compute-sanitizer's tools on one rung and record what they find."""

from pathlib import Path

from ladder.build.compile import Build
from ladder.measure.sanitize.stage import require_sanitizer, sanitize_rung
from ladder.records import store
from ladder.records.provenance import environment, settings_digest
from ladder.system.nvml import present
from ladder.system.paths import ROOT
from ladder.system.process import gpu_lock
from ladder.system.terminal import job

with job(snakemake, "sanitize") as progress:
    cases, index, limit_s = snakemake.params.cases, snakemake.params.device, snakemake.params.time_limit_s
    sanitizer, device = require_sanitizer(snakemake.params.compute_sanitizer), present(index)

    def where(compiled):
        return environment(ROOT, device, compiled, settings_digest([case.as_record() for case in cases]))

    with gpu_lock(device.uuid):
        made, log = Build(Path(snakemake.input[0])), Path(snakemake.log[0])
        record = sanitize_rung(made, sanitizer, cases, index, limit_s, where, log, progress)
    store.write_json(Path(snakemake.output[0]), {"stage": "sanitize", "rung": snakemake.wildcards.kernel, **record})
    progress.ended(record["status"], record["message"])
