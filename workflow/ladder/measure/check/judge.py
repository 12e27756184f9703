"""What a rung computed is compared with the float64 product: errors, bounds (`ladder.model.bounds`), verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ladder.measure.inputs import RANDOM_SIGNS
from ladder.model.bounds import componentwise_bound, statistical_bound, underflow_bound
from ladder.model.shape import Shape

LARGEST_FLOAT = float(np.finfo(np.float32).max)
HUGE = 1e300  # stands for a relative error of something that should be exactly zero
PANEL_BYTES = 1 << 28  # of a float64 panel of C: the reference of a large product is made panel by panel
_PRODUCTS = {"fp32": "an FP32", "tf32": "a TF32"}


@dataclass(frozen=True)
class Written:
    """The elements that are written, of the rows and the columns in which any is; and which these are of C."""

    elements: Any
    rows: Any
    columns: Any


def written_part(A: Any, B: Any, before: Any, C: Any, written: Any) -> tuple[Any, ...]:
    """The rows and columns in which anything of C is written, of all four, and where in them it is."""
    rows, columns = map(np.unique, np.divmod(np.flatnonzero(written), C.shape[1]))
    written = Written(written[rows][:, columns], rows, columns)
    return A[rows], B[:, columns], before[rows][:, columns], C[rows][:, columns], written


@np.errstate(all="ignore")
def case_error(
    shape: Shape,
    alpha: float,
    beta: float,
    A: Any,
    B: Any,
    before: Any,
    C: Any,
    family: str = "uniform",
    subnormals: str = "gradual",
    precision: str = "fp32",
    written: Written | None = None,
) -> dict[str, Any]:
    """Compare C, or what is written of it, with the float64 product, panel by panel; the errors and the verdict.

    Where terms may overflow in some order of the sum, an infinity or a NaN is right as well, and where the result
    overflows nothing else is. Else they have to stand where IEEE arithmetic on the definition has them. The error's
    norm is that of the statistical test of the whole matrix, null for inputs whose signs are not random and where
    something overflows.
    """
    xp = _arrays(C)
    product = alpha != 0 and shape.k > 0
    scalar_a, scalar_b = float(np.float32(alpha)), float(np.float32(beta))
    B64 = in_float64(B) if product else None
    absolute_B = xp.abs(B64) if product else None
    largest_A, largest_B = (_largest(matrix) if product else 0.0 for matrix in (A, B))
    underflow = underflow_bound(
        shape.k, *map(_or_one, (scalar_a, scalar_b)), largest_A, largest_B, subnormals, precision
    )
    reach = shape.k * abs(scalar_a) * largest_A * largest_B if product else 0.0
    reach += abs(_or_one(scalar_b)) * _largest(before) if beta != 0 else 0.0
    overflows = not reach <= LARGEST_FLOAT / 2 and not (math.isnan(scalar_a) or math.isnan(scalar_b))
    rows = max(1, PANEL_BYTES // (8 * shape.n))
    bound_of_an_element = componentwise_bound(shape.k, precision)
    componentwise, wrong, wrong_elements = 0.0, "", 0
    random_signs = family in RANDOM_SIGNS and not overflows and math.isfinite(scalar_a) and math.isfinite(scalar_b)
    lines = [_Lines.empty(xp, 0), _Lines.empty(xp, shape.n)]  # the rows of all panels, and the columns so far
    for first in range(0, shape.m, rows):
        panel = slice(first, min(first + rows, shape.m))
        expected = xp.zeros((panel.stop - first, shape.n))
        scale = xp.zeros_like(expected)
        terms = xp.zeros_like(expected) if random_signs else None
        if product:
            A64 = in_float64(A[panel])
            expected += scalar_a * (A64 @ B64)
            scale += abs(scalar_a) * (xp.abs(A64) @ absolute_B)
            if random_signs:
                terms += scalar_a**2 * (A64**2 @ B64**2)
        if beta != 0:
            addend = scalar_b * in_float64(before[panel])
            expected += addend
            scale += xp.abs(addend)
            if random_signs:
                terms += addend**2
        found = in_float64(C[panel])
        if written is not None:
            found = xp.where(written.elements[panel], found, expected)
        finite = xp.isfinite(expected)
        right = xp.where(finite, xp.isfinite(found), (found == expected) | (xp.isnan(found) & xp.isnan(expected)))
        if overflows:
            margin = bound_of_an_element * scale + underflow
            never = finite & (scale + margin <= LARGEST_FLOAT)
            always = ~(finite & (xp.abs(expected) - margin <= LARGEST_FLOAT))
            right = xp.where(xp.isfinite(found), ~always, ~never)
            finite &= xp.isfinite(found)
        if not bool(right.all()):
            at = _first(~right)
            place = _place(first + at[0], at[1], written)
            return {"verdict": _not_a_number(float(expected[at]), float(found[at]), place)}
        difference = xp.where(finite, xp.abs(found - expected), 0)
        scale = xp.where(finite, scale, 0)
        beyond = xp.maximum(difference - underflow, 0)
        ratio = xp.where(scale > 0, beyond / xp.where(scale > 0, scale, 1), xp.where(difference > 0, HUGE, 0))
        componentwise = max(componentwise, float(ratio.max()))
        exceeds = ratio > bound_of_an_element
        if not wrong and bool(exceeds.any()):
            at = _first(exceeds)
            limit = underflow + bound_of_an_element * float(scale[at])
            values = (float(each[at]) for each in (found, expected, difference))
            wrong = _too_far_off(_place(first + at[0], at[1], written), *values, limit, precision)
        wrong_elements += int(exceeds.sum())
        if random_signs:
            squares = difference**2
            lines = [lines[0].beside(_Lines.of(squares, terms, 1)), lines[1].along(_Lines.of(squares, terms, 0))]
    errors: dict[str, Any] = {"error_componentwise": _rounded(componentwise), "error_normwise": None}
    of_norm = ""
    if random_signs:
        norms, of_norm = _judge_norms(shape, lines, underflow, precision, written)
        errors |= norms
    if wrong:
        more = f"; {wrong_elements} of {shape.m * shape.n} elements are wrong" if wrong_elements > 1 else ""
        return errors | {"verdict": wrong + more}
    return errors | {"verdict": of_norm or "pass"}


@dataclass(frozen=True)
class _Lines:
    """Of each row, or of each column: squared errors, squared terms, and the largest part of one element.

    The squared terms of an element are those of docs/checking.md, (alpha a b)^2 of each step and (beta c)^2.
    """

    errors: Any
    terms: Any
    largest: Any

    @classmethod
    def empty(cls, xp: Any, count: int) -> _Lines:
        return cls(*(xp.zeros(count) for _ in range(3)))

    @classmethod
    def of(cls, squares: Any, terms: Any, axis: int) -> _Lines:
        """Along an axis of a panel: 1 for its rows."""
        return cls(squares.sum(axis=axis), terms.sum(axis=axis), terms.max(axis=axis))

    def beside(self, other: _Lines) -> _Lines:
        """These lines and then those."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return _Lines(*(_arrays(one).concatenate(pair) for pair in pairs for one in pair[:1]))

    def along(self, other: _Lines) -> _Lines:
        """The same lines, continued."""
        largest = _arrays(self.largest).maximum(self.largest, other.largest)
        return _Lines(self.errors + other.errors, self.terms + other.terms, largest)

    def beyond(self, k: int, length: int, underflow: float, precision: str) -> tuple[int, float, float]:
        """Which line's error is largest for its bound; that error and that bound, over the root of the line's terms."""
        xp = _arrays(self.terms)
        some = self.terms > 0
        terms = xp.where(some, self.terms, 1)
        apart = xp.maximum(1.0, terms / xp.where(self.largest > 0, self.largest, 1))
        bound = statistical_bound(k, apart, precision, tests=len(terms)) + underflow * math.sqrt(length) / terms**0.5
        error = xp.where(some, self.errors, 0) ** 0.5 / terms**0.5
        worst = int((error / bound).argmax())
        return worst, float(error[worst]), float(bound[worst])


def _judge_norms(
    shape: Shape, lines: Sequence[_Lines], underflow: float, precision: str, written: Written | None
) -> tuple[dict[str, Any], str]:
    """The norm of the whole matrix's error, with its bound, and what is wrong with it or with a row or a column."""
    by_row, by_column = lines
    terms = float(by_column.terms.sum())
    largest = min(float(by_column.terms.max()), float(by_row.terms.max()))
    squared = float(by_column.errors.sum())
    error = math.sqrt(squared / terms) if terms else HUGE if squared else 0.0
    bound = statistical_bound(shape.k, max(1.0, terms / largest) if largest else 1.0, precision)
    bound += underflow * math.sqrt(shape.m * shape.n / terms) if terms else 0.0
    norms = {"error_normwise": _rounded(error), "bound_normwise": _rounded(bound)}
    of_what = f"that of {precision.upper()} rounding"
    if not error <= bound:
        return norms, f"the norm of the error, {error:.3g}, exceeds {of_what}, {bound:.3g}"
    for name, each, length in (("row", by_row, shape.n), ("column", by_column, shape.m)):
        worst, error, bound = each.beyond(shape.k, length, underflow, precision)
        if not error <= bound:
            numbers = (written.rows if name == "row" else written.columns) if written else None
            number = worst if numbers is None else int(numbers[worst])
            return norms, f"the norm of the error of {name} {number}, {error:.3g}, exceeds {of_what}, {bound:.3g}"
    return norms, ""


def _or_one(scalar: float) -> float:
    """A scalar; 1 in the place of one that is not finite, whose products have no bound."""
    return scalar if math.isfinite(scalar) else 1.0


def _arrays(array: Any) -> Any:
    """The module that an array is of, NumPy or CuPy."""
    if isinstance(array, np.ndarray):
        return np
    import cupy

    return cupy


def in_float64(matrix: Any) -> Any:
    """A float32 matrix in float64, exactly.

    CuPy compiles its kernels with -ftz=true: what reads a subnormal as float32 reads 0. So on the GPU these are made
    from their bits, as sign and fraction times 2^-149.
    """
    if isinstance(matrix, np.ndarray):
        return matrix.astype(np.float64)
    xp = _arrays(matrix)
    bits = matrix.view(np.int32)
    fraction = (bits & 0x7FFFFF).astype(np.float64) * 2.0**-149
    small = xp.where(bits < 0, -fraction, fraction)
    return xp.where((bits & 0x7F800000) == 0, small, matrix.astype(np.float64))


def _largest(matrix: Any) -> float:
    """The largest finite magnitude in a matrix."""
    xp, values = _arrays(matrix), in_float64(matrix)
    return float(xp.where(xp.isfinite(values), xp.abs(values), 0).max())


def _rounded(error: float) -> float:
    return float(f"{error:.4g}")


def _first(wrong: Any) -> tuple[int, int]:
    """The row and the column of the first element that is set."""
    row, column = divmod(int(wrong.argmax()), wrong.shape[1])
    return row, column


def _place(row: int, column: int, written: Written | None) -> str:
    row, column = (int(written.rows[row]), int(written.columns[column])) if written else (row, column)
    return f"at row {row}, column {column}"


def _not_a_number(belongs: float, found: float, place: str) -> str:
    if not math.isfinite(belongs):
        return f"not the {belongs} that belongs {place}"
    if math.isfinite(found):
        return f"{found:.9g} {place}, which overflows: {belongs:.9g} belongs there"
    return f"NaN or infinity {place}, instead of {belongs:.9g}"


def _too_far_off(place: str, found: float, expected: float, error: float, limit: float, precision: str) -> str:
    told = f"{found:.9g} {place}, instead of {expected:.9g}"
    return f"{told}: the error {error:.3g} exceeds the bound of {_PRODUCTS[precision]} product, {limit:.3g}"
