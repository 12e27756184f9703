"""NVBench as the stages use it.

NVBench times isolated launches, with the L2 cache flushed before each, on a stream that is blocked until the launch is
queued. It writes its own JSON and sample files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import cuda.bench as nvbench

WARMUP_SHARE = 0.2  # of the seconds for samples, at most: slow kernels are warm after few launches


def run_nvbench(
    measure: Callable[[Any], None],
    axes: Mapping[str, Sequence[str]],
    device: int,
    warmup: int,
    samples: int,
    folder: Path,
) -> None:
    """Call `measure` with NVBench's state for each combination of the axes' values; the first axis varies fastest.

    NVBench's files go to the folder: nvbench.json and what that names. NVBench runs once in a process and refuses a
    second time. It skips a state whose `measure` raised an exception, and goes on with the next.
    """
    benchmark = nvbench.register(measure).set_name("sgemm")
    for name, values in axes.items():
        benchmark.add_string_axis(name, list(values))
    nvbench.run_all_benchmarks(
        [
            "gemm-ladder",
            *("--devices", str(device)),
            *("--stopping-criterion", "sample-count"),
            *("--target-samples", str(samples)),
            *("--cold-warmup-runs", str(warmup)),
            *("--jsonbin", str(folder / "nvbench.json")),
        ]
    )


def time_launches(state: Any, queue: Callable[[int], None], flop: int, min_samples: int, budget_s: float) -> None:
    """Time what `queue` queues on the stream whose address it is given, for at most so many seconds.

    `min_samples` are taken even if they take longer.
    """
    _expect(state, flop, min_samples, budget_s)
    state.exec(lambda launch: queue(launch.get_stream().addressof()), batched=False)


def time_between(state: Any, sample: Callable[[int, Any], None], flop: int, min_samples: int, budget_s: float) -> None:
    """`time_launches` where `sample`, given a stream's address and a timer, says itself what is timed.

    The timer's `start` flushes the L2 cache, waits, and blocks the stream; its `stop` lets go and waits again. The last
    such pair in a call of `sample` counts.
    """
    _expect(state, flop, min_samples, budget_s)
    state.exec(lambda launch, timer: sample(launch.get_stream().addressof(), timer), batched=False, timer=True)


def _expect(state: Any, flop: int, min_samples: int, budget_s: float) -> None:
    state.set_timeout(budget_s)
    state.set_cold_max_warmup_walltime(WARMUP_SHARE * budget_s)
    state.set_min_samples(min_samples)
    state.add_element_count(flop, "FLOP")
