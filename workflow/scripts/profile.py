"""Profile one rung with Nsight Compute at each configured shape, and keep what its reports say."""

from pathlib import Path

from ladder import records
from ladder.build import Build, environment, settings_digest, why_not_measured
from ladder.config import ROOT
from ladder.errors import LadderError
from ladder.plan import plan_of_run
from ladder.profiling import extract, keep_profiles, profile_shape
from ladder.script import Progress, one_line_errors
from ladder.toolchain import find_tool
from ladder.worker import gpu_lock

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    name, output, log = snakemake.wildcards.kernel, Path(snakemake.output[0]), Path(snakemake.log[0])
    progress = Progress("profile", name, run.profiled)
    made = Build(Path(snakemake.input.build))
    compiled = made.record
    message = why_not_measured(made, records.read_json(Path(snakemake.input.check)))
    ncu = find_tool("ncu", snakemake.params.ncu)
    if not message and ncu is None:
        message = "ncu: not found; install Nsight Compute, or set its path in config/config.yaml: profile.ncu"

    profiles = {}
    shapes = snakemake.params.shapes
    for index, shape in enumerate(shapes):
        if message:
            break
        progress(f"{shape}  ({index + 1}/{len(shapes)} sizes)")
        report = Path(f"build/{run.gpu.name}/profile/{name}/{shape}.ncu-rep")
        with gpu_lock(run.device.uuid):
            message = profile_shape(
                ncu, made, shape, run.settings["device"], report, snakemake.params.time_limit_s, log
            )
        if not message:
            where = environment(ROOT, run.device, compiled, settings_digest(dict(run.settings["profile"])))
            try:
                profiles[shape] = {"where": where, "kernels": extract(report, log)}
            except LadderError as error:
                message = str(error)
    keep_profiles(output, name, profiles, message, compiled["build_digest"])
    if message:
        progress.ended("not profiled", message)
    else:
        progress.ended("ok", f"{len(shapes)} sizes profiled")
