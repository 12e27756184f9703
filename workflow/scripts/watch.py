"""Watch one rung with compute-sanitizer's tools and record what they find."""

from pathlib import Path

from ladder import records
from ladder.build import Build, environment, settings_digest
from ladder.config import ROOT
from ladder.plan import plan_of_run
from ladder.sanitizing import require_sanitizer, sanitize_rung
from ladder.script import Progress, one_line_errors
from ladder.worker import gpu_lock

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    name, output, log = snakemake.wildcards.kernel, Path(snakemake.output[0]), Path(snakemake.log[0])
    sanitizer = require_sanitizer(snakemake.params.compute_sanitizer)
    cases = snakemake.params.cases
    progress = Progress("sanitize", name, run.checked)

    def where(compiled):
        return environment(ROOT, run.device, compiled, settings_digest(cases))

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
    records.write_json(output, {"rung": name, **record})
    progress.ended(record["status"], record["message"])
