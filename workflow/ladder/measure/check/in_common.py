"""What the cases that pass have in common and those that fail have not, in a few words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from ladder.model.cases import Case

_MULTIPLES = (256, 128, 64, 32, 16, 8, 4, 2)  # what all that pass are multiples of is told as largest
_Test = tuple[str, str, Callable[[Case], bool]]  # in words, its contrary in words, and itself


def passing(passed: Sequence[Case], failed: Sequence[Case]) -> str:
    """Which cases pass, as in `8 of 20 cases pass, all with k % 16 = 0`.

    That is one condition or two on m, n, k, leading dimensions, scalars, layout and family of inputs which all that
    pass meet and none that fails does; else one that all that pass meet, if most that fail do not; else one that none
    that fails meets, if at least half of those that pass do. Cases without a product tell nothing of a kernel: where
    one with a product fails, they do not count. Nor do probes where another case fails, for some of them call with
    other arguments or inputs than their case has.
    """
    if not all(case.probe for case in failed):
        passed, failed = ([case for case in cases if not case.probe] for cases in (passed, failed))
    what = "cases"
    if all(map(_has_product, failed)) and not all(map(_has_product, passed)):
        passed, what = [case for case in passed if _has_product(case)], "cases with a product"
    cases = [*passed, *failed]
    told = f"{len(passed)} of {len(cases)} {what} pass"
    if not passed:
        return f"none of {len(cases)} {what} passes" if len(cases) > 1 else ""
    if not failed:
        return told
    every = (1 << len(cases)) - 1
    right = (1 << len(passed)) - 1
    found = {}  # of each set of cases, a bit for each, the first condition that holds for just these
    for text, contrary, holds in _tests(cases):
        bits = sum(holds(case) << index for index, case in enumerate(cases))
        found.setdefault(bits, text)
        found.setdefault(every & ~bits, contrary)
    if right in found:
        return f"{told}, all with {found[right]}"
    necessary = {bits: text for bits, text in found.items() if bits & right == right}
    for (one, first), (other, second) in combinations(necessary.items(), 2):
        if one & other == right:
            return f"{told}, all with {first} and {second}"
    forbidden = {bits: text for bits, text in found.items() if bits & (every & ~right) == every & ~right}
    for (one, first), (other, second) in combinations(forbidden.items(), 2):
        if one & other == every & ~right:
            return f"{told}; all with {first} and {second} fail"
    widest = min(necessary, key=lambda bits: (bits & ~right).bit_count(), default=every)
    also = (widest & ~right).bit_count()
    if 2 * also < len(failed):
        return f"{told}, all with {necessary[widest]} (as {also} that fail)"
    sufficient = {bits: text for bits, text in found.items() if bits and not bits & ~right}
    most = max(sufficient, key=int.bit_count, default=0)
    return f"{told}, among them all with {sufficient[most]}" if 2 * most.bit_count() >= len(passed) else told


def _has_product(case: Case) -> bool:
    return case.multiplies and min(case.shape.m, case.shape.n) > 0


def _tests(cases: Sequence[Case]) -> Iterator[_Test]:
    """Conditions on a case, the likeliest first."""
    for name in ("beta", "alpha"):
        for value in (0, 1):
            yield f"{name} = {value}", f"{name} != {value}", lambda case, n=name, v=value: getattr(case, n) == v
    plain, other = "alpha = 1 and beta = 0", "alpha != 1 or beta != 0"
    yield plain, other, lambda case: (case.alpha, case.beta) == (1, 0)
    yield "padding = 0", "padding", lambda case: not any(case.paddings)
    for name, least in (("lda", "k"), ("ldb", "n"), ("ldc", "n")):
        yield f"{name} = {least}", f"{name} > {least}", lambda c, d=name, e=least: _size(c, d) == _size(c, e)
    yield "offset = 0", "an offset", lambda case: not any(case.offsets)
    yield "m = n = k", "m, n, k that differ", lambda case: case.shape.m == case.shape.n == case.shape.k
    for family in dict.fromkeys(case.family for case in cases):
        yield f"{family} inputs", f"other than {family} inputs", lambda case, f=family: case.family == f
    for number in _MULTIPLES:
        for name in ("k", "n", "m", "lda", "ldb", "ldc"):
            text = f"{name} % {number}"
            yield f"{text} = 0", f"{text} != 0", lambda case, n=name, d=number: _size(case, n) % d == 0
    for name in ("k", "n", "m"):
        values = sorted({_size(case, name) for case in cases})
        for value in sorted(values, key=lambda value: (value & (value - 1) != 0, value)):  # powers of two first
            yield f"{name} <= {value}", f"{name} > {value}", lambda case, n=name, v=value: _size(case, n) <= v


def _size(case: Case, name: str) -> int:
    shape, (a, b, c) = case.shape, case.paddings
    return {"m": shape.m, "n": shape.n, "k": shape.k, "lda": shape.k + a, "ldb": shape.n + b, "ldc": shape.n + c}[name]
