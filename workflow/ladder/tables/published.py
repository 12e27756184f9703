"""What others published beside what is measured here, number by number: rates of a kernel, and metrics of its profile.

The figures of others ship as workflow/data/published.csv and published_metrics.yaml, each with its source. A number is
compared at the sizes that it was published for, with the rung that its kernel is here. Where it does not agree, the
table gives a reason from what was measured or compiled here (`ladder.tables.reasons`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import yaml

from ladder.config.gpus import read_gpu
from ladder.model.gpu import Gpu
from ladder.model.shape import Shape
from ladder.system.paths import ROOT
from ladder.tables.reasons import Reasons
from ladder.tables.statistics import Interval

PUBLISHED_FIGURES = ROOT / "workflow" / "data" / "published.csv"
PUBLISHED_METRICS = ROOT / "workflow" / "data" / "published_metrics.yaml"
LEVEL = 0.02  # numbers that are less than this share apart agree; a step of less is neither up nor down
OF_CUBLAS, OVER_NAIVE, OVER_BEFORE = "share of cuBLAS", "times naive", "times the rung before"
COMPARED_RATES = (OF_CUBLAS, OVER_NAIVE, OVER_BEFORE)  # what can be compared between GPUs
OF_PEAK, MEDIAN_TIME = "share of the FP32 peak", "time, ms"
ALONE = "no counterpart"  # as a step between two kernels that are the same rung here
CONTRADICTS = "contradicts the publication itself"
QUANTITIES = (*COMPARED_RATES, OF_PEAK, MEDIAN_TIME)
_DIRECTED = (OVER_NAIVE, OVER_BEFORE)  # ratios that say faster or slower
_SET = ["publication", "gpu", "sizes"]
PUBLISHED_COLUMNS = [
    *("publication", "gpu", "kind", "kernel", "rung", "sizes", "quantity", "compared_with"),
    *("published", "published_low", "published_high", "here", "here_low", "here_high"),
    *("verdict", "times_as_much", "reason", "source"),
]


def judged(quantity: str, there: Interval, here: Interval) -> str:
    """How a number from here stands to a published one.

    `agrees` where the intervals meet or are less than LEVEL apart. Else a ratio of speeds has `the same direction`
    (both faster, or both slower) or is `opposite`; any other number is `outside`.
    """
    if here.low <= there.high * (1 + LEVEL) and there.low <= here.high * (1 + LEVEL):
        return "agrees"
    if quantity not in _DIRECTED:
        return "outside"
    return "the same direction" if _direction(there.value) == _direction(here.value) else "opposite"


def _direction(ratio: float) -> int:
    return 0 if abs(ratio - 1) < LEVEL else 1 if ratio > 1 else -1


def read_published() -> pd.DataFrame:
    """The published figures, their numbers as `Interval`s or None, and what follows from them.

    Columns: those of the file, and before_kernel and before_trial (of the row that a step is over). share_of_cublas,
    speedup_over_naive, speedup_over_before and share_of_peak are ratios; where a publication does not give one but the
    rates or times that it is a ratio of, at the same size on the same GPU, it is computed from those. `rung` is ours of
    the same idea, empty where there is none.
    """
    table = pd.read_csv(PUBLISHED_FIGURES, dtype=str, keep_default_na=False)
    numbers = ("time_ms", "gflops", "share_of_cublas", "speedup_over_naive", "speedup_over_before")
    for column in numbers:
        table[column] = [Interval.of_text(text) if text else None for text in table[column]]
    table["before_kernel"], table["before_trial"], table["share_of_peak"] = "", "", None
    found = []
    for _, rows in table.groupby(_SET, sort=False):
        records = rows.to_dict("records")
        for row in records:
            row["share_of_peak"] = _share_of_peak(row)
        _add_ratios(records)
        found += records
    return pd.DataFrame(found)


def _add_ratios(rows: list[dict[str, Any]]) -> None:
    """Ratios that a publication does not give, of rows of the same size on the same GPU."""
    references = {row["kernel"].lower(): row for row in reversed(rows)}
    naive = references.get("naive")
    for row in rows:
        for column, reference in (("share_of_cublas", references.get("cublas")), ("speedup_over_naive", naive)):
            if row[column] is None and reference is not None:
                row[column] = _ratio(row, reference)
        if naive is not None and naive["share_of_cublas"] is None and row["share_of_cublas"] is not None:
            naive["share_of_cublas"] = row["share_of_cublas"].over(row["speedup_over_naive"])
    before = None
    for row in rows:
        if not row["rung"] or row["rung"] == "cublas":
            continue
        if row["before"] == "none":
            row["before"] = ""
        elif before is not None and not row["before"]:
            row |= {"before": before["rung"], "before_kernel": before["kernel"], "before_trial": before["trial"]}
            if row["speedup_over_before"] is None:
                row["speedup_over_before"] = _ratio(row, before)
                if row["speedup_over_before"] is None and before is naive:
                    row["speedup_over_before"] = row["speedup_over_naive"]
        before = row


def _ratio(row: Mapping[str, Any], of: Mapping[str, Any]) -> Interval | None:
    """How many times as fast a row is as another, from their rates or else times; None where neither has both."""
    for column, upper, lower in (("gflops", row, of), ("time_ms", of, row)):
        if upper[column] is not None and lower[column] is not None:
            return upper[column].over(lower[column])
    return None


def _share_of_peak(row: Mapping[str, Any]) -> Interval | None:
    """The rate over the FP32 peak in the file of the GPU that it was published for."""
    if row["gflops"] is None and (row["time_ms"] is None or not row["sizes"].isdigit()):
        return None
    peak = read_gpu(row["gpu_file"]).peak_gflops
    if row["gflops"] is not None:
        return row["gflops"].scaled(1 / peak)
    return Interval.exactly(Shape.parse(row["sizes"]).flop / 1e6 / peak).over(row["time_ms"])


@dataclass(frozen=True)
class Here:
    """What is measured here: the tables of those names, the last three if there are any; the GPU."""

    gpu: Gpu
    timings: pd.DataFrame
    profiles: pd.DataFrame
    paper: pd.DataFrame
    trials: pd.DataFrame = field(default_factory=pd.DataFrame)
    advice: pd.DataFrame = field(default_factory=pd.DataFrame)
    hardware: pd.DataFrame = field(default_factory=pd.DataFrame)

    def rate(self, rung: str, n: str, column: str) -> Interval | None:
        """A number of a rung in the table of timings with its interval, at a square size."""
        rows = self.timings[(self.timings["rung"] == rung) & (self.timings["shape"].astype(str) == n)]
        if rows.empty or pd.isna(rows[column].iloc[0]):
            return None
        row, stem = rows.iloc[0], column.removesuffix("_median")
        return Interval(row[f"{stem}_ci_low"], row[column], row[f"{stem}_ci_high"])

    def timed(self, rung: str) -> bool:
        """Whether the table of timings has a rung; else it is perhaps a trial."""
        return rung in set(self.timings["rung"])

    def share_of_cublas(self, rung: str, sizes: str) -> Interval | None:
        """A rung's, or a trial's, speed over that of the library that publications compare with, `cublas`.

        At one size, or the geometric mean over sizes apart by `;`.
        """
        return _mean(
            self.rate(rung, n, "speedup_over_default") if self.timed(rung) else self._trial(rung, n)
            for n in sizes.split(";")
        )

    def step(self, rung: str, other: str, sizes: str) -> Interval | None:
        """A rung's speed over another's: in one process where both were in it, else both over `cublas`."""
        rows = self.timings[self.timings["rung"] == rung]
        if (rows["before"] == other).any():
            found = _mean(self.rate(rung, n, "speedup_over_before") for n in sizes.split(";"))
            if found:
                return found
        own, others = self.share_of_cublas(rung, sizes), self.share_of_cublas(other, sizes)
        return own.over(others) if own and others else None

    def _trial(self, name: str, n: str) -> Interval | None:
        rows = self.trials
        if rows.empty:
            return None
        rows = rows[(rows["trial"] == name) & (rows["shape"].astype(str) == n) & (rows["status"] == "ok")]
        return None if rows.empty else Interval.exactly(float(rows["speedup_over_cublas"].iloc[-1]))

    def before(self, row: Mapping[str, Any]) -> str:
        """What the step of a published row is over: of a kernel with published tiles one with published tiles too.

        The rung as tuned where those of the kernel before are not known, or were not timed here.
        """
        with_tiles = row["before_trial"] if row["rung"] == row["trial"] else ""
        return with_tiles if with_tiles and self.share_of_cublas(with_tiles, row["sizes"]) else row["before"]

    def quantities(self, row: Mapping[str, Any], naive: str) -> Iterator[tuple[str, str, Interval | None]]:
        """Each quantity of a published row: its name, what it is compared with, and its value here."""
        rung, sizes, before = row["rung"], row["sizes"], self.before(row)
        yield OF_CUBLAS, "cublas", self.share_of_cublas(rung, sizes)
        yield OVER_NAIVE, naive, self.step(rung, naive, sizes) if naive and rung != naive else None
        known = before and row["before_kernel"] != "naive"
        yield OVER_BEFORE, before, self.step(rung, before, sizes) if known else None
        peak = self.rate(rung, sizes, "gflops")
        yield OF_PEAK, "", peak.scaled(1 / self.gpu.peak_gflops) if peak else None
        yield MEDIAN_TIME, "", self.rate(rung, sizes, "time_ms_median")


def _mean(each: Iterable[Interval | None]) -> Interval | None:
    """The geometric mean; None where one is missing. One number is its own mean, with its own ends."""
    found = list(each)
    return None if None in found else found[0] if len(found) == 1 else Interval.geometric_mean(found)


_COLUMNS = dict(
    zip(
        QUANTITIES,
        ("share_of_cublas", "speedup_over_naive", "speedup_over_before", "share_of_peak", "time_ms"),
        strict=True,
    )
)


def compare_published(here: Here) -> pd.DataFrame:
    """Every published number whose rung is measured here at the same sizes, with PUBLISHED_COLUMNS.

    Where a publication names the tiles of its kernel, ours with these is compared too, under that variant's name: as a
    rung where its records are there, else the share and the steps of the trial by which tuning has timed it. Profiles'
    metrics and Nsight Compute's estimates follow, then numbers on paper, of the hardware, and those that contradict
    others of the same publication.
    """
    reasons = Reasons(here.gpu, here.timings, here.profiles, here.paper, here.trials)
    rows = []
    for _, each in read_published().groupby(_SET, sort=False):
        records = each.to_dict("records")
        naive = next((row["rung"] for row in records if row["kernel"] == "naive"), "")
        for row in records:
            if not row["rung"] or row["rung"] == "cublas":
                continue
            for rung in dict.fromkeys((row["rung"], row["trial"] or row["rung"])):
                rows += _compared({**row, "rung": rung}, here, naive, reasons)
    rows += compared_metrics(here, reasons)
    rows += [*_compared_advice(here, reasons), *_compared_paper(here), *_compared_hardware(here)]
    rows += _contradictions() if rows else []
    return pd.DataFrame(rows, columns=PUBLISHED_COLUMNS)


def _compared(row: Mapping[str, Any], here: Here, naive: str, reasons: Reasons) -> list[dict[str, Any]]:
    found, measured = [], here.share_of_cublas(row["rung"], row["sizes"])
    for quantity, other, value in here.quantities(row, naive):
        published = row[_COLUMNS[quantity]]
        if quantity == OVER_NAIVE and published and row["kernel"] != "naive" and row["rung"] == naive and measured:
            nothing = Interval.exactly(np.nan)
            found.append(_row(row, quantity, other, published, nothing, ALONE, row["note"].partition("; ")[2]))
        if published is None or value is None:
            continue
        says = judged(quantity, published, value)
        why = "" if says == "agrees" else reasons.of_rate(quantity, row, other, published, value)
        found.append(_row(row, quantity, other, published, value, says, why))
    return found


def _row(
    row: Mapping[str, Any], quantity: str, other: str, there: Interval, here: Interval, says: str, why: str
) -> dict[str, Any]:
    return {
        **{name: row[name] for name in ("publication", "gpu", "kind", "kernel", "rung", "sizes", "source")},
        **{"quantity": quantity, "compared_with": other},
        **{"published": there.value, "published_low": there.low, "published_high": there.high},
        **{"here": here.value, "here_low": here.low, "here_high": here.high},
        **{"verdict": says, "times_as_much": here.value / there.value if there.value else np.nan, "reason": why},
    }


def read_metrics() -> tuple[Mapping[str, str], Sequence[Mapping[str, Any]]]:
    """The published metrics: reasons by their names, and a set of metrics for each publication and kernel."""
    return _data()["reasons"], _data()["profiles"]


def _data() -> Mapping[str, Any]:
    return yaml.safe_load(PUBLISHED_METRICS.read_text(encoding="utf-8"))


def compared_metrics(here: Here, reasons: Reasons) -> list[dict[str, Any]]:
    """Rows of the published metrics whose rung has a profile of the same size."""
    templates, sets = read_metrics()
    rows = []
    for each in sets:
        common = {name: each[name] for name in ("publication", "gpu", "kind", "kernel", "source")}
        for name, text, *rest in each["metrics"]:
            key, rung = (*rest, "", "")[:2]
            tiles = each.get("trial", "")  # the rung with published tiles, where it is profiled
            rung = rung or (tiles if reasons.profile(tiles, str(each["n"])) else each["rung"])
            own = reasons.profile(rung, str(each["n"]))
            if name not in own:
                continue
            there, value = Interval.of_text(str(text)), Interval.exactly(own[name])
            says = judged(name, there, value)
            why = reasons.of_metric(templates[key], own, each["gpu_file"]) if says != "agrees" and key else ""
            row = {**common, "rung": rung, "sizes": str(each["n"])}
            rows.append(_row(row, name, "", there, value, says, why))
    return rows


def _sets(kind: str) -> Sequence[Mapping[str, Any]]:
    return _data()[kind]


def _common(each: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """What a row says of its publication."""
    return {**{name: each[name] for name in ("publication", "gpu", "kind", "kernel", "source")}, **more}


def _judged_row(row: Mapping[str, Any], quantity: str, text: object, here: Interval, why: str) -> dict[str, Any]:
    there = Interval.of_text(str(text))
    says = judged(quantity, there, here)
    return _row(row, quantity, "", there, here, says, "" if says == "agrees" else why)


def _compared_advice(here: Here, reasons: Reasons) -> Iterator[dict[str, Any]]:
    """Estimates of Nsight Compute, of rungs that have a profile, and the ratio of FP32 to FP64 units that it tells."""
    templates = _data()["reasons"]
    for each in _sets("advice"):
        shape = str(each["n"])
        for rule, title, text, key, *rest in each["estimates"]:
            rung = rest[0] if rest else each["rung"]
            own, row = reasons.profile(rung, shape), _common(each, rung=rung, sizes=shape)
            if not own:
                continue
            name, why = (
                f"estimate of Nsight in %: {title or rule}",
                reasons.of_metric(templates[key], own, each["gpu_file"]),
            )
            value = _estimate(here.advice, rung, shape, rule, title)
            if value is None:
                nothing = Interval.exactly(np.nan)
                there = Interval.of_text(str(text))
                yield _row(row, name, "", there, nothing, ALONE, f"Nsight Compute does not advise this here. {why}")
            else:
                yield _judged_row(row, name, text, Interval.exactly(value), why)
        advice = here.advice
        told = (
            advice[(advice["rung"] == each["rung"]) & (advice["shape"].astype(str) == shape)] if len(advice) else advice
        )
        ratios = [found for text in told.get("message", ()) for found in _RATIO_OF_UNITS.findall(str(text))]
        if ratios and reasons.profile(each["rung"], shape):
            row, ratio = _common(each, rung=each["rung"], sizes=shape), float(ratios[0])
            why = templates["doubles"].format(here_ratio=ratio, there_ratio=each["fp32_to_fp64"])
            yield _judged_row(row, "FP32 to FP64 peak", each["fp32_to_fp64"], Interval.exactly(ratio), why)


_RATIO_OF_UNITS = re.compile(r"ratio of peak .*? on this device is (\d+):1")


def _estimate(advice: pd.DataFrame, rung: str, shape: str, rule: str, title: str) -> float | None:
    """The estimate, in percent, of a piece of advice of the kernel that multiplies; None where there is none."""
    if advice.empty:
        return None
    of_rung = advice[
        (advice["rung"] == rung) & (advice["shape"].astype(str) == shape) & advice["multiplies"].astype(bool)
    ]
    rows = of_rung[(of_rung["rule"] == rule) & (of_rung["title"].fillna("") == title)]
    found = rows["estimated_speedup_percent"].dropna()
    return None if found.empty else float(found.iloc[0])


def _compared_paper(here: Here) -> Iterator[dict[str, Any]]:
    """Numbers on paper: reads a result, FLOP a byte, and the least times."""
    templates, paper = _data()["reasons"], here.paper
    for each in _sets("paper"):
        there, shape = read_gpu(each["gpu_file"]), str(each["n"])
        for rung in dict.fromkeys((each.get("trial", each["rung"]), each["rung"])):
            rows = paper[(paper["rung"] == rung) & (paper["shape"].astype(str) == shape)]
            if len(rows):
                break
        else:
            continue
        own = rows.iloc[0]
        facts = {"here": here.gpu, "there": there, "paper": own, "least_mb": 12 * each["n"] ** 2 / 1e6}
        facts["dram_gb_s"] = facts["least_mb"] / own["memory_floor_ms"]
        facts |= {"here_tflops": own["flop"] / own["compute_floor_ms"] / 1e9, "there_tflops": there.peak_gflops / 1e3}
        for name, text, key in each["numbers"]:
            row = _common(each, rung=rung, sizes=shape)
            yield _judged_row(row, name, text, Interval.exactly(float(own[name])), templates[key].format(**facts))


def _compared_hardware(here: Here) -> Iterator[dict[str, Any]]:
    """Latencies and bandwidths of the memories, where the probes of this GPU are recorded."""
    templates, table = _data()["reasons"], here.hardware
    for each in _sets("hardware") if len(table) else ():
        there = read_gpu(each["gpu_file"])
        for name, of, kind, how, column, text, key, *rest in each["probes"]:
            rows = table[(table["of"] == of) & (table["kind"] == kind) & (table["how"] == how)]
            if rows.empty:
                continue
            own, factor = rows.iloc[0], rest[0] if rest else 1
            value = Interval(own[f"{column}_ci_low"], own[column], own[f"{column}_ci_high"]).scaled(factor)
            why = templates[key].format(row=own, here=here.gpu, there=there)
            yield _judged_row(_common(each, rung="", sizes=""), name, text, value, why)


def _contradictions() -> Iterator[dict[str, Any]]:
    """Where a publication says of one thing two numbers: the first, and why the second is another."""
    for each in _sets("contradictions"):
        over, under = each["ratio"]
        row = _common(each, rung=each["rung"], sizes=each["sizes"])
        there, nothing = Interval.of_text(str(each["says"])), Interval.exactly(np.nan)
        why = each["words"].format(other=over / under)
        yield _row(row, each["quantity"], "", there, nothing, CONTRADICTS, why)


def findings(table: pd.DataFrame) -> list[str]:
    """What the comparison says: for each publication how many numbers agree, and its largest step."""
    lines = []
    for publication, rows in table.groupby("publication", sort=False):
        count = rows["verdict"].value_counts()
        said = ", ".join(f"{words} {count[name]}" for name, words in SAID_OF.items() if name in count)
        what = "expects" if (rows["kind"] == "expected").all() else "gives"
        line = f"{publication} {what} {len(rows)} numbers that can be compared: {said}."
        steps = rows[(rows["quantity"] == OVER_BEFORE) & (rows["verdict"] != CONTRADICTS)]
        if len(steps):
            top = steps.loc[steps["published"].idxmax()]
            line += (
                f" Its largest step, {top['compared_with']} to {top['rung']} at {size_words(top['sizes'])}, is"
                f" {top['published']:.2f} x there and {top['here']:.2f} x here: {_words(top)}."
            )
        line += "".join(
            f" {row.compared_with} to {row.rung} is {row.published:.2f} x there, but {row.here:.2f} x here."
            for row in steps[steps["verdict"] == "opposite"].itertuples()
        )
        lines.append(line)
    return lines


SAID_OF = {
    "agrees": "agree",
    "the same direction": "same direction by another factor",
    "outside": "outside the intervals",
    "opposite": "opposite",
    ALONE: ALONE,
    CONTRADICTS: CONTRADICTS,
}


def verdict_words(table: pd.DataFrame) -> list[str]:
    """The verdict of each row in words, with its factor."""
    return [_words(row) for row in table.to_dict("records")]


def _words(row: Mapping[str, Any] | pd.Series) -> str:
    if row["verdict"] in ("agrees", "opposite", ALONE, CONTRADICTS) or not row["times_as_much"] > 0:
        return str(row["verdict"])
    more = row["times_as_much"] > 1
    factor = row["times_as_much"] if more else 1 / row["times_as_much"]
    return f"{row['verdict']}, {factor:.3g} times {'as much' if more else 'less'}"


def size_words(sizes: str) -> str:
    """`2048`, or `512, 1024, 2048 and 4096`."""
    *first, last = ("" if pd.isna(sizes) else str(sizes)).split(";")
    return f"{', '.join(first)} and {last}" if first else last
