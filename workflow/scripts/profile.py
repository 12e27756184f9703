"""Profile one rung with Nsight Compute at each configured shape, and keep what its reports say."""

from pathlib import Path

from ladder.build.compile import Build, why_not_measured
from ladder.build.toolchain import find_tool
from ladder.measure.profile.report import extract
from ladder.measure.profile.stage import profile_shape
from ladder.records import store
from ladder.records.profiles import keep_profiles
from ladder.records.provenance import environment, settings_digest
from ladder.system.errors import LadderError
from ladder.system.nvml import present
from ladder.system.paths import ROOT
from ladder.system.process import gpu_lock
from ladder.system.terminal import job

with job(snakemake) as progress:
    name, output, log = snakemake.wildcards.kernel, Path(snakemake.output[0]), Path(snakemake.log[0])
    settings, device = snakemake.params.settings, present(snakemake.params.device)
    made = Build(Path(snakemake.input.build))
    compiled = made.record
    message = why_not_measured(made, store.read_record(Path(snakemake.input.check)))
    ncu = find_tool("ncu", settings["ncu"])
    if not message and ncu is None:
        message = "ncu: not found; install Nsight Compute, or set its path in config/config.yaml: profile.ncu"

    profiles = {}
    shapes = snakemake.params.shapes
    for index, shape in enumerate(shapes):
        if message:
            break
        progress(f"{shape}  ({index + 1}/{len(shapes)} sizes)")
        report = Path(f"build/{snakemake.wildcards.gpu}/profile/{name}/{shape}.ncu-rep")
        with gpu_lock(device.uuid):
            limit_s = settings["time_limit_s"]
            message = profile_shape(ncu, made, shape, snakemake.params.device, report, limit_s, log)
        if not message:
            where = environment(ROOT, device, compiled, settings_digest(settings))
            try:
                profiles[shape] = {"where": where, "kernels": extract(report, log)}
            except LadderError as error:
                message = str(error)
    keep_profiles(output, name, profiles, message, compiled["build_digest"])
    if message:
        progress.ended("not profiled", message)
    else:
        progress.ended("ok", f"{len(shapes)} sizes profiled")
