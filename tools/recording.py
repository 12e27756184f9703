"""What records of a GPU share: builds whose check passed, a record of the GPU that is here."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ladder.build.compile import Build, build, why_not_measured
from ladder.build.toolchain import find_nvcc
from ladder.config.documents import read_yaml
from ladder.config.plan import Plan, plan
from ladder.records.store import read_record, write_json
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT, shown
from ladder.system.process import gpu_lease


def planned(name: str, gpus: int = 1, **sections: Any) -> Plan:
    """The plan by which this machine's GPUs are measured for results/GPU/raw/NAME.

    `sections` replace those of the configuration. Raises LadderError where there are fewer GPUs.
    """
    run = plan(read_yaml(ROOT / "config/config.yaml") | {"records": "shipped"} | sections)
    if not run.measuring:
        raise LadderError(f"{run.headline}; run where `nvidia-smi` lists a GPU")
    if len(run.devices) < gpus:
        raise LadderError(f"{name}: needs {gpus} GPUs of one kind; of {run.gpu.title} there are {len(run.devices)}")
    return run


def record_as(name: str, on_gpu: Callable[[Plan], Mapping[str, Any]], gpus: int = 1, **sections: Any) -> None:
    """Write what is measured on this machine's GPU, alone on it and on so many of its kind, into results/GPU/raw/NAME.

    It is measured by the plan of `planned`.
    """
    run = planned(name, gpus, **sections)
    first, *others = [device.uuid for device in run.devices[:gpus]]
    with gpu_lease([first], resting=others):
        record = on_gpu(run)
    write_json(run.raw() / name, {"stage": Path(name).stem, **record})
    print(shown(run.raw() / name))


def checked_builds(run: Plan, rungs: Sequence[str]) -> dict[str, Build]:
    """The rungs as the pipeline builds them; raises LadderError where a build has not passed its recorded check."""
    builds = {name: Build(ROOT / "build/measuring" / name) for name in rungs}
    nvcc, flags = find_nvcc(run.settings["compile"]["nvcc"]), run.settings["compile"]["flags"]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda name: build(run.by_name(name), run.gpu, nvcc, flags, builds[name].folder), rungs))
    for name, made in builds.items():
        check = run.raw() / "check" / f"{name}.json"
        if not check.exists():
            raise LadderError(f"{shown(check)}: there is none; run: snakemake --cores all --until check")
        if reason := why_not_measured(made, read_record(check)):
            raise LadderError(f"{shown(check)}: {name} is not timed: {reason}")
    return builds
