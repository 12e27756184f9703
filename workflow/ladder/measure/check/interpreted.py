"""A rung in Triton on the CPU: Triton's interpreter computes its values, block after block, with NumPy.

It finds wrong values and writes outside C. Unlike the emulator it does not look at each access, has no threads, and
multiplies in FP32 whatever precision the kernel asks for.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ladder.build.languages.compile import extra_folder
from ladder.build.languages.triton_worker import TRITON_OPTIONS
from ladder.build.languages.worker import POINTERS, load
from ladder.build.library import Operands
from ladder.measure.devices import Call
from ladder.model.cases import Case
from ladder.model.expressions import evaluate
from ladder.model.shape import Shape

MOST_FLOP = 3e7  # of a product that the interpreter computes in seconds
SMS = 3  # that a kernel is told the GPU has: fewer than tiles, for persistent ones


def interpreted_cases(cases: Sequence[Case]) -> list[Case]:
    """Those of the cases that the interpreter can compute in seconds, with gaps that fit into memory; none is drawn."""
    fixed = (case for case in cases if not case.blocks and not case.drawn)
    return [case for case in fixed if case.shape.flop < MOST_FLOP and max(case.paddings) < 1 << 20]


class InterpretedLibrary:
    """A rung in Triton as the check calls it: what the pipeline's host code does, with the interpreter for the GPU."""

    def __init__(self, file: str, wrap: Mapping[str, Any], classes: Sequence[Mapping[str, Any]]) -> None:
        """Load the kernel of a file; `classes` has the end of each class of size and the values of its parameters."""
        os.environ["TRITON_INTERPRET"] = "1"
        sys.path.insert(0, str(extra_folder("triton")))
        importlib.import_module("triton")
        self._kernel, self._wrap, self._classes = load(file, wrap["kernel"]), wrap, classes

    def workspace_bytes(self, shape: Shape, alpha: float, beta: float, operands: Operands) -> int:
        """No rung in Triton has a workspace."""
        return 0

    def queue(
        self, shape: Shape, alpha: float, beta: float, operands: Operands, workspace: int = 0, stream: int = 0
    ) -> int:
        """Compute one product; returns 0."""
        if not shape.m or not shape.n:
            return 0
        o = operands
        if not shape.k or alpha == 0:
            C = _Matrix(o.C).of(shape.m, shape.n, o.ldc)
            C[...] = 0 if beta == 0 else np.float32(beta) * C
            return 0
        values = next(each["values"] for each in self._classes if shape.flop < each["below_flop"])
        numbers = {**vars(shape), "lda": o.lda, "ldb": o.ldb, "ldc": o.ldc, "sms": SMS, **values}
        given = {**numbers, **{name: _Matrix(getattr(o, name)) for name in POINTERS}, "alpha": alpha, "beta": beta}
        grid = tuple(evaluate(str(each), numbers, "number", "of a product") for each in self._wrap["grid"])
        constants = {name: value for name, value in values.items() if name not in TRITON_OPTIONS}
        with np.errstate(all="ignore"):
            self._kernel[grid](*(given[str(each)] for each in self._wrap["arguments"]), **constants)
        return 0


class _Matrix:
    """An address as the interpreter takes a tensor in the CPU's memory: what it asks a tensor for is the address."""

    dtype = "fp32"

    def __init__(self, address: int) -> None:
        self._address = address

    def of(self, rows: int, columns: int, ld: int) -> np.ndarray:
        """The elements, a rows x columns view."""
        count = (rows - 1) * ld + columns
        whole = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_float * count).from_address(self._address))
        return np.lib.stride_tricks.as_strided(whole, (rows, columns), (4 * ld, 4))

    def data_ptr(self) -> int:
        return self._address

    def untyped_storage(self) -> _Matrix:
        return self

    def cpu(self) -> _Matrix:
        return self

    def new_empty(self, *_: Any, **__: Any) -> _Matrix:
        return _Matrix(self._address)

    def set_(self, *_: Any) -> None:
        """It stands where it stood."""

    def copy_(self, *_: Any) -> None:
        """The interpreter wrote into the memory itself."""

    def storage_offset(self) -> int:
        return 0

    def size(self) -> tuple[int, ...]:
        return ()

    stride = size


class InterpretedDevice:
    """The CPU's memory by NumPy, for a library of this module."""

    arrays, stuck = np, False

    def put(self, host: np.ndarray) -> np.ndarray:
        """A copy."""
        return host.copy()

    def address(self, array: np.ndarray) -> int:
        """Where an array begins."""
        return array.ctypes.data

    def compute(self, library: InterpretedLibrary, call: Call, run: int) -> str:
        """Compute; nothing, for an error of the interpreter ends the process."""
        library.queue(call.shape, call.alpha, call.beta, call.operands)
        return ""

    def clear(self) -> None:
        """Nothing is kept."""
