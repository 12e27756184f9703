"""Measure one rung's errors against k and record them."""

from pathlib import Path

from ladder.build.compile import Build
from ladder.measure.accuracy.stage import measure_accuracy
from ladder.measure.pool import candidates, lease
from ladder.records import store
from ladder.records.provenance import environment, settings_digest
from ladder.system.paths import ROOT
from ladder.system.process import LEASED
from ladder.system.terminal import job

with job(snakemake, "accuracy") as progress:
    output, settings = Path(snakemake.output[0]), snakemake.params.settings
    devices = candidates(snakemake.wildcards.gpu, snakemake.params.devices, output)
    made, check = Build(Path(snakemake.input.build)), store.read_record(Path(snakemake.input.check))

    def where(compiled):
        return environment(ROOT, device, compiled, settings_digest(settings))

    with lease(devices) as device:
        record = measure_accuracy(made, check, settings, LEASED, where, Path(snakemake.log[0]))
    if record["status"] == "ok" or not output.exists():  # what an earlier run recorded outlives a failure
        store.write_json(output, {"stage": "accuracy", "rung": snakemake.wildcards.kernel, **record})
    progress.ended(record["status"], record["message"])
