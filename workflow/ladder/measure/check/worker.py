"""The process that checks one rung, case by case, against a float64 reference: on the GPU or in the emulator.

Every buffer lies between guard bands, leading-dimension gaps and guards hold NaNs of a known bit pattern, inputs that
must not be read hold NaNs, and so does a C that must not be read. A NaN where a number belongs never passes.
"""

from __future__ import annotations

import ctypes
import secrets
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ladder.build.library import Library, Operands
from ladder.measure.check.judge import case_error, written_part
from ladder.measure.devices import EMULATED_SMS, GUARD, SENTINEL, Call, CudaDevice, EmulatedDevice
from ladder.measure.inputs import draw_inputs
from ladder.model.cases import EMULATED_FEW, EMULATED_MORE, EMULATED_PREPARED, WIDE, Case, is_unfinished
from ladder.model.shape import Shape
from ladder.system import process


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
class ReservedBuffer(Buffer):
    """One of which nothing but the elements is filled and watched; its memory is the elements, gaps between them.

    On the CPU only what is written takes memory, and the emulator looks at every address itself.
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
        """What lies there is not known, and in the emulator every other address is watched."""
        return False


def same_bits(one: Any, other: Any) -> bool:
    """Whether two float32 arrays are equal bit by bit."""
    return bool((one.view(np.uint32) == other.view(np.uint32)).all())


def _view(memory: Any, rows: int, columns: int, ld: int, start: int) -> Any:
    return memory[start : start + rows * ld].reshape(rows, ld)[:, :columns]


def buffer(
    device: CudaDevice | EmulatedDevice,
    values: np.ndarray | None,
    rows: int,
    columns: int,
    padding: int,
    offset: int,
    some: bool = False,
) -> Buffer:
    """A guarded matrix on the device with the values given, or with NaNs for None; a ReservedBuffer if gaps are wide.

    One without values of which `some` elements are to be written is a ReservedBuffer of zeros in the emulator, which
    finds whatever reads it before.
    """
    ld = max(1, columns + padding)
    start = GUARD + offset
    some = some and values is None
    if padding >= WIDE or some:
        elements = _view(device.reserve(start + rows * ld), rows, columns, ld, start)
        if some:
            return ReservedBuffer(elements, elements, rows, columns, ld, 0)
        elements[...] = SENTINEL.view(np.float32) if values is None else device.arrays.asarray(values)
        return ReservedBuffer(elements, elements.copy(), rows, columns, ld, 0)
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
    Of a launch that leaves something for others (in the workspace, in a variable, atomically) all blocks run; where
    they take too long, or would (EMULATED_PREPARED), the record is None. If all blocks of all launches have run, all of
    C is judged.
    """
    shape, alpha, beta = case.shape, case.alpha, case.beta
    inputs = draw_inputs(case.family, shape, case.multiplies, beta != 0, seed)
    sizes = ((inputs.A, shape.m, shape.k), (inputs.B, shape.k, shape.n), (inputs.C, shape.m, shape.n))
    layouts = zip(case.paddings, case.offsets, strict=True)
    some = (False, False, case.blocks > 0)
    A, B, C = (buffer(device, *size, *layout, few) for size, layout, few in zip(sizes, layouts, some, strict=True))
    a, b, c = (device.address(each.memory) + 4 * each.start for each in (A, B, C))
    operands = Operands(a, A.ld, b, B.ld, c, C.ld)
    if isinstance(device, EmulatedDevice):
        library.functions.emulator_set_sms(ctypes.c_int(case.sms or EMULATED_SMS))
    bytes_needed = library.workspace_bytes(shape, alpha, beta, operands)
    workspace = device.put(np.full(max(1, bytes_needed // 4 + 1), SENTINEL, np.uint32))
    blocks = case.blocks
    if blocks and bytes_needed and shape.flop > EMULATED_PREPARED:
        return None
    call = Call(shape, alpha, beta, operands, workspace, bytes_needed, blocks, deterministic)

    record = {**case.as_record(), "seed": seed, "error_componentwise": None, "error_normwise": None}
    before = C.original
    first = None
    for run in range(1 if blocks else runs):
        if run:
            C.memory[...] = C.before
            workspace.fill(SENTINEL)
        if wrong := device.compute(library, call, run):
            if blocks and is_unfinished(wrong):
                device.stuck = False
                return None
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
        if blocks > EMULATED_FEW and (missing := device.uncovered(library, call)):
            return record | {"verdict": f"the blocks are too few to write {missing} of {shape.m * shape.n} elements"}
        if shape.m and shape.n:
            matrices = (A.matrix, B.matrix, before, C.matrix)
            some_ran = blocks and device.some_blocks_ran(library)
            *matrices, written = (
                written_part(*matrices, device.written(library, call)) if some_ran else (*matrices, None)
            )
            computed = Shape(len(matrices[3]), matrices[3].shape[1], shape.k)
            if not computed.m and 0 < case.blocks <= EMULATED_FEW:
                # These blocks may lie beside C, as many do whose tiles follow a curve; among more of them some do not.
                more = replace(case, blocks=EMULATED_MORE)
                again = check_case(device, library, more, seed, runs, deterministic, subnormals, precision)
                return again and again | case.as_record()
            if not computed.m:
                return record | {"verdict": "wrote nothing"}
            record |= case_error(computed, alpha, beta, *matrices, case.family, subnormals, precision, written)
        if record["verdict"] != "pass":
            return record
        first = C.memory.copy() if runs > 1 else None
    if A.touched() or B.touched():
        return record | {"verdict": "wrote into A or B"}
    return record


def _of_an_earlier_product(
    device: EmulatedDevice, library: Library, case: Case, seed: int, runs: int, declared: Mapping[str, Any]
) -> str:
    """What a message says of a case that is wrong, if it is right where it is the first product of its library."""
    stuck = device.stuck
    alone = check_case(device, library.anew(), case, seed, runs, **declared)
    device.stuck = stuck
    if alone is None or alone["verdict"] != "pass":
        return ""
    return "; as the first product of a process it is right: what an earlier one has left (a static variable) counts"


def main(asked: Mapping[str, Any]) -> None:
    """Check the cases of the request, one event each; its `emulate` holds the arguments of the emulator.

    With `until_wrong` none is begun after the first that does not pass. `one_at_a_time` says why two products of the
    rung must not run at once, where that is known.
    """
    from ladder.measure.check.probes import probe_case  # which computes products as this module does

    emulated, one_at_a_time = asked.get("emulate"), asked.get("one_at_a_time", "")
    if interpreted := asked.get("interpret"):
        from ladder.measure.check.interpreted import InterpretedDevice, InterpretedLibrary

        device, library = InterpretedDevice(), InterpretedLibrary(**interpreted)
    else:
        device = EmulatedDevice(**emulated) if emulated else CudaDevice(asked["device"])
        library = Library(Path(asked["library"]))
    compared_alone = False
    for asked_case, runs in zip(asked["cases"], asked["runs"], strict=True):
        process.emit(starts=asked_case)
        case = Case.of(asked_case)
        # the emulator's verdicts are derived, so the same inputs each time; a GPU gets fresh ones, but of a drawn case
        derived = emulated or interpreted or case.drawn
        seed = zlib.crc32(repr(sorted(asked_case.items())).encode()) if derived else secrets.randbits(48)
        try:
            if case.probe and interpreted:  # which has no host function
                record = None
            else:
                check = partial(probe_case, one_at_a_time=one_at_a_time) if case.probe else check_case
                record = check(device, library, case, seed, runs, **asked["declared"])
        except OSError:
            if max(case.paddings) < WIDE and not case.probe:
                raise
            record = None  # where no more may be reserved than there is, such a case is left out
        wrong = record is not None and record["verdict"] != "pass"
        if emulated and record and wrong and not (case.probe or compared_alone):
            compared_alone = True
            record["verdict"] += _of_an_earlier_product(device, library, case, seed, runs, asked["declared"])
        process.emit(**({"left_out": asked_case} if record is None else {"case": record}))
        if device.stuck or (wrong and asked.get("until_wrong")):
            break
        if emulated and device.cut_off:
            library, device.cut_off = library.anew(), False
        device.clear()
    if emulated:
        process.emit(blocks=device.largest_blocks(library))


if __name__ == "__main__":  # in the emulator; what is measured on a GPU has one process for all stages
    with process.request() as request:
        main(request)
