"""What records of a GPU share: builds whose check passed, a record of the GPU that is here."""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from ladder.build.compile import Build, build, why_not_measured
from ladder.build.toolchain import find_nvcc
from ladder.config.documents import read_yaml
from ladder.config.plan import Plan, plan
from ladder.records.store import read_record, write_json
from ladder.system.errors import LadderError
from ladder.system.nvml import VISIBLE, Present
from ladder.system.paths import ROOT, shown
from ladder.system.process import gpu_lease

CORES = len(os.sched_getaffinity(0))


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


def record_as(name: str, on_gpu: Callable[[Plan], Mapping[str, Any]], gpus: int | None = 1, **sections: Any) -> None:
    """Write what is measured on this machine's GPU, alone on it and on so many of its kind, into results/GPU/raw/NAME.

    It is measured by the plan of `planned`; `gpus` None holds all of the kind.
    """
    run = planned(name, gpus or 1, **sections)
    first, *others = [device.uuid for device in run.devices[:gpus]]
    with gpu_lease([first], resting=others):
        record = on_gpu(run)
    write_json(run.raw() / name, {"stage": Path(name).stem, **record})
    print(shown(run.raw() / name))


CHECKS_AT_ONCE = 3  # on a GPU: each check reserves A and C of BEYOND_31_BITS, 9 GiB a matrix


def on_every_gpu(
    devices: Sequence[Present], of_one: Callable[[Any, Present, Any], Any], items: Sequence[Any]
) -> Iterator[Any]:
    """What `of_one` gives for each item on one of these GPUs, in the order in which they end.

    Each CPU has a process that sees one GPU, which it shares with others: nothing can be timed there. `of_one` is
    called with the item, the GPU and the GPU's semaphore of CHECKS_AT_ONCE, which is to be held during a check. The
    processes are forks of this one, so that `of_one` may be any function; items and what is found have to be picklable.
    """
    context = multiprocessing.get_context("fork")
    seats, workers = context.SimpleQueue(), max(CORES, len(devices))
    turns = {device.uuid: context.BoundedSemaphore(CHECKS_AT_ONCE) for device in devices}
    for number in range(workers):
        seats.put(devices[number % len(devices)])
    with ProcessPoolExecutor(workers, context, _sit_down, (seats, turns, of_one)) as pool:
        for done in as_completed([pool.submit(_at_the_seat, item) for item in items]):
            yield done.result()


_seat: list[Any] = []


def _sit_down(seats: Any, turns: Mapping[str, Any], of_one: Callable[..., Any]) -> None:
    """Begin a process of `on_every_gpu`: it takes the next GPU."""
    device = seats.get()
    os.environ[VISIBLE] = device.uuid
    _seat.extend((of_one, device, turns[device.uuid]))


def _at_the_seat(item: Any) -> Any:
    """What this process's function gives for an item on its GPU."""
    of_one, device, turn = _seat
    return of_one(item, device, turn)


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
