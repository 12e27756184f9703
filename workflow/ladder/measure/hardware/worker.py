"""The process that measures the probes of kernels/floor/hardware.cu."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ladder.build.library import explain
from ladder.system import process
from ladder.system.errors import LadderError

WARM_UP_S = 0.5  # of FFMAs, in which the GPU raises its clocks


class _Probe(ctypes.Structure):
    """`Probe` of hardware.cu."""

    _fields_ = [
        ("of", ctypes.c_char_p),
        ("kind", ctypes.c_char_p),
        ("how", ctypes.c_char_p),
        ("count", ctypes.c_double),
        ("blocks", ctypes.c_int),
        ("samples", ctypes.c_int),
    ]


class Probes:
    """The probes of a library on the current device."""

    def __init__(self, path: Path) -> None:
        """Load the library and let it take its memory; raises LadderError where it cannot."""
        self._library = ctypes.CDLL(str(path.resolve()))
        self._library.hardware_measure.argtypes = [*(ctypes.c_int,) * 2, *(ctypes.POINTER(ctypes.c_double),) * 2]
        count = ctypes.c_int()
        _require(self._library.hardware_open(ctypes.byref(count)), "hardware_open")
        self.count = count.value

    def describe(self, number: int) -> dict[str, Any]:
        """What a probe is: of, kind, how, count (accesses, bytes or FLOP of a block), blocks, and how many samples."""
        found = _Probe()
        _require(self._library.hardware_describe(number, ctypes.byref(found)), "hardware_describe")
        values = {name: getattr(found, name) for name, _ in _Probe._fields_}
        return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}

    def measure(self, number: int, sample: int) -> tuple[float, float]:
        """One sample: cycles (of a block, on average; 0 where none are counted) and nanoseconds (of them all)."""
        cycles, ns = ctypes.c_double(), ctypes.c_double()
        _require(self._library.hardware_measure(number, sample, ctypes.byref(cycles), ctypes.byref(ns)), "it")
        return cycles.value, ns.value


def _require(error: int, what: str) -> None:
    if error:
        raise LadderError(f"{what} returned {explain(error)}")


def main(asked: Mapping[str, Any]) -> None:
    """Measure the probes from number `first` on, each once before its samples; sends what is found of each."""
    probes = Probes(Path(asked["library"]))
    listed = [probes.describe(number) for number in range(probes.count)]
    warming = next(number for number, each in enumerate(listed) if (each["of"], each["kind"]) == ("FFMA", "rate"))
    begun = time.monotonic()
    while time.monotonic() - begun < WARM_UP_S:
        probes.measure(warming, 0)
    for number in range(asked["first"], probes.count):
        described = listed[number]
        samples = described.pop("samples")
        process.emit(starts=described)
        probes.measure(number, 0)
        found = [probes.measure(number, sample) for sample in range(samples)]
        cycles = [round(each, 3) for each, _ in found if each]
        process.emit(probe={**described, "cycles": cycles, "ns": [round(each, 3) for _, each in found]})
