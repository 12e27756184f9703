"""Time one rung beside its references, and keep what was measured shape by shape."""

import os
from pathlib import Path

from ladder.build.compile import Build, why_not_measured
from ladder.commands.session import REMEASURE
from ladder.config.plan import plan_of_run
from ladder.measure.time.stage import time_rung
from ladder.model.shape import Shape, in_order
from ladder.records import store
from ladder.records.provenance import environment
from ladder.records.timings import timed_shapes
from ladder.system.paths import ROOT
from ladder.system.process import gpu_lock
from ladder.system.terminal import Progress, one_line_errors

with one_line_errors(snakemake.log[0]):
    run = plan_of_run(snakemake.config)
    name, output, log = snakemake.wildcards.kernel, Path(snakemake.output[0]), Path(snakemake.log[0])
    progress = Progress("time", name, [rung.name for rung in run.rungs])
    builds = {folder.name: Build(folder) for folder in map(Path, snakemake.input.builds)}
    checks = {path.stem: store.read_json(path) for path in map(Path, snakemake.input.checks)}
    reasons = {kernel: why_not_measured(made, checks.get(kernel)) for kernel, made in builds.items()}
    sound = {kernel: made for kernel, made in builds.items() if not reasons[kernel]}
    compiled, message = builds[name].record, reasons[name]

    shapes = in_order([Shape.parse(shape) for shape in snakemake.params.shapes])
    if REMEASURE not in os.environ:
        held = timed_shapes(output, snakemake.params.settings, compiled["build_digest"])
        shapes = [shape for shape in shapes if shape not in held]

    def started(kernel, shape):
        if kernel == name:
            progress(f"{shape}  ({shapes.index(shape) + 1}/{len(shapes)} sizes)")

    if not message and shapes:
        where = environment(ROOT, run.device, compiled, run.timing_digest)
        settings, device = snakemake.params.settings, run.settings["device"]
        with gpu_lock(run.device.uuid):
            message = time_rung(name, sound, shapes, settings, device, where, output, log, started)
    store.conclude_timing(output, message, compiled["build_digest"])
    if message:
        progress.ended("not timed", message)
    elif shapes:
        progress.ended("ok", f"{len(shapes)} sizes timed")
