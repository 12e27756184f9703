"""What choices of docs/measuring.md do to a measurement: results/GPU/raw/measuring.json."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from ladder.config.plan import Plan
from ladder.model.shape import Shape
from ladder.records.provenance import environment, settings_digest
from ladder.records.store import read_record
from ladder.system import nvml
from ladder.system.paths import ROOT
from recording import checked_builds, record_as

RUNGS = ("cublas", "async_copy")
SIZES = (512, 1024, 2048, 4096)
LAUNCHES = 50
FIRST = 20  # launches of a new process
PROCESSES = 3
SUSTAINED_S = 6.0
RECORD = ROOT / "results/h100-sxm/raw/measuring.json"
# Keeps the GPU busy while the host queues what is to be timed, so that no gap of the host's is timed with it.
SPIN = 'extern "C" __global__ void spin(long long n) { for (long long end = clock64() + n; clock64() < end;); }'


class Bench:
    """Times launches one by one on a busy stream: CUDA events around each, with the L2 cache flushed or not."""

    def __init__(self, libraries: Mapping[str, Path]) -> None:
        import cupy as cp
        from ladder.build.library import Library
        from ladder.system.cublas import provide_cublas

        self.cp = cp
        provide_cublas()
        self.libraries = {name: Library(path) for name, path in libraries.items()}
        l2_bytes = cp.cuda.runtime.getDeviceProperties(0)["l2CacheSize"]
        self.flushed = cp.empty(2 * l2_bytes, cp.uint8)
        self.spin = cp.RawKernel(SPIN, "spin")

    def product(self, n: int) -> Any:
        """The matrices of a square product."""
        from ladder.measure.product import Product

        return Product(Shape(n, n, n), self.libraries)

    def launch_ms(self, launch: Callable[[], None], flush: bool) -> float:
        """Milliseconds of one launch."""
        begin, end = self.cp.cuda.Event(), self.cp.cuda.Event()
        if flush:
            self.flushed.fill(0)
        self.spin((1,), (1,), (200_000,))
        begin.record()
        launch()
        end.record()
        end.synchronize()
        return float(self.cp.cuda.get_elapsed_time(begin, end))


def first_launches(path: Path, n: int) -> list[float]:
    """The milliseconds of the first launches of this process, the library's own set-up among them."""
    from ladder.build.library import Operands

    bench = Bench({"rung": path})
    library, cp, shape = bench.libraries["rung"], bench.cp, Shape(n, n, n)
    A, B, C = (cp.full((n, n), 0.25, cp.float32) for _ in range(3))
    operands = Operands(A.data.ptr, n, B.data.ptr, n, C.data.ptr, n)
    workspace = cp.empty(max(1, library.workspace_bytes(shape, 1.0, 0.0, operands)), cp.uint8)
    queue = lambda: library.queue(shape, 1.0, 0.0, operands, workspace.data.ptr, 0)  # noqa: E731
    return [bench.launch_ms(queue, flush=True) for _ in range(FIRST)]


def in_a_new_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns in a process that has done nothing before."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(function, *arguments).result()


def on_gpu(run: Plan) -> dict[str, Any]:
    """The record: times in ms of each effect, with the state of the GPU where that is what changes."""
    builds = checked_builds(run, RUNGS)
    libraries = {name: made.library for name, made in builds.items()}

    warm_up = []
    for name in RUNGS:
        for _ in range(PROCESSES):
            launches = in_a_new_process(first_launches, libraries[name], 1024)
            warm_up.append({"rung": name, "n": 1024, "launches_ms": launches})

    bench = Bench(libraries)
    l2, inputs = [], []
    for n in SIZES:
        product = bench.product(n)
        for name in RUNGS:
            queue = lambda name=name, product=product: product.queue(name, 0)  # noqa: E731
            for flush in (True, False):
                times = [bench.launch_ms(queue, flush) for _ in range(LAUNCHES)][5:]
                l2.append({"rung": name, "n": n, "flushed": flush, "ms": times})
    product = bench.product(4096)
    kinds = {"uniform": (product.A.copy(), product.B.copy()), "zeros": (0, 0), "ones": (1, 1)}
    for name in RUNGS:
        for kind, (A, B) in kinds.items():
            product.A[...], product.B[...] = A, B
            queue = lambda name=name: product.queue(name, 0)  # noqa: E731
            times, end = [], time.monotonic() + 1.5
            while time.monotonic() < end:
                times.append(bench.launch_ms(queue, flush=False))
            inputs.append({"rung": name, "n": 4096, "inputs": kind, "ms": times[-LAUNCHES:], "state": nvml.state(0)})
    product.A[...], product.B[...] = kinds["uniform"]
    sustained, begin = [], time.monotonic()
    while (gone := time.monotonic() - begin) < SUSTAINED_S:
        times = [bench.launch_ms(lambda: product.queue("cublas", 0), flush=False) for _ in range(LAUNCHES)]
        sustained.append({"after_s": round(gone, 2), "ms": float(np.median(times)), "state": nvml.state(0)})
    settings = {"settings": [RUNGS, SIZES, LAUNCHES, FIRST, PROCESSES, SUSTAINED_S]}
    return {
        "where": environment(ROOT, run.device, builds[RUNGS[1]].record, settings_digest(settings)),
        "warm_up": warm_up,
        "l2": l2,
        "inputs": inputs,
        "sustained": {"rung": "cublas", "n": 4096, "seconds": sustained},
    }


def _spread(values: Sequence[float]) -> str:
    low, high = (f"{100 * (value - 1):+.1f}" for value in (min(values), max(values)))
    return f"{low} %" if low == high else f"{low} to {high} %"


def effects() -> str:
    """The record in words: a Markdown table of effects."""
    record = read_record(RECORD)
    where = record["where"]
    lines = [
        f"On {where['gpu']['name']}, {where['measured_at'][:10]}, medians of single launches timed by CUDA events:",
        "",
        "| effect | rung and size | result |",
        "| --- | --- | --- |",
    ]
    times = {(item["rung"], item["n"], item["flushed"]): float(np.median(item["ms"])) for item in record["l2"]}
    for rung in RUNGS:
        parts = [f"{100 * (times[rung, n, False] / times[rung, n, True] - 1):+.1f} % at {n}" for n in SIZES]
        lines.append(f"| change of the time if L2 is not flushed | `{rung}` | {', '.join(parts)} |")
    for rung in RUNGS:
        firsts = [item["launches_ms"] for item in record["warm_up"] if item["rung"] == rung]
        settled = float(np.median([launches[5:] for launches in firsts]))  # of all: the host disturbs some processes
        first, second, sixth = ([run[i] / settled for run in firsts] for i in (0, 1, 5))
        lines.append(
            f"| time of the first launches of a process, beside later ones | `{rung}` at 1024 | "
            f"the first {min(first):.1f} to {max(first):.1f} times as long, "
            f"the second {_spread(second)}, the sixth {_spread(sixth)} |"
        )
    for rung in RUNGS:
        own = {item["inputs"]: item for item in record["inputs"] if item["rung"] == rung}
        uniform = float(np.median(own["uniform"]["ms"]))
        parts = [
            f"{100 * (float(np.median(own[kind]['ms'])) / uniform - 1):+.1f} % with {kind} "
            f"({own[kind]['state']['power_w']:.0f} W instead of {own['uniform']['state']['power_w']:.0f} W)"
            for kind in ("zeros", "ones")
        ]
        lines.append(f"| change of the time if all inputs are equal | `{rung}` at 4096 | {', '.join(parts)} |")
    seconds = record["sustained"]["seconds"]
    clocks = [item["state"]["sm_clock_mhz"] for item in seconds]
    warmth = [item["state"]["temperature_c"] for item in (seconds[0], seconds[-1])]
    change = seconds[-1]["ms"] / seconds[0]["ms"] - 1
    lines.append(
        f"| {seconds[-1]['after_s']:.0f} s of launches without a pause | `{record['sustained']['rung']}` at 4096 | "
        f"the time {100 * change:+.1f} %, SM clock {max(clocks)} to {min(clocks)} MHz, {warmth[0]} to {warmth[1]} °C |"
    )
    return "\n".join(lines)


def record_gpu() -> None:
    """On a GPU: results/GPU/raw/measuring.json."""
    record_as(RECORD.name, on_gpu)


COMMANDS = {"gpu": record_gpu}
