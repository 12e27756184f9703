"""What a rung claims to compute, where that is less than SGEMM: kernels.yaml's `claims`.

A claim is a name of NAMES with the only value that it may have, or with a condition on it, a Python expression
(`ladder.model.expressions`): `{n: "n % 128 == 0", beta: 0}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from ladder.model.cases import OTHER_ARGUMENTS, Case
from ladder.model.expressions import evaluate
from ladder.model.shape import Shape

NAMES = ("m", "n", "k", "lda", "ldb", "ldc", "alpha", "beta")
REACH = 1024  # how far beyond a dimension the next one is looked for that is claimed

Claims = Mapping[str, Any]


def in_words(claims: Claims) -> str:
    """`n % 128 = 0, beta = 0`: the restriction as tables and pages show it; empty for a rung that computes SGEMM."""
    texts = [value if isinstance(value, str) else f"{name} = {value:g}" for name, value in claims.items()]
    return ", ".join(text.replace("==", "=") for text in texts)


def _values(case: Case) -> dict[str, float]:
    shape, (a, b, c) = case.shape, case.paddings
    sizes = {"m": shape.m, "n": shape.n, "k": shape.k, "lda": shape.k + a, "ldb": shape.n + b, "ldc": shape.n + c}
    return {**sizes, "alpha": case.alpha, "beta": case.beta}


def _meets(claims: Claims, name: str, case: Case) -> bool:
    values, claim = _values(case), claims[name]
    if isinstance(claim, str):
        return bool(evaluate(claim, values, "number", "of a product"))
    return values[name] == claim


def claimed(claims: Claims, case: Case) -> bool:
    """Whether a rung claims to compute a case. Raises ValueError for an expression that is none."""
    return all(_meets(claims, name, case) for name in claims)


def claimed_shapes(claims: Claims, shapes: Iterable[Shape]) -> list[Shape]:
    """Those of the shapes that a rung claims as they are timed: alpha = 1, beta = 0, no gaps."""
    return [shape for shape in shapes if claimed(claims, Case(shape))]


def not_as_timed(claims: Claims) -> str:
    """The scalar whose claim leaves out how rungs are timed, at alpha = 1 and beta = 0; empty where none does."""
    scalars = (name for name in ("alpha", "beta") if name in claims)
    sizes = [Case(Shape(m, n, k)) for m in (1, 128) for n in (1, 128) for k in (1, 128)]
    return next((name for name in scalars if not any(_meets(claims, name, case) for case in sizes)), "")


def claimed_cases(claims: Claims, cases: Iterable[Case]) -> list[Case]:
    """The cases that a rung claims, in the place of those given: each as near to its own as one number at a time leads.

    A scalar or dimension becomes the one that is claimed, or the next one that is; a gap grows. Cases that no such
    change makes claimed are left out, and so is the probe that has dimensions of its own.
    """
    moved = (_moved(claims, case) for case in cases if case.probe != OTHER_ARGUMENTS)
    return list(dict.fromkeys(case for case in moved if claimed(claims, case)))


def _moved(claims: Claims, case: Case) -> Case:
    for name, claim in claims.items():
        if _meets(claims, name, case):
            continue
        if isinstance(claim, str):
            used = {name, *re.findall(r"\w+", claim)}
            value = _next(claim, name, tuple(each for each in _values(case).items() if each[0] in used))
            case = case if value is None else _with(case, name, value)
        elif _meets(claims, name, moved := _with(case, name, claim)):
            case = moved
    return case


@cache
def _next(claim: str, name: str, values: tuple[tuple[str, float], ...]) -> float | None:
    """The next value of a number with which a condition on it is met, given what the condition names; None for none."""
    given = dict(values)
    now = given[name]

    def changed(value: float) -> dict[str, float]:
        grow = {each: given[each] + value - now for each in _ROWS.get(name, ()) if each in given}
        return {**given, name: value, **grow}

    candidates = (0, 1, -1, 2) if name in ("alpha", "beta") else range(int(now), int(now) + REACH)
    return next((value for value in candidates if evaluate(claim, changed(value), "number", "of a product")), None)


_ROWS = {"k": ("lda",), "n": ("ldb", "ldc")}  # what grows with a dimension, for gaps stay as they are


def _with(case: Case, name: str, value: Any) -> Case:
    if name in ("alpha", "beta"):
        return replace(case, **{name: value})
    if name in ("m", "n", "k"):
        return replace(case, shape=replace(case.shape, **{name: value}))
    matrix = ("lda", "ldb", "ldc").index(name)
    columns = (case.shape.k, case.shape.n, case.shape.n)[matrix]
    paddings = list(case.paddings)
    paddings[matrix] = max(0, value - columns)
    return replace(case, padding=tuple(paddings) if len(set(paddings)) > 1 else paddings[0])
