"""Why a published number is another here: sentences from what was profiled, timed, tuned and compiled here.

The load/store pipe of an SM does one pass (wavefront) a cycle on every architecture of the publications, and an FFMA of
a warp takes 32 / lanes cycles of an SM's FP32 lanes. So a rung whose passes are counted here has a ceiling there too.
Source of the lanes: the files of config/gpus.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from ladder.config.gpus import read_gpu
from ladder.model.gpu import Gpu
from ladder.tables.statistics import Interval


@dataclass(frozen=True)
class Reasons:
    """What the reasons are read from: this GPU and the tables of timings, profiles, paper and trials."""

    gpu: Gpu
    timings: pd.DataFrame
    profiles: pd.DataFrame
    paper: pd.DataFrame
    trials: pd.DataFrame

    @cached_property
    def _profiles(self) -> Mapping[tuple[str, str], dict[str, float]]:
        found: dict[tuple[str, str], dict[str, float]] = {}
        rows = self.profiles[self.profiles["multiplies"].astype(bool)] if len(self.profiles) else self.profiles
        values = pd.to_numeric(rows["value"], errors="coerce")
        for rung, shape, name, value in zip(rows["rung"], rows["shape"].astype(str), rows["name"], values, strict=True):
            if not math.isnan(value):
                found.setdefault((rung, shape), {})[name] = value
        for own in found.values():
            stalls = {name: value for name, value in own.items() if name.startswith("stall_")}
            own |= {f"share_of_{name}": 100 * value / sum(stalls.values()) for name, value in stalls.items()}
        return found

    def profile(self, rung: str, shape: str) -> Mapping[str, float]:
        """Every metric of a rung's profile by our name, and `share_of_stall_...`, percent of a warp's cycles.

        Empty where this build has no profile of the shape.
        """
        return self._profiles.get((rung, shape), {})

    def _paper(self, rung: str, sizes: str) -> pd.Series | None:
        """The rung's row of the calculation on paper at the largest of the sizes, else of all; None without passes."""
        rows = self.paper[(self.paper["rung"] == rung) & self.paper["wavefronts_per_ffma"].notna()]
        at = rows[rows["shape"].astype(str).isin(sizes.split(";"))]
        rows = at if len(at) else rows
        return None if rows.empty else rows.loc[rows["flop"].idxmax()]

    def of_rate(self, quantity: str, row: Mapping[str, Any], other: str, there: Interval, here: Interval) -> str:
        """Why a rate, a share or a step is another here; empty where nothing of the rung was profiled or tuned."""
        if quantity == "time, ms":
            return self._of_time(row["gpu_file"])
        step = quantity in ("times naive", "times the rung before")
        compared = [row["rung"], *([other] if step else [])]
        if any(self._tried(name, row["sizes"]) for name in compared):
            return " ".join(self._of_trial(name, row["sizes"]) for name in compared)
        if step:
            return self._of_step(row["rung"], other, row["sizes"])
        parts = [self._of_pipe(row), self._of_cublas(row) if quantity == "share of cuBLAS" else ""]
        return " ".join(part for part in parts if part)

    def _of_time(self, gpu_file: str) -> str:
        there = read_gpu(gpu_file)
        ratio = self.gpu.peak_gflops / there.peak_gflops
        return (
            f"The FP32 peak is {self.gpu.peak_gflops / 1e3:.1f} TFLOP/s here and {there.peak_gflops / 1e3:.1f} there,"
            f" {ratio:.1f} times; the row of the share of the peak compares what is left of it."
        )

    def _of_pipe(self, row: Mapping[str, Any]) -> str:
        """What the load/store pipe allows there and here, or which other ceiling is the lowest here."""
        paper = self._paper(row["rung"], row["sizes"])
        if paper is None:
            return ""
        there = read_gpu(row["gpu_file"])
        allowed = [min(1.0, 32 / gpu.fp32_lanes_per_sm / paper["wavefronts_per_ffma"]) for gpu in (there, self.gpu)]
        own = f"`{row['rung']}` takes {_number(paper['wavefronts_per_ffma'])} passes of the load/store pipe an FFMA"
        lanes = f"with {there.fp32_lanes_per_sm} FP32 lanes an SM there and {self.gpu.fp32_lanes_per_sm} here"
        shares = f"these allow {_percent(allowed[0])} and {_percent(allowed[1])} of the FP32 peak"
        if there.fp32_lanes_per_sm == self.gpu.fp32_lanes_per_sm:
            lanes = f"with {self.gpu.fp32_lanes_per_sm} FP32 lanes an SM on both GPUs"
            shares = f"these allow {_percent(allowed[1])} of the FP32 peak"
        pipe = f"{own}; {lanes} {shares}."
        reached = f"Here it reaches {_percent(paper['share_of_prediction'])} of its lowest ceiling, that of"
        text = f"{pipe} {reached} the {paper['bound_by']}, at {paper['shape']}."
        return f"{text} {self._of_few_blocks(paper)}".rstrip()

    def _of_few_blocks(self, paper: pd.Series) -> str:
        """How much of the GPU a small grid fills, and of the time how much is the launch; empty for a large grid."""
        if not paper["waves"] < 1:
            return ""
        text = f"Its {paper['blocks']:.0f} blocks take {_percent(paper['waves'])} of the places of {self.gpu.sms} SMs."
        times = self.timings[self.timings["shape"].astype(str) == str(paper["shape"])].set_index("rung")[
            "time_ms_median"
        ]
        if "empty" not in times or paper["rung"] not in times:
            return text
        return f"{text} An empty kernel takes {_percent(times['empty'] / times[paper['rung']])} of its time."

    def _of_cublas(self, row: Mapping[str, Any]) -> str:
        """How much of the FP32 peak cuBLAS reaches here at the published sizes, and how the rung's share changes."""
        sizes = row["sizes"].split(";")
        rows = self.timings[self.timings["shape"].astype(str).isin(sizes)].set_index("rung")
        if "cublas" not in rows.index:
            return ""
        shares = rows.loc[["cublas"], "share_of_peak"]
        text = f"cuBLAS reaches {_percent(shares.min())}"
        text += f" to {_percent(shares.max())}" if len(sizes) > 1 else ""
        text += " of the peak here."
        own = rows.loc[[row["rung"]], "speedup_over_default"]
        ends = f"{_percent(own.iloc[0])} at {sizes[0]} to {_percent(own.iloc[-1])} at {sizes[-1]}"
        return f"{text} The rung's share goes from {ends}." if len(sizes) > 1 else text

    def _of_step(self, rung: str, before: str, sizes: str) -> str:
        """How the lowest ceiling changes from one rung to another, and how much of it each reaches."""
        now, then = self._paper(rung, sizes), self._paper(before, sizes)
        if now is None or then is None:
            return ""
        ratio = now["predicted_gflops"] / then["predicted_gflops"]
        bounds = f"the {then['bound_by']} for `{before}`, the {now['bound_by']} for `{rung}`"
        if now["bound_by"] == then["bound_by"]:
            bounds = f"the {now['bound_by']} for both"
        reached = f"`{before}` reaches {_percent(then['share_of_prediction'])} of its own"
        reached += f" and `{rung}` {_percent(now['share_of_prediction'])}"
        passes = f"{_number(then['wavefronts_per_ffma'])} and {_number(now['wavefronts_per_ffma'])} passes an FFMA"
        rises = f"At {now['shape']} the lowest ceiling is {_number(ratio)} times as high here"
        return f"{rises} ({bounds}; {passes}); {reached}."

    def _timed(self, rung: str, sizes: str) -> bool:
        """Whether a rung is in the table of timings at these sizes."""
        rows = self.timings[self.timings["rung"] == rung]
        return set(sizes.split(";")) <= set(rows["shape"].astype(str))

    def _tried(self, name: str, sizes: str) -> bool:
        """Whether a rung of these names and macros was a trial at this size, and is not in the table of timings."""
        if self.trials.empty:
            return False
        tried = (self.trials["trial"] == name) & (self.trials["shape"].astype(str) == sizes)
        return tried.any() and not self._timed(name, sizes)

    def _of_trial(self, name: str, sizes: str) -> str:
        """A trial's rate, how many of its blocks an SM's registers hold, and the best tiles; of a rung its rate."""
        if not self._tried(name, sizes):
            rows = self.timings[(self.timings["rung"] == name) & self.timings["shape"].astype(str).isin([sizes])]
            return f"`{name}` has {rows['gflops'].iloc[0] / 1e3:.1f} TFLOP/s." if len(rows) else ""
        macros = dict(part.split("=") for part in name.partition("@")[2].split(","))
        trial = self.trials[(self.trials["trial"] == name) & (self.trials["shape"].astype(str) == sizes)].iloc[-1]
        values = {key: int(value) for key, value in macros.items()}
        rows, columns = (values.get(side, values.get("TILE", 0)) for side in ("BM", "BN"))  # of a block's tile
        threads = rows * columns // (values.get("TM", 1) * values.get("TN", 1))
        registers = -(-int(trial["registers"]) // 8) * 8  # allocated by 8 a thread, of whole warps
        blocks = self.gpu.limits["registers_per_sm"] // (registers * threads) if self.gpu.limits and threads else 0
        own = self.trials[(self.trials["rung"] == trial["rung"]) & (self.trials["shape"].astype(str) == sizes)]
        best = own.loc[own["gflops"].idxmax()]
        text = f"With the published tiles `{trial['rung']}` has {trial['gflops'] / 1e3:.1f} TFLOP/s."
        if blocks:
            text += f" A block has {threads} threads of {int(trial['registers'])} registers, so an SM holds {blocks}."
        return f"{text} Its best tiles, {best['trial'].partition('@')[2]}, have {best['gflops'] / 1e3:.1f}."

    def of_metric(self, template: str, own: Mapping[str, float], gpu_file: str) -> str:
        """A reason of workflow/data/published_metrics.yaml with the numbers of this profile and of both GPUs."""
        return template.format(own=own, here=self.gpu, there=read_gpu(gpu_file))


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _number(value: float) -> str:
    return f"{value:.3g}"
