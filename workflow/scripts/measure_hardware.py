"""Measure what the GPU does at most, and record it."""

from pathlib import Path

from ladder.build.compile import Build, build
from ladder.build.toolchain import find_nvcc
from ladder.measure.hardware.stage import HARDWARE_PROBES, measure_hardware
from ladder.measure.pool import candidates, lease
from ladder.model.gpu import Target
from ladder.records import store
from ladder.records.hardware import hardware_held
from ladder.records.provenance import environment, settings_digest
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT
from ladder.system.process import LEASED
from ladder.system.terminal import job

with job(snakemake) as progress:
    output, log, params = Path(snakemake.output[0]), Path(snakemake.log[0]), snakemake.params
    devices, made = candidates(params.gpu, params.devices, output), Build(Path(params.folder))
    compiled = build(HARDWARE_PROBES, Target(*params.target), find_nvcc(params.nvcc), params.flags, made.folder)
    log.write_text(compiled["log"])
    if compiled["status"] != "ok":
        raise LadderError(f"kernels/{HARDWARE_PROBES.source}: {compiled['message']}")
    where = environment(ROOT, devices[0], compiled, settings_digest({}))
    if hardware_held(output, compiled["build_digest"], where) and not snakemake.config["remeasure"]:
        record = store.read_record(output)
    else:
        with lease(devices, params.exclusive) as device:
            where |= {"gpu": vars(device)}
            record = {"stage": "hardware", **measure_hardware(made, LEASED, where, log, progress)}
    if any(each["ns"] for each in record["probes"]):
        store.write_json(output, record)
    progress.ended(record["status"], record["message"])
    if not output.exists():
        raise LadderError(f"hardware: {record['message']}; nothing is recorded of it")
