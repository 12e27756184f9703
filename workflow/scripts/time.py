"""Time one rung beside its references, and keep what was measured shape by shape."""

import os
from pathlib import Path

from ladder import records
from ladder.build import Build, environment, in_order, why_not_measured
from ladder.config import ROOT, Shape
from ladder.plan import plan_of_run
from ladder.script import Progress, one_line_errors
from ladder.session import REMEASURE
from ladder.timing import time_rung, timed_shapes
from ladder.worker import gpu_lock

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    name, output, log = snakemake.wildcards.kernel, Path(snakemake.output[0]), Path(snakemake.log[0])
    progress = Progress("time", name, [rung.name for rung in run.rungs])
    builds = {folder.name: Build(folder) for folder in map(Path, snakemake.input.builds)}
    checks = {path.stem: records.read_json(path) for path in map(Path, snakemake.input.checks)}
    reasons = {kernel: why_not_measured(made, checks.get(kernel)) for kernel, made in builds.items()}
    sound = {kernel: made for kernel, made in builds.items() if not reasons[kernel]}
    compiled, message = builds[name].record, reasons[name]

    shapes = in_order([Shape.parse(shape) for shape in snakemake.params.shapes])
    if REMEASURE not in os.environ:
        held = timed_shapes(output, run.timing_digest, compiled["build_digest"])
        shapes = [shape for shape in shapes if shape not in held]

    def started(kernel, shape):
        if kernel == name:
            progress(f"{shape}  ({shapes.index(shape) + 1}/{len(shapes)} sizes)")

    if not message and shapes:
        where = environment(ROOT, run.device, compiled, run.timing_digest)
        settings, device = snakemake.params.settings, run.settings["device"]
        with gpu_lock(run.device.uuid):
            message = time_rung(name, sound, shapes, settings, device, where, output, log, started)
    records.conclude_timing(output, message, compiled["build_digest"])
    if message:
        progress.ended("not timed", message)
    elif shapes:
        progress.ended("ok", f"{len(shapes)} sizes timed")
