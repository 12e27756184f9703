"""Nsight Compute's metrics, from workflow/data/metrics.yaml: what each is called here and there, its unit and meaning.

The rest of the package knows a metric by its name here; no other module spells one of Nsight Compute's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True)
class Metric:
    """One metric: its name here, its name in Nsight Compute (`counter`), its unit, its section, and what it says.

    The section is that of Nsight Compute's report; it is empty for a metric that only the diagnosis reads.
    """

    name: str
    counter: str
    unit: str
    section: str
    meaning: str


@dataclass(frozen=True)
class Ratio:
    """What the SGEMM worklogs quote and Nsight Compute has as two counts: one metric over another, by their names."""

    name: str
    over: str
    under: str
    meaning: str


_REGISTRY = yaml.safe_load((Path(__file__).parents[2] / "data" / "metrics.yaml").read_text())
METRICS = {row[0]: Metric(*row[:3], section, row[3]) for section, rows in _REGISTRY["metrics"].items() for row in rows}
RATIOS = tuple(Ratio(*row) for row in _REGISTRY["ratios"])
STALLS: Mapping[str, str] = _REGISTRY["stalls"]  # what a warp waits for between two of its instructions, in words
COMPARED: Sequence[tuple[str, str, str]] = _REGISTRY["compared"]  # rows of a comparison: label, name, unit
_STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")
_SAMPLES = "smsp__pcsamp_warps_issue_stalled_"
# Counted at each instruction, and for each opcode.
EXECUTED_AT, EXECUTED_OPCODES = "inst_executed", "sass__inst_executed_per_opcode"


def value_of(metrics: Mapping[str, Any], name: str, missing: float = math.nan) -> float:
    """A metric's value in a record (counter -> [value, unit]), by its name here; `missing` where it has none."""
    found = metrics.get(METRICS[name].counter, (missing,))[0]
    return float(found) if isinstance(found, (int, float)) else missing


def stall_counters(metrics: Mapping[str, Any]) -> dict[str, str]:
    """The reasons for which warps stalled in a record, sorted, and the counter of each.

    It counts the cycles that a warp waits for that reason, for each instruction that it issues.
    """
    return dict(sorted((match[1], counter) for counter in metrics if (match := _STALL.fullmatch(counter))))


def sampled_reason(counter: str) -> str:
    """What the warps that a counter samples were waiting for; empty for any other counter."""
    sampled = counter.startswith(_SAMPLES) and not counter.endswith("_not_issued")
    return counter.removeprefix(_SAMPLES) if sampled else ""


def is_kept(counter: str) -> bool:
    """Whether a record keeps a counter: not a property of the device, nor samples over time (no one value)."""
    return not counter.startswith("device__attribute_") and ".TriageCompute." not in counter
