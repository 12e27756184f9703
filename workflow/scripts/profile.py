"""Profile one rung with Nsight Compute at each configured shape, and keep what its reports say."""

from pathlib import Path

from ladder.build.compile import Build, why_not_measured
from ladder.build.toolchain import find_tool
from ladder.measure.pool import candidates, lease
from ladder.measure.profile.stage import profile_rung
from ladder.records import store
from ladder.records.profiles import keep_profiles
from ladder.records.provenance import environment, settings_digest
from ladder.system.paths import ROOT
from ladder.system.process import BROKEN, FAILED, LEASED, Outcome
from ladder.system.terminal import job

with job(snakemake) as progress:
    name, output, log = snakemake.wildcards.kernel, Path(snakemake.output[0]), Path(snakemake.log[0])
    settings, devices = snakemake.params.settings, candidates(snakemake.wildcards.gpu, snakemake.params.devices, output)
    made = Build(Path(snakemake.input.build))
    compiled = made.record
    message, profiles = why_not_measured(made, store.read_record(Path(snakemake.input.check))), {}
    shapes, undone = snakemake.params.shapes, Path(snakemake.params.undone)
    outcome = Outcome(FAILED, message)
    if not message:
        ncu, limit_s = find_tool("ncu", settings["ncu"]), settings["time_limit_s"]
        with lease(devices) as device:
            kernels, outcome = profile_rung(ncu, made, shapes, LEASED, undone.parent, limit_s, log, progress)
        for shape, found in kernels.items():
            where = environment(ROOT, device, compiled, settings_digest(settings))
            profiles[shape] = {"where": where, "kernels": found}
    broken = outcome.status == BROKEN
    keep_profiles(output, name, profiles, "" if broken else outcome.message, compiled["build_digest"])
    if broken:
        store.write_text(undone, outcome.message)
    else:
        undone.unlink(missing_ok=True)
    if outcome.message:
        progress.ended("not profiled", outcome.message + ("; nothing is recorded of that" if broken else ""))
    else:
        progress.ended("ok", f"{len(shapes)} sizes profiled")
