"""What `snakemake tune` varies of a rung: its parameters, and which combinations of them are worth compiling.

kernels.yaml declares the parameters with the values to try, and restrictions on them, Python expressions. What the
static_asserts of a source refuse stands in the source alone: there the compiler refuses it.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import CodeType

from ladder.model.gpu import Gpu
from ladder.model.rung import Rung
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT, read_text

STATIC_SHARED_KIB = 48  # of a block that asks for no more: taken where the GPU's limits are not known
SYSTEM_SHARED_KIB = 1  # that CUDA keeps of each block, from compute capability 8.0 on

Macros = dict[str, int]

_DEFAULT = re.compile(r"^#ifndef\s+([A-Z][A-Z0-9_]*)\s*\n#define\s+\1\s+(\d+)\s*$", re.MULTILINE)
_FUNCTIONS = {"min": min, "max": max}
_PARTS = (
    *(ast.Expression, ast.Constant, ast.Name, ast.Load, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call),
    *(ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.USub, ast.And, ast.Or, ast.Not),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
)
_MAY_HOLD = "whole numbers, macros, + - * // %, comparisons, and, or, not, min and max"


def defaults(source: str) -> Macros:
    """The macros that a source lets be overridden, with the values that it gives them otherwise."""
    return {name: int(value) for name, value in _DEFAULT.findall(source)}


def evaluate(expression: str, names: Mapping[str, int]) -> int:
    """The value of a Python expression of whole numbers, names, + - * // %, comparisons, and, or, not, min and max.

    Raises ValueError, with what to do about it, for anything else, for an unknown name and for a division by zero.
    """
    code = _compiled(expression)
    for name in code.co_names:
        if name not in names and name not in _FUNCTIONS:
            known = ", ".join(names) or "none"
            raise ValueError(f"{expression!r}: {name} is no macro with a default in the source; known: {known}")
    try:
        return int(eval(code, {"__builtins__": {}}, {**names, **_FUNCTIONS}))
    except ZeroDivisionError:
        values = ", ".join(f"{name}={names[name]}" for name in code.co_names if name in names)
        raise ValueError(f"{expression!r}: divides by zero where {values}; test for it first, with `and`") from None
    except TypeError as error:
        raise ValueError(f"{expression!r}: {error}; it may hold {_MAY_HOLD}") from None


@cache
def _compiled(expression: str) -> CodeType:
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"{expression!r}: is no Python expression; it may hold {_MAY_HOLD}") from None
    for node in ast.walk(tree):
        number = not isinstance(node, ast.Constant) or type(node.value) is int
        function = not isinstance(node, ast.Call) or (isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS)
        if not (isinstance(node, _PARTS) and number and function):
            part = ast.unparse(node) or type(node).__name__
            raise ValueError(f"{expression!r}: {part} has no place in it; it may hold {_MAY_HOLD}")
    return compile(tree, expression, "eval")


@dataclass(frozen=True)
class SearchSpace:
    """What kernels.yaml declares of an entry under `tune`, and the macros of its source with their defaults."""

    parameters: Mapping[str, tuple[int, ...]]
    restrictions: tuple[str, ...]
    shared_bytes: str
    defaults: Macros
    where: str

    @classmethod
    def of(cls, rung: Rung) -> SearchSpace:
        """That of a rung's entry, which has one.

        Raises LadderError where a parameter is no macro that the source lets be overridden, or an expression none.
        """
        declared, where = rung.tune or {}, f"config/kernels.yaml: {rung.entry}.tune"
        known = defaults(read_text(ROOT / "kernels" / rung.source))
        parameters = {name: tuple(values) for name, values in declared["parameters"].items()}
        space = cls(parameters, tuple(declared["restrictions"]), declared["shared_bytes"], known, where)
        for name in (name for name in parameters if name not in known):
            listed = ", ".join(known) or "none"
            raise LadderError(f"{where}: {name} is no macro with a default in the source; known: {listed}")
        for expression in (*space.restrictions, space.shared_bytes):
            space._value(expression, space.default)
        return space

    @property
    def default(self) -> Macros:
        """The source's own values of the parameters."""
        return {name: self.defaults[name] for name in self.parameters}

    def combinations(self, gpu: Gpu) -> list[Macros]:
        """Every combination of the parameters that is worth compiling for a GPU, the source's own defaults first.

        Those that no restriction forbids, and of which the GPU's shared memory holds a block, and as many in an SM as
        the macro MIN_BLOCKS says where the source has it.
        """
        every = itertools.product(*self.parameters.values())
        others = (dict(zip(self.parameters, values, strict=True)) for values in every)
        found = [self.default, *(macros for macros in others if macros != self.default)]
        return [
            macros
            for macros in found
            if all(self._value(each, macros) for each in self.restrictions) and self._fits(macros, gpu)
        ]

    def _fits(self, macros: Macros, gpu: Gpu) -> bool:
        shared = self._value(self.shared_bytes, macros)
        if "shared_memory_per_sm_kib" not in gpu.limits:
            return shared <= STATIC_SHARED_KIB << 10
        blocks = {**self.defaults, **macros}.get("MIN_BLOCKS", 1)
        return (shared + (SYSTEM_SHARED_KIB << 10)) * blocks <= gpu.limits["shared_memory_per_sm_kib"] << 10

    def _value(self, expression: str, macros: Macros) -> int:
        try:
            return evaluate(expression, {**self.defaults, **macros})
        except ValueError as error:
            raise LadderError(f"{self.where}: {error}") from None
