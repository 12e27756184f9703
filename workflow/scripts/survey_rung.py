"""Survey one rung beside its references, and record it."""

from pathlib import Path

from ladder.build.compile import Build, why_not_measured
from ladder.measure.pool import candidates, lease
from ladder.measure.survey.stage import survey_rung
from ladder.records import store
from ladder.records.provenance import environment
from ladder.records.survey import survey_digest, survey_held
from ladder.system.paths import ROOT
from ladder.system.process import LEASED
from ladder.system.terminal import job

with job(snakemake) as progress:
    name, output, log = snakemake.wildcards.kernel, Path(snakemake.output[0]), Path(snakemake.log[0])
    params, devices = snakemake.params, candidates(snakemake.wildcards.gpu, snakemake.params.devices, output)
    builds = {folder.name: Build(folder) for folder in map(Path, snakemake.input.builds)}
    checks = {path.stem: store.read_record(path) for path in map(Path, snakemake.input.checks)}
    reasons = {kernel: why_not_measured(made, checks[kernel]) for kernel, made in builds.items()}
    sound = {kernel: made for kernel, made in builds.items() if not reasons[kernel]}
    digests = {kernel: made.record["build_digest"] for kernel, made in sound.items()}
    where = environment(ROOT, devices[0], builds[name].record, survey_digest(params.settings)) if name in sound else {}
    seed = int(Path(params.seed).read_text())  # that of all rungs of this run
    wanted = None if params.settings["seed"] == "new" else seed

    if not where:
        record = {"status": "failed", "message": reasons[name], "products": [], "data": []}
    elif survey_held(output, digests, wanted, where) and not snakemake.config["remeasure"]:
        record = store.read_record(output)
    else:
        with lease(devices) as device:
            where |= {"gpu": vars(device)}
            asked = (name, sound, params.expected, params.settings, seed, LEASED, where, log)
            record = survey_rung(*asked, lambda kernel, at: progress(at) if kernel == name else None)
    if record["status"] != "failed" or not output.exists():  # what an earlier run recorded outlives a failure
        store.write_json(output, {"stage": "survey", "rung": name, **record})
    progress.ended(record["status"], record["message"])
