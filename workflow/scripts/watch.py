"""Watch one rung with compute-sanitizer's tools and record what they find."""

from pathlib import Path

from ladder.build.compile import Build
from ladder.config.plan import plan_of_run
from ladder.measure.sanitize.stage import require_sanitizer, sanitize_rung
from ladder.records import store
from ladder.records.provenance import environment, settings_digest
from ladder.system.paths import ROOT
from ladder.system.process import gpu_lock
from ladder.system.terminal import Progress, one_line_errors

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    name, output, log = snakemake.wildcards.kernel, Path(snakemake.output[0]), Path(snakemake.log[0])
    sanitizer = require_sanitizer(snakemake.params.compute_sanitizer)
    cases = snakemake.params.cases
    progress = Progress("sanitize", name, run.checked)

    def where(compiled):
        return environment(ROOT, run.device, compiled, settings_digest([case.as_record() for case in cases]))

    with gpu_lock(run.device.uuid):
        record = sanitize_rung(
            Build(Path(snakemake.input[0])),
            sanitizer,
            cases,
            run.settings["device"],
            snakemake.params.time_limit_s,
            where,
            log,
            progress,
        )
    store.write_json(output, {"rung": name, **record})
    progress.ended(record["status"], record["message"])
