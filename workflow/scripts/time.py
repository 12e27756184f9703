"""Time one rung beside its references, and keep what was measured shape by shape."""

from pathlib import Path

from ladder.build.compile import Build, why_not_measured
from ladder.measure.pool import candidates, lease
from ladder.measure.time.stage import time_rung
from ladder.model.shape import Shape, in_order
from ladder.records import store
from ladder.records.provenance import environment
from ladder.records.timings import DISHONEST, timed_shapes, timing_digest
from ladder.system.paths import ROOT
from ladder.system.process import LEASED
from ladder.system.terminal import job

with job(snakemake) as progress:
    name, output, log = snakemake.wildcards.kernel, Path(snakemake.output[0]), Path(snakemake.log[0])
    settings, params = snakemake.params.settings, snakemake.params
    devices = candidates(snakemake.wildcards.gpu, params.devices, output)
    builds = {folder.name: Build(folder) for folder in map(Path, snakemake.input.builds)}
    checks = {path.stem: store.read_record(path) for path in map(Path, snakemake.input.checks)}
    reasons = {kernel: why_not_measured(made, checks.get(kernel)) for kernel, made in builds.items()}
    sound = {kernel: made for kernel, made in builds.items() if not reasons[kernel]}
    compiled, message = builds[name].record, reasons[name]

    shapes = in_order([Shape.parse(shape) for shape in snakemake.params.shapes])
    where = environment(ROOT, devices[0], compiled, timing_digest(settings)) if not message else {}
    if where and not snakemake.config["remeasure"]:
        held = timed_shapes(output, settings, where)
        shapes = [shape for shape in shapes if shape not in held]

    def started(kernel, shape):
        if kernel == name:
            progress(f"{shape}  ({shapes.index(shape) + 1}/{len(shapes)} sizes)")

    if where and shapes:
        with lease(devices, params.exclusive) as device:
            where, expected = where | {"gpu": vars(device)}, params.expected
            message = time_rung(name, sound, shapes, expected, settings, LEASED, where, output, log, started)
    store.conclude_timing(output, message, compiled["build_digest"])
    if message:
        progress.ended("dishonest" if message.startswith(DISHONEST) else "not timed", message.removeprefix(DISHONEST))
    elif shapes:
        progress.ended("ok", f"{len(shapes)} sizes timed")
