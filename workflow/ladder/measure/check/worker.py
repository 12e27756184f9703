"""The process that checks one rung, case by case, against a float64 reference: on the GPU or in the emulator.

Every buffer lies between guard bands, leading-dimension gaps and guards hold NaNs of a known bit pattern, inputs that
must not be read hold NaNs, and so does a C that must not be read. A NaN where a number belongs never passes.
"""

from __future__ import annotations

import ctypes
import math
import secrets
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ladder.build.library import Library, Operands
from ladder.measure.check.interpreted import InterpretedDevice, InterpretedLibrary
from ladder.measure.devices import EMULATED_SMS, GUARD, Call, CudaDevice, EmulatedDevice
from ladder.measure.inputs import RANDOM_SIGNS, draw_inputs
from ladder.model.bounds import componentwise_bound, statistical_bound, underflow_bound
from ladder.model.cases import Case
from ladder.model.shape import Shape
from ladder.system import process

SENTINEL = np.uint32(0x7FC0DEAD)  # a quiet NaN that no arithmetic produces
HUGE = 1e300  # stands for a relative error of something that should be exactly zero
_PRODUCTS = {"fp32": "an FP32", "tf32": "a TF32"}
WIDE = 1 << 20  # floats between rows: from there on a gap is not filled
PANEL_BYTES = 1 << 28  # of a float64 panel of C: the reference of a large product is made panel by panel


@dataclass(frozen=True)
class Buffer:
    """A rows x columns matrix with leading dimension ld inside a guarded allocation; all on the device."""

    memory: Any
    before: Any
    rows: int
    columns: int
    ld: int
    start: int

    @property
    def matrix(self) -> Any:
        """The elements, a rows x columns view."""
        return _view(self.memory, self.rows, self.columns, self.ld, self.start)

    @property
    def original(self) -> Any:
        """The elements as they were."""
        return _view(self.before, self.rows, self.columns, self.ld, self.start)

    def touched_outside(self) -> bool:
        """Whether anything but the elements differs from what it was."""
        return not all(map(same_bits, self._outside(self.memory), self._outside(self.before)))

    def _outside(self, memory: Any) -> tuple[Any, Any, Any]:
        """The guards before and behind the elements, and the gaps between them."""
        end = self.start + self.rows * self.ld
        return (
            memory[: self.start],
            memory[end:],
            memory[self.start : end].reshape(self.rows, self.ld)[:, self.columns :],
        )

    def touched(self) -> bool:
        """Whether anything at all differs from what it was."""
        return not same_bits(self.memory, self.before)


@dataclass(frozen=True)
class WideBuffer(Buffer):
    """One with gaps so wide that they are only reserved, on the CPU: its memory is the elements, gaps between them.

    The emulator looks at every address itself; here nothing else is watched.
    """

    @property
    def matrix(self) -> Any:
        """The elements."""
        return self.memory

    @property
    def original(self) -> Any:
        """The elements as they were."""
        return self.before

    def touched_outside(self) -> bool:
        """The emulator would have said so."""
        return False


def same_bits(one: Any, other: Any) -> bool:
    """Whether two float32 arrays are equal bit by bit."""
    return bool((one.view(np.uint32) == other.view(np.uint32)).all())


def _view(memory: Any, rows: int, columns: int, ld: int, start: int) -> Any:
    return memory[start : start + rows * ld].reshape(rows, ld)[:, :columns]


def buffer(
    device: CudaDevice | EmulatedDevice, values: np.ndarray | None, rows: int, columns: int, padding: int, offset: int
) -> Buffer:
    """A guarded matrix on the device with the values given, or with NaNs for None; a WideBuffer where the gaps are."""
    ld = max(1, columns + padding)
    start = GUARD + offset
    if padding >= WIDE and isinstance(device, EmulatedDevice):
        elements = _view(device.reserve(start + rows * ld), rows, columns, ld, start)
        elements[...] = SENTINEL.view(np.float32) if values is None else values
        return WideBuffer(elements, elements.copy(), rows, columns, ld, 0)
    host = np.full(start + rows * ld + GUARD, SENTINEL, np.uint32).view(np.float32)
    if values is not None:
        _view(host, rows, columns, ld, start)[...] = values
    memory = device.put(host)
    before = host if device.arrays is np else memory.copy()  # where it can be compared with
    return Buffer(memory, before, rows, columns, ld, start)


def check_case(
    device: CudaDevice | EmulatedDevice,
    library: Library,
    case: Case,
    seed: int,
    runs: int = 1,
    deterministic: bool = True,
    subnormals: str = "gradual",
    precision: str = "fp32",
) -> dict[str, Any] | None:
    """Compute one case so many times; its record: the case, the seed, both errors, and the verdict.

    The verdict is `pass` or what is wrong; the errors are null where nothing could be compared. `identical` says of a
    rung that is not declared deterministic whether all runs gave the same bits; of any other it is the verdict.

    In the emulator a rung is told that the GPU has the case's `sms`, or EMULATED_SMS.
    A case of some blocks (`ladder.model.cases.emulated_cases`) is computed once and judged by what they have written.
    Where it needs a workspace, blocks may need what others leave there: it is not computed, and the record is None.
    """
    shape, alpha, beta = case.shape, case.alpha, case.beta
    inputs = draw_inputs(case.family, shape, case.multiplies, beta != 0, seed)
    sizes = ((inputs.A, shape.m, shape.k), (inputs.B, shape.k, shape.n), (inputs.C, shape.m, shape.n))
    layouts = zip(case.paddings, case.offsets, strict=True)
    A, B, C = (buffer(device, *size, *layout) for size, layout in zip(sizes, layouts, strict=True))
    a, b, c = (device.address(each.memory) + 4 * each.start for each in (A, B, C))
    operands = Operands(a, A.ld, b, B.ld, c, C.ld)
    if isinstance(device, EmulatedDevice):
        library.functions.emulator_set_sms(ctypes.c_int(case.sms or EMULATED_SMS))
    bytes_needed = library.workspace_bytes(shape, alpha, beta, operands)
    workspace = device.put(np.full(max(1, bytes_needed // 4 + 1), SENTINEL, np.uint32))
    blocks = case.blocks
    if blocks and bytes_needed:
        return None
    call = Call(shape, alpha, beta, operands, workspace, bytes_needed, blocks)

    record = {**case.as_record(), "seed": seed, "error_componentwise": None, "error_normwise": None}
    before = C.original
    first = None
    for run in range(1 if blocks else runs):
        C.memory[...] = C.before
        workspace.fill(SENTINEL)
        if wrong := device.compute(library, call, run):
            return record | {"verdict": wrong}
        if first is not None and same_bits(C.memory, first):
            continue
        if C.touched_outside():
            return record | {"verdict": "wrote outside the m x n elements of C"}
        if A.touched() or B.touched():
            return record | {"verdict": "wrote into A or B"}
        if first is not None and deterministic:
            return record | {"verdict": f"run {run + 1} of {runs} differs from the first, for the same input"}
        if first is not None:
            record["identical"] = False
        record["verdict"] = "pass"
        if shape.m and shape.n:
            matrices = (A.matrix, B.matrix, before, C.matrix)
            *matrices, written = _written(*matrices) if blocks else (*matrices, None)
            computed = Shape(len(matrices[3]), matrices[3].shape[1], shape.k)
            if not computed.m:
                return record | {"verdict": "wrote nothing"}
            record |= case_error(computed, alpha, beta, *matrices, case.family, subnormals, precision, written)
        if record["verdict"] != "pass":
            return record
        first = C.memory.copy() if runs > 1 else None
    if A.touched() or B.touched():
        return record | {"verdict": "wrote into A or B"}
    return record


@dataclass(frozen=True)
class Written:
    """The elements that are written, of the rows and the columns in which any is; and which these are of C."""

    elements: Any
    rows: Any
    columns: Any


def _written(A: Any, B: Any, before: Any, C: Any) -> tuple[Any, ...]:
    """The rows and columns in which anything of C is written, of all four, and where in them it is."""
    written = C.view(np.uint32) != SENTINEL
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

    The error's norm is that of the statistical test, null for inputs whose signs are not random.
    """
    random_signs = family in RANDOM_SIGNS
    xp = _arrays(C)
    product = alpha != 0 and shape.k > 0
    scalar_a, scalar_b = float(np.float32(alpha)), float(np.float32(beta))
    B64 = in_float64(B) if product else None
    absolute_B = xp.abs(B64) if product else None
    largest_A, largest_B = (_largest(matrix) if product else 0.0 for matrix in (A, B))
    underflow = underflow_bound(shape.k, scalar_a, scalar_b, largest_A, largest_B, subnormals, precision)
    rows = max(1, PANEL_BYTES // (8 * shape.n))
    squared_error, componentwise = 0.0, 0.0
    bound_of_an_element, wrong, wrong_elements = componentwise_bound(shape.k, precision), "", 0
    by_column, by_row, squares_of_A = xp.zeros(shape.n), [], xp.zeros(shape.k)
    for first in range(0, shape.m, rows):
        panel = slice(first, min(first + rows, shape.m))
        expected = xp.zeros((panel.stop - first, shape.n))
        scale = xp.zeros_like(expected)
        of_row = xp.zeros(panel.stop - first)
        if product:
            A64 = in_float64(A[panel])
            expected += scalar_a * (A64 @ B64)
            scale += abs(scalar_a) * (xp.abs(A64) @ absolute_B)
            if random_signs:
                squares_of_A += (A64**2).sum(axis=0)
                of_row += scalar_a**2 * ((A64**2) @ (B64**2).sum(axis=1))
        if beta != 0:
            addend = scalar_b * in_float64(before[panel])
            expected += addend
            scale += xp.abs(addend)
            by_column += (addend**2).sum(axis=0)
            of_row += (addend**2).sum(axis=1)
        by_row.append(float(of_row.max()))
        found = in_float64(C[panel])
        if written is not None:
            found = xp.where(written.elements[panel], found, expected)
        finite = xp.isfinite(expected)
        right = xp.where(finite, xp.isfinite(found), (found == expected) | (xp.isnan(found) & xp.isnan(expected)))
        if not bool(right.all()):
            row, column = _first(~right)
            return {"verdict": _not_a_number(float(expected[row, column]), _place(first + row, column, written))}
        difference = xp.where(finite, xp.abs(found - expected), 0)
        scale = xp.where(finite, scale, 0)
        squared_error += float((difference**2).sum())
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
    errors: dict[str, Any] = {"error_componentwise": _rounded(componentwise), "error_normwise": None}
    if random_signs:
        if product:
            by_column += scalar_a**2 * (squares_of_A @ B64**2)
        terms, largest = float(by_column.sum()), min(float(by_column.max()), max(by_row))
        error = math.sqrt(squared_error / terms) if terms else HUGE if squared_error else 0.0
        bound = statistical_bound(shape.k, max(1.0, terms / largest) if largest else 1.0, precision)
        errors |= {"error_normwise": _rounded(error), "bound_normwise": _rounded(bound)}
    if wrong:
        more = f"; {wrong_elements} of {shape.m * shape.n} elements are wrong" if wrong_elements > 1 else ""
        return errors | {"verdict": wrong + more}
    if random_signs and not error <= bound:
        text = f"the norm of the error, {error:.3g}, exceeds that of {precision.upper()} rounding, {bound:.3g}"
        return errors | {"verdict": text}
    return errors | {"verdict": "pass"}


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


def _not_a_number(belongs: float, place: str) -> str:
    if not math.isfinite(belongs):
        return f"not the {belongs} that belongs {place}"
    return f"NaN or infinity {place}, instead of {belongs:.9g}"


def _too_far_off(place: str, found: float, expected: float, error: float, limit: float, precision: str) -> str:
    told = f"{found:.9g} {place}, instead of {expected:.9g}"
    return f"{told}: the error {error:.3g} exceeds the bound of {_PRODUCTS[precision]} product, {limit:.3g}"


def main(asked: Mapping[str, Any]) -> None:
    """Check the cases of the request, one event each; its `emulate` holds the arguments of the emulator."""
    emulated = asked.get("emulate")
    if interpreted := asked.get("interpret"):
        device, library = InterpretedDevice(), InterpretedLibrary(**interpreted)
    else:
        device = EmulatedDevice(**emulated) if emulated else CudaDevice(asked["device"])
        library = Library(Path(asked["library"]))
    for asked_case, runs in zip(asked["cases"], asked["runs"], strict=True):
        process.emit(starts=asked_case)
        case = Case.of(asked_case)
        # the emulator's verdicts are derived, so the same inputs each time; a GPU gets fresh ones
        seed = (
            zlib.crc32(repr(sorted(asked_case.items())).encode()) if emulated or interpreted else secrets.randbits(48)
        )
        try:
            record = check_case(device, library, case, seed, runs, **asked["declared"])
        except OSError:
            if case.padding < WIDE:
                raise
            record = None  # where no more may be reserved than there is, such a case is left out
        process.emit(**({"left_out": asked_case} if record is None else {"case": record}))
        if device.stuck:
            break
        device.clear()


if __name__ == "__main__":  # in the emulator; what is measured on a GPU has one process for all stages
    with process.request() as request:
        main(request)
