"""Measure one rung's errors against k and record them."""

from pathlib import Path

from ladder.build.compile import Build
from ladder.config.plan import plan_of_run
from ladder.measure.accuracy.stage import measure_accuracy
from ladder.records import store
from ladder.records.provenance import environment, settings_digest
from ladder.system.paths import ROOT
from ladder.system.process import gpu_lock
from ladder.system.terminal import Progress, one_line_errors

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    name, output, log = snakemake.wildcards.kernel, Path(snakemake.output[0]), Path(snakemake.log[0])
    settings, check = snakemake.params.settings, store.read_json(Path(snakemake.input.check))
    progress = Progress("accuracy", name, [rung.name for rung in run.accurate])

    def where(compiled):
        return environment(ROOT, run.device, compiled, settings_digest(settings))

    with gpu_lock(run.device.uuid):
        made = Build(Path(snakemake.input.build))
        record = measure_accuracy(made, check, settings, run.settings["device"], where, log)
    if record["status"] == "ok" or not output.exists():  # what an earlier run recorded outlives a failure
        store.write_json(output, {"rung": name, **record})
    progress.ended(record["status"], record["message"])
