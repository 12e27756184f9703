"""What the contract says of the host function, asked of it: arguments, queries, errors, captures, streams.

A probe is a case (`ladder.model.cases.probes`) whose record holds a verdict and no errors.
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any, Protocol

import numpy as np

from ladder.build.library import Library, Operands, explain, operands_at
from ladder.measure.check.judge import case_error
from ladder.measure.check.worker import Buffer, buffer
from ladder.measure.devices import EMULATED_SMS, GUARD, SENTINEL, Call, CudaDevice, EmulatedDevice
from ladder.measure.inputs import draw_inputs
from ladder.model.cases import (
    EMULATED_FLOP,
    EMULATED_SHORT,
    LARGE_WORKSPACE,
    MANY_ELEMENTS,
    OTHER_ARGUMENTS,
    Case,
    is_unfinished,
)
from ladder.model.shape import Shape

Device = CudaDevice | EmulatedDevice
INVALID = 1  # cudaErrorInvalidValue
LAUNCH_FAILURE = 719  # cudaErrorLaunchFailure
REPLAYS = 2
OBSERVED_BYTES = {"launch_observer": 8, "observed_sms": 4}  # of the variables of launch.cuh
LARGEST_OF_ONES = 1 << 22  # elements of A or B that are ones: more are reserved, and 0
MANY_BLOCKS = 64  # of a C of more than 2^32 elements, or of more than 2^16 tiles, are computed,
LARGE_WORKSPACE_S = 0.5  # of CPU time, after which a launch is not waited for that may fill more than 2^32 bytes
MANY_ACCESSES = 1 << 24  # of C by kernels, in which blocks that compute one tile after the other do not end
BEYOND_32_BITS = (1 << 32) + 1  # a leading dimension
FLOATS_OF_32_BITS = 1 << 30  # in 2^32 bytes
MOST_LAUNCHES = 64  # of a product that the emulator remembers,
NAMED_LAUNCHES = 4  # and that a message names
EVERY_CALL = (1 << 64) - 1  # of the CUDA runtime fails, as where there is no driver
FAILED_CALLS = 32  # calls of the CUDA runtime that fail, of the first ones and of the last, for a long sum
HUGE_SHAPES = (Shape(70001, 70003, 70005), Shape((1 << 31) - 1, 3, 5), Shape(3, (1 << 31) - 1, 5))

ONE_ELEMENT, ONE_LONG_SUM = Shape(1, 1, 1), Shape(1, 1, 1 << 17)
NOWHERE = 1 << 20  # any address will do where nothing is read


def probe_case(
    device: Device,
    library: Library,
    case: Case,
    seed: int,
    runs: int = 1,
    deterministic: bool = True,
    one_at_a_time: str = "",
    **judged: str,
) -> dict[str, Any]:
    """The record of a probe, as `ladder.measure.check.worker.check_case` gives that of a product.

    `one_at_a_time` says why two products of the rung must not run at once; the emulator finds that itself, and the
    record has it.
    """
    if isinstance(device, EmulatedDevice):
        if case.probe == OTHER_ARGUMENTS:  # whose first call is to be the library's first: of a whole, aligned product
            library = library.anew()
        library.functions.emulator_set_sms(ctypes.c_int(case.sms or EMULATED_SMS))

    def make(**changes: Any) -> _Product:
        return _Product(device, library, replace(case, **changes), seed, deterministic, judged)

    record = {**case.as_record(), "seed": seed, "error_componentwise": None, "error_normwise": None}
    if case.probe == "two at once" and (why := one_at_a_time or _keeps_data(device, library, make())):
        wrong, note = _two_in_turn(device, library, case, make), {"one_at_a_time": why}
    else:
        wrong, note = _PROBES[case.probe](device, library, case, make), {}
    return record | note | {"verdict": wrong or "pass"}


def _keeps_data(device: Device, library: Library, product: _Product) -> str:
    """In the emulator, what of a rung two products at a time would share; empty where nothing is known of that."""
    if not isinstance(device, EmulatedDevice) or device.compute(library, product.call, 0):
        return ""
    name = device.variable_written(library)
    return f"its kernels write the __device__ variable {name}" if name else ""


class _Product:
    """One product in memory of its own, which can be computed on other inputs at the same addresses."""

    made = 0

    def __init__(
        self, device: Device, library: Library, case: Case, seed: int, deterministic: bool, judged: dict[str, str]
    ) -> None:
        self.case, self.device, self.library = case, device, library
        self.deterministic, self.judged = deterministic, judged
        _Product.made += 1
        self.seed = seed + 1000 * _Product.made
        shape = case.shape
        sizes = ((shape.m, shape.k), (shape.k, shape.n), (shape.m, shape.n))
        self.buffers = [buffer(device, None, *size, 0, 0) for size in sizes]
        self._call()
        self.fill()

    def become(
        self,
        rooms: list[Any],
        shape: Shape,
        alpha: float,
        beta: float,
        gaps: tuple[int, int, int],
        at: tuple[int, int, int],
    ) -> None:
        """Another product in the memory of these rooms, one for each matrix: `gaps` behind its rows, so far `at`."""
        sizes = ((shape.m, shape.k), (shape.k, shape.n), (shape.m, shape.n))
        self.case = replace(self.case, shape=shape, alpha=alpha, beta=beta)
        self.buffers = []
        for room, (rows, columns), gap, place in zip(rooms, sizes, gaps, at, strict=True):
            room.fill(SENTINEL.view(np.float32))
            self.buffers.append(Buffer(room, room.copy(), rows, columns, columns + gap, GUARD + place))
        self._call()
        self.fill()

    def _call(self) -> None:
        device, case = self.device, self.case
        A, B, C = self.buffers
        a, b, c = (device.address(each.memory) + 4 * each.start for each in self.buffers)
        operands = Operands(a, A.ld, b, B.ld, c, C.ld)
        needed = self.library.workspace_bytes(case.shape, case.alpha, case.beta, operands)
        workspace = device.put(np.full(max(1, needed // 4 + 1), SENTINEL, np.uint32))
        self.call = Call(case.shape, case.alpha, case.beta, operands, workspace, needed, 0, self.deterministic)

    def fill(self) -> None:
        """Other inputs in the same place."""
        self.seed += 1
        drawn = draw_inputs(self.case.family, self.case.shape, True, self.case.beta != 0, self.seed)
        for each, values in zip(self.buffers, (drawn.A, drawn.B, drawn.C), strict=True):
            for matrix in (each.matrix, each.original):
                matrix[...] = SENTINEL.view(np.float32) if values is None else self.device.arrays.asarray(values)
        self.call.workspace.fill(SENTINEL)

    def untouched(self) -> bool:
        """Whether nothing has been written."""
        workspace = bool((self.call.workspace == SENTINEL).all())
        return workspace and not any(each.touched() for each in self.buffers)

    def judge(self) -> str:
        """What is wrong with C, or nothing."""
        A, B, C = self.buffers
        if C.touched_outside() or A.touched() or B.touched():
            return "wrote outside the m x n elements of C"
        case, matrices = self.case, (A.matrix, B.matrix, C.original, C.matrix)
        verdict = case_error(case.shape, case.alpha, case.beta, *matrices, case.family, **self.judged)["verdict"]
        return "" if verdict == "pass" else str(verdict)


class _Make(Protocol):
    """Makes a product of the case, in which something else may be changed."""

    def __call__(self, **changes: Any) -> _Product: ...


def _work(library: Library) -> int:
    """How much has been queued in the emulator since the memory of a product was told to it."""
    return _count(library.functions.emulator_work)


def _count(function: Any) -> int:
    function.restype = ctypes.c_uint64
    return int(function())


def _text(function: Any) -> str:
    function.restype = ctypes.c_char_p
    return str(function().decode())


def _refusals(device: Device, library: Library, case: Case, make: _Make) -> str:
    """Arguments outside the contract are refused, before anything is queued."""
    product = make()
    m, n, k = case.shape.m, case.shape.n, case.shape.k
    o = product.call.operands
    outside = {
        "m = -1": (-1, n, k, o),
        "n = -1": (m, -1, k, o),
        "k = -1": (m, n, -1, o),
        "m = -1 and n = -1": (-1, -1, k, o),
        "k = -1 and m = 0": (0, n, -1, o),
        "lda = k - 1": (m, n, k, Operands(o.A, k - 1, o.B, o.ldb, o.C, o.ldc)),
        "ldb = n - 1": (m, n, k, Operands(o.A, o.lda, o.B, n - 1, o.C, o.ldc)),
        "ldc = n - 1": (m, n, k, Operands(o.A, o.lda, o.B, o.ldb, o.C, n - 1)),
        "lda = 0 with k = 0": (m, n, 0, Operands(o.A, 0, o.B, o.ldb, o.C, o.ldc)),
        "ldb = 0 with n = 0": (m, 0, k, Operands(o.A, o.lda, o.B, 0, o.C, o.ldc)),
        "ldc = 0 with n = 0": (m, 0, k, Operands(o.A, o.lda, o.B, o.ldb, o.C, 0)),
        "lda = -k": (m, n, k, Operands(o.A, -k, o.B, o.ldb, o.C, o.ldc)),
        "ldb = -n": (m, n, k, Operands(o.A, o.lda, o.B, -n, o.C, o.ldc)),
        "ldc = -n": (m, n, k, Operands(o.A, o.lda, o.B, o.ldb, o.C, -n)),
    }
    workspace = product.call.workspace_at(device)
    for words, (rows, columns, depth, operands) in outside.items():
        if isinstance(device, EmulatedDevice):
            device.begin(library, [product.call])
        error = library.answer(rows, columns, depth, case.alpha, case.beta, operands, workspace)
        if error != INVALID:
            answer = f"returned {explain(error)}" if error else "took it for a product"
            return f"{words}: sgemm {answer}, instead of cudaErrorInvalidValue"
        _wait(device)
        if not product.untouched() or (isinstance(device, EmulatedDevice) and _work(library)):
            return f"{words}: sgemm refused it and queued work all the same"
    return ""


def _nothing_to_compute(device: Device, library: Library, case: Case, make: _Make) -> str:
    """m, n or k of 0, and alpha = 0, are no errors; and what must not be read may be a null pointer."""
    shape, nothing = case.shape, Operands(0, case.shape.k, 0, case.shape.n, 0, case.shape.n)
    for words, m, n, k in (("m = 0", 0, shape.n, shape.k), ("n = 0", shape.m, 0, shape.k), ("both", 0, 0, 0)):
        if error := library.answer(m, n, k, case.alpha, case.beta, nothing):
            return f"{words}, with null pointers: sgemm returned {explain(error)}"
        _wait(device)
    wide = Operands(0, BEYOND_32_BITS, 0, BEYOND_32_BITS, 0, BEYOND_32_BITS)
    if error := library.answer(0, shape.n, shape.k, case.alpha, case.beta, wide):
        return f"m = 0, with leading dimensions of {BEYOND_32_BITS}: sgemm returned {explain(error)}"
    for words, alpha, k in (
        ("k = 0", case.alpha, 0),
        ("k = 0 and alpha = NaN", math.nan, 0),
        ("alpha = 0", 0.0, shape.k),
    ):
        product = make()
        C = product.buffers[2]
        operands = Operands(0, max(1, k), 0, shape.n, product.call.operands.C, C.ld)
        empty = Shape(shape.m, shape.n, k)
        call = Call(empty, alpha, case.beta, operands, product.call.workspace, product.call.workspace_bytes)
        if wrong := device.compute(library, call, 0):
            return f"{words}, with null pointers for A and B: {wrong}"
        expected = np.float32(case.beta) * C.original if case.beta else np.zeros_like(C.original)
        if not bool((C.matrix == expected).all()):
            return f"{words}, with null pointers for A and B: C is not beta * C"
    return ""


def _query(device: Device, library: Library, case: Case, make: _Make) -> str:
    """The query of the workspace does nothing else, and its answer depends on nothing but its arguments.

    It answers for products of any size: its numbers do not overflow.
    """
    product = make()
    if isinstance(device, EmulatedDevice):
        device.begin(library, [product.call])
    answers = set()
    for operands in (
        product.call.operands,
        product.call.operands,
        Operands(0, case.shape.k, 0, case.shape.n, 0, case.shape.n),
    ):
        answers.add(library.workspace_bytes(case.shape, case.alpha, case.beta, operands))
    _wait(device)
    if isinstance(device, EmulatedDevice):  # which finds what overflows
        if wrong := device.found(library, product.call):
            return wrong
        for shape in HUGE_SHAPES:
            library.workspace_bytes(shape, case.alpha, case.beta, Operands(0, shape.k, 0, shape.n, 0, shape.n))
            if wrong := device.found(library, product.call):
                return f"{wrong}; asked for the workspace of {shape}"
    if not product.untouched() or (isinstance(device, EmulatedDevice) and _work(library)):
        return "the query of the workspace queues work"
    return (
        ""
        if len(answers) == 1
        else f"the workspace needs {min(answers)} bytes, and for the same product {max(answers)}"
    )


def _errors(device: Device, library: Library, case: Case, make: _Make) -> str:
    """Whatever call of the runtime fails, sgemm says so or computes the product all the same. In the emulator.

    So it is of a product that is none, too; and after that sgemm computes as before. Nothing of a large product is
    computed: sgemm says so or queues other kernels.
    """
    assert isinstance(device, EmulatedDevice)
    if case.shape.flop > EMULATED_FLOP:
        return _queues_less(device, library, case)
    long = case.shape.k > EMULATED_SHORT
    for alpha in (case.alpha,) if long else (case.alpha, 0.0):
        product = make(alpha=alpha)
        call = product.call
        numbers = _first_and_last_unnoticed(device, library, call) if long else []
        if not long:
            if wrong := device.compute(library, call, 0):
                return wrong
            numbers = _calls_that_fail_unnoticed(device, library, call)
        for number in numbers:
            product.fill()
            error = _queue_with_a_failure(device, library, call, number)
            if not error and (wrong := device.found_beside_unwritten(library, call) or product.judge()):
                name = _text(library.functions.emulator_failed)
                failed = f"call number {number} of the CUDA runtime ({name}), at alpha = {alpha:g}, failed"
                return f"sgemm returned cudaSuccess although {failed}: {wrong}"
        if not long:
            product.fill()
            if wrong := device.compute(library, call, 1) or product.judge() or _keeps_an_error(device, library, call):
                return wrong
    return "" if long else _errors_of_a_first_call(device, library, make)


def _queues_less(device: EmulatedDevice, library: Library, case: Case) -> str:
    """Which call may fail so that sgemm leaves out kernels, queues no other, and returns cudaSuccess; or nothing.

    Matrices and workspace are reserved memory. Raises OSError where that cannot be had.
    """
    shape = case.shape
    A, B, C = (device.reserve(size) for size in (shape.m * shape.k, shape.k * shape.n, shape.m * shape.n))
    operands = Operands(device.address(A), shape.k, device.address(B), shape.n, device.address(C), shape.n)
    needed = library.workspace_bytes(shape, case.alpha, case.beta, operands)
    call = Call(shape, case.alpha, case.beta, operands, device.reserve(needed // 4 + 1), needed)
    _queue_with_a_failure(device, library, call, 0, captured=True)
    all_kernels = Counter(device.launches(library))
    for number in _first_and_last_unnoticed(device, library, call):
        _queue_with_a_failure(device, library, call, number, captured=True)
        kernels = Counter(device.launches(library))
        if kernels < all_kernels:
            name = _text(library.functions.emulator_failed)
            queued = f"queued {kernels.total()} of {all_kernels.total()} kernels"
            return f"sgemm returned cudaSuccess and {queued} after call number {number} ({name}) failed"
    return ""


def _errors_of_a_first_call(device: EmulatedDevice, library: Library, make: _Make) -> str:
    """The same where a call fails that sgemm makes once: in the first product of a process, and of that after it.

    sgemm may go on to say so: the calls that it makes once may not be made again.
    """
    product = make()
    fresh = library.anew()
    _queue_with_a_failure(device, fresh, product.call, 0)
    for number in range(1, _count(fresh.functions.emulator_calls) + 1):
        fresh, name = library.anew(), ""
        for which, fails in (("the first", number), ("the second", 0)):
            product.fill()
            error = _queue_with_a_failure(device, fresh, product.call, fails)
            name = name or _text(fresh.functions.emulator_failed)
            if not error and (wrong := device.found_beside_unwritten(fresh, product.call) or product.judge()):
                failed = f"in the first one call number {number} of the CUDA runtime ({name}) failed"
                return f"sgemm returned cudaSuccess for {which} product of a process although {failed}: {wrong}"
    return ""


def _keeps_an_error(device: EmulatedDevice, library: Library, call: Call) -> str:
    """Whether the second product after an error of an earlier call fails for it; the first one may tell of it."""
    device.begin(library, [call])
    library.functions.emulator_set_last_error(ctypes.c_int(LAUNCH_FAILURE))
    workspace, stream = call.workspace_at(device), device.stream
    for _ in range(2):
        error = library.queue(call.shape, call.alpha, call.beta, call.operands, workspace, stream)
    if error != LAUNCH_FAILURE:
        return ""
    return "sgemm returned the error of an earlier call, and did so again; read it by cudaGetLastError, which clears it"


def _queue_with_a_failure(
    device: EmulatedDevice, library: Library, call: Call, number: int, captured: bool = False
) -> int:
    """What sgemm returns where the call of the CUDA runtime of this number, from 1 on, fails; of 0, none does.

    Its work is computed, or `captured` and not computed.
    """
    device.begin(library, [call])
    library.functions.emulator_fail(ctypes.c_uint64(number))
    if captured:
        library.functions.emulator_begin_capture()
    workspace, stream = call.workspace_at(device), device.stream
    error = library.queue(call.shape, call.alpha, call.beta, call.operands, workspace, stream)
    if captured:
        library.functions.emulator_end_capture()
    return error


def _calls_that_fail_unnoticed(
    device: EmulatedDevice, library: Library, call: Call, most: int | None = None
) -> list[int]:
    """The calls of the CUDA runtime, or so many of the first and of the last, of whose failure sgemm says nothing."""
    _queue_with_a_failure(device, library, call, 0, captured=True)
    calls = range(1, _count(library.functions.emulator_calls) + 1)
    some = calls if most is None else sorted({*calls[:most], *calls[-most:]})
    return [number for number in some if not _queue_with_a_failure(device, library, call, number, captured=True)]


def _first_and_last_unnoticed(device: EmulatedDevice, library: Library, call: Call) -> list[int]:
    """Of FAILED_CALLS of these at most, the first and the last, if there are any."""
    unnoticed = _calls_that_fail_unnoticed(device, library, call, FAILED_CALLS)
    return [*unnoticed[:1], *unnoticed[1:][-1:]]


def _observed(device: Device, library: Library, case: Case, make: _Make) -> str:
    """What launch_observer is told is what is launched. In the emulator; of a rung that tells it nothing, nothing."""
    assert isinstance(device, EmulatedDevice)
    for name, right in OBSERVED_BYTES.items():
        if (exported := library.exported_bytes.get(name, right)) != right:
            return f"{name} has {exported} bytes, and who sets it writes {right}"
    product = make()
    call = product.call
    if wrong := device.compute(library, call, 0):
        return wrong
    return _told_otherwise(device, library, case, call, call.workspace_at(device))


def _told_otherwise(device: EmulatedDevice, library: Library, case: Case, call: Call, workspace: int) -> str:
    """How what launch_observer is told of a case differs from what was launched; empty where it is told nothing.

    Where there is no driver sgemm may return an error, or tell of other grids, but not of other kernels. Of other
    grids it may also tell if it asks the runtime how many blocks an SM holds, for observed launches have no GPU to ask.
    Nothing reads the memory that is told to the emulator, that of `call`.
    """
    launched = [one[:-1] for one in device.launches(library)]
    by_occupancy = bool(library.functions.emulator_asked_occupancy())
    told: list[tuple[Any, ...]] = []

    def observe(kernel: int, grid: Any, block: Any, dynamic_bytes: int) -> None:
        told.append((kernel, (grid.x, grid.y, grid.z), (block.x, block.y, block.z), dynamic_bytes))

    for failing in (0, EVERY_CALL):
        told.clear()
        device.begin(library, [call])
        library.functions.emulator_fail(ctypes.c_uint64(failing))
        library.functions.emulator_begin_capture()  # what is queued all the same does not run
        with library.observed(case.sms or EMULATED_SMS, observe):
            error = library.queue(case.shape, case.alpha, case.beta, call.operands, workspace, device.stream)
        library.functions.emulator_end_capture()
        library.functions.emulator_fail(ctypes.c_uint64(0))
        made = device.launches(library)
        if any(by_launch for *_, by_launch in made):
            return "launch starts kernels although launch_observer is set"
        if not told or made or (failing and error):
            return ""
        if error:
            return f"sgemm returned {explain(error)} while its launches were observed"
        known = [one if other[0] else (0, *one[1:]) for one, other in zip(told, launched, strict=False)]
        kernels = [sorted(kernel for kernel, *_ in launches) for launches in (known, launched)]
        differ = kernels[0] != kernels[1] if failing or by_occupancy else sorted(known) != sorted(launched)
        if len(told[:MOST_LAUNCHES]) != len(launched) or differ:
            where = " where there is no driver" * bool(failing)
            return f"launch_observer is told of {_in_words(told)}{where}, and {_in_words(launched)} are launched"
    return ""


def _in_words(launches: Sequence[tuple[Any, ...]]) -> str:
    words = [f"{grid} blocks of {block} with {bytes_} bytes" for _, grid, block, bytes_ in launches[:NAMED_LAUNCHES]]
    words += [f"{len(launches) - NAMED_LAUNCHES} launches more"] if len(launches) > NAMED_LAUNCHES else []
    return " and ".join(words) or "none"


def _many_elements(device: Device, library: Library, case: Case, make: _Make) -> str:
    """No offset into a C of more than 2^31 elements overflows, no number of tiles does, and the blocks are enough.

    In the emulator, which computes some of the blocks. Large matrices are reserved memory. Raises OSError where that
    cannot be had.
    """
    assert isinstance(device, EmulatedDevice)
    m, n, k = case.shape.m, case.shape.n, case.shape.k
    lda, ldb, ldc = (columns + gap for columns, gap in zip((k, n, n), case.paddings, strict=True))
    A, B = (
        device.put(np.ones(size, np.float32)) if size <= LARGEST_OF_ONES else device.reserve(size)
        for size in (m * lda, k * ldb)
    )
    C = device.reserve((m - 1) * ldc + n)
    operands = Operands(device.address(A), lda, device.address(B), ldb, device.address(C), ldc)
    workspace = device.put(np.zeros(1, np.uint32))
    for alpha in (0.0, case.alpha):
        shape = Shape(m, n, k)
        if library.workspace_bytes(shape, alpha, case.beta, operands):
            return ""  # of which blocks may need what others leave there
        device.begin(library, [Call(shape, alpha, case.beta, operands, workspace, 0, MANY_BLOCKS)])
        library.functions.emulator_set_most_accesses(ctypes.c_uint64(MANY_ACCESSES))
        C[-1] = 1
        error = library.queue(shape, alpha, case.beta, operands, device.address(workspace), device.stream)
        call = Call(shape, alpha, case.beta, operands, workspace, 0)
        wrong = device.found(library, call)
        if is_unfinished(wrong) or library.functions.emulator_only_unwritten():  # of which C may show nothing
            wrong, device.stuck = "", False
            library = library.anew() if device.cut_off else library
            continue
        if not wrong and error:
            wrong = f"sgemm returned {explain(error)}"
        if not wrong and alpha == 0 and C[-1] != np.float32(case.beta):
            wrong = f"the last element is {C[-1]:g} and not beta times 1"
        if not wrong and (missing := device.uncovered(library, call)):
            wrong = f"the blocks are too few to write {missing} of {m * n} elements"
        if wrong:
            return f"alpha = {alpha:g}: {wrong}"
    return ""


def _large_workspace(device: Device, library: Library, case: Case, make: _Make) -> str:
    """No offset into a workspace that holds a copy of a matrix of more than 2^31 elements overflows.

    A rung that asks for no workspace has no such offset. In the emulator, which ends the first launches early. All
    memory is reserved. Raises OSError where that cannot be had.
    """
    assert isinstance(device, EmulatedDevice)
    shape = case.shape
    A, B, C = (device.reserve(size) for size in (shape.m * shape.k, shape.k * shape.n, shape.m * shape.n))
    operands = Operands(device.address(A), shape.k, device.address(B), shape.n, device.address(C), shape.n)
    needed = library.workspace_bytes(shape, case.alpha, case.beta, operands)
    if not needed:
        return ""
    workspace = device.reserve(needed // 4 + 1)
    call = Call(shape, case.alpha, case.beta, operands, workspace, needed, MANY_BLOCKS)
    device.begin(library, [call])
    library.functions.emulator_set_timeout(ctypes.c_double(LARGE_WORKSPACE_S))
    library.functions.emulator_set_most_accesses(ctypes.c_uint64(MANY_ACCESSES))
    library.queue(shape, case.alpha, case.beta, operands, device.address(workspace), device.stream)
    wrong = device.found_beside_unwritten(library, call)
    if is_unfinished(wrong):
        wrong, device.stuck = "", False
    return wrong


def _queued_only(device: Device, library: Library, case: Case, make: _Make) -> str:
    """Host code and launches have no limit of size but the GPU's: a large product is captured, and not computed.

    In the emulator. There is no memory for its matrices, and nothing reads them. Observed, its launches are the same.
    """
    assert isinstance(device, EmulatedDevice)
    shape = case.shape
    operands = operands_at((NOWHERE,) * 3, shape, case.paddings, case.offsets)
    little = Call(ONE_ELEMENT, case.alpha, case.beta, operands, np.zeros(1, np.uint32), 0)
    device.begin(library, [little])
    library.workspace_bytes(shape, case.alpha, case.beta, operands)
    library.functions.emulator_begin_capture()
    error = library.queue(shape, case.alpha, case.beta, operands, NOWHERE, device.stream)
    library.functions.emulator_end_capture()
    if wrong := device.found(library, little) or (f"sgemm returned {explain(error)}" if error else ""):
        return wrong
    return _told_otherwise(device, library, case, little, NOWHERE)


def _capture(device: Device, library: Library, case: Case, make: _Make) -> str:
    """Captured once, the work computes whatever stands in A, B and C when it runs."""
    product = make()
    if wrong := device.compute(library, product.call, 0):
        return wrong
    product.fill()
    graphs, wrong = device.capture(library, [product.call])
    for _ in range(REPLAYS):
        if wrong:
            return wrong
        product.fill()
        wrong = device.replay(library, [product.call], graphs)
        if not wrong and (wrong := product.judge()):
            wrong = f"captured and run again with other inputs: {wrong}"
    return wrong


def _two_at_once(device: Device, library: Library, case: Case, make: _Make) -> str:
    """Two products on two streams at the same time do not disturb each other."""
    products = [make(), make()]
    calls = [each.call for each in products]
    graphs, wrong = device.capture(library, calls)
    for _ in range(REPLAYS):
        if wrong:
            return wrong
        for each in products:
            each.fill()
        wrong = device.replay(library, calls, graphs)
        for each in products:
            if not wrong and (wrong := each.judge()):
                wrong = f"two products at the same time: {wrong}"
    return wrong


def _two_in_turn(device: Device, library: Library, case: Case, make: _Make) -> str:
    """Two products one after the other, twice: the contract asks no more of kernels that write __device__ variables."""
    products = [make(), make()]
    graphs, wrong = device.capture(library, [each.call for each in products])
    for each, graph in [*zip(products, graphs, strict=False)] * REPLAYS:
        if wrong:
            return wrong
        each.fill()
        wrong = device.replay(library, [each.call], [graph])
        if not wrong and (wrong := each.judge()):
            wrong = f"two products in turn: {wrong}"
    return wrong


def _other_arguments(device: Device, library: Library, case: Case, make: _Make) -> str:
    """Calls in the same memory, each with one argument other than the call before: none counts on what was kept.

    Before each of them the workspace of another product is asked for, a little one or one with a long sum.
    """
    product = make()
    m, n, k = case.shape.m, case.shape.n, case.shape.k
    less = k // 16 * 4 + 4  # a multiple of 4: vectors and the copy engine are still used, as in the first call
    now: dict[str, Any] = {
        "shape": case.shape,
        "alpha": case.alpha,
        "beta": case.beta,
        "gaps": (0, 0, 0),
        "at": (0, 0, 0),
    }
    rooms = [
        device.put(np.full(2 * GUARD + (rows + 1) * (columns + 8), SENTINEL, np.uint32).view(np.float32))
        for rows, columns in ((m, k), (k, n), (m, n))
    ]
    changes: tuple[tuple[str, dict[str, Any]], ...] = (
        ("the first call", {}),
        ("a smaller k", {"shape": Shape(m, n, less)}),
        ("a larger k", {"shape": Shape(m, n, 2 * less)}),
        ("a smaller m", {"shape": Shape(m // 2, n, 2 * less)}),
        ("a larger m", {"shape": Shape(m - 1, n, 2 * less)}),
        ("a smaller n", {"shape": Shape(m - 1, n // 2, 2 * less)}),
        ("a larger n", {"shape": Shape(m - 1, n - 4, 2 * less)}),
        ("another alpha", {"alpha": -1.75}),
        ("another lda", {"gaps": (4, 0, 0)}),
        ("another ldb", {"gaps": (4, 4, 0)}),
        ("another ldc", {"gaps": (4, 4, 4)}),
        ("B in another place", {"at": (0, 4, 0)}),
        ("C where it is not aligned", {"at": (0, 4, 3)}),
        ("A where it is not aligned", {"at": (3, 4, 4)}),
        ("B where it is not aligned", {"at": (4, 3, 4)}),
        ("beta = 0" if case.beta else "another beta", {"beta": 0.0 if case.beta else -0.5}),
        (
            "the arguments of the first call",
            {"shape": case.shape, "alpha": case.alpha, "beta": case.beta, "gaps": (0, 0, 0), "at": (0, 0, 0)},
        ),
        ("rows of A that are not aligned", {"gaps": (1, 0, 0)}),
        ("rows of B that are not aligned", {"gaps": (0, 1, 0)}),
        ("rows of C that are not aligned", {"gaps": (0, 0, 1)}),
        ("an odd k", {"shape": Shape(m, n, 2 * less - 1), "gaps": (0, 0, 0)}),
        ("another odd k and n", {"shape": Shape(m, n - 1, less - 1)}),
        ("a larger k", {"shape": Shape(m, n, 2 * less)}),
        ("a smaller k and the same lda", {"shape": Shape(m, n, less), "gaps": (less, 0, 0)}),
        ("a larger k and the same lda", {"shape": Shape(m, n, 2 * less), "gaps": (0, 0, 0)}),
        ("a smaller n and the same ldb and ldc", {"shape": Shape(m, n - 8, 2 * less), "gaps": (0, 8, 8)}),
        ("a larger n and the same ldb and ldc", {"shape": Shape(m, n, 2 * less), "gaps": (0, 0, 0)}),
    )
    for (words, change), other in zip(changes, cycle((ONE_ELEMENT, ONE_LONG_SUM))):
        now |= change
        product.become(rooms, **now)
        library.workspace_bytes(other, case.alpha, case.beta, Operands(NOWHERE, other.k, NOWHERE, 1, NOWHERE, 1))
        if wrong := device.compute(library, product.call, 0) or product.judge():
            return f"after other calls in the same memory, with {words}: {wrong}"
    now |= {"shape": case.shape, "gaps": (0, 0, 0), "at": (0, 0, 0)}
    return _far_apart(device, library, product, now, [len(room) for room in rooms])


def _far_apart(device: Device, library: Library, product: _Product, now: dict[str, Any], sizes: list[int]) -> str:
    """The same product twice, the second time with each matrix 2^32 bytes away: low halves of addresses tell nothing.

    In the emulator, where such memory can be reserved.
    """
    if not isinstance(device, EmulatedDevice):
        return ""
    try:
        reserved = [device.reserve(FLOATS_OF_32_BITS + size) for size in sizes]
    except OSError:
        return ""
    for first in (0, FLOATS_OF_32_BITS):
        rooms = [memory[first : first + size] for memory, size in zip(reserved, sizes, strict=True)]
        product.become(rooms, **now)
        if wrong := device.compute(library, product.call, 0) or product.judge():
            away = " after the same one with all matrices 2^32 bytes before" if first else ""
            return f"a product of aligned matrices{away}: {wrong}"
    return ""


def _stream(device: Device, library: Library, case: Case, make: _Make) -> str:
    """All work is behind what its stream was given before, and is done when the stream is. On a GPU."""
    assert isinstance(device, CudaDevice)
    product = make()
    if wrong := device.compute(library, product.call, 0):
        return wrong
    product.fill()
    return device.queued_on_its_stream(library, product.call, product.buffers[2].memory) or product.judge()


def _wait(device: Device) -> None:
    if isinstance(device, CudaDevice):
        device.arrays.cuda.runtime.deviceSynchronize()


_PROBES: dict[str, Callable[[Device, Library, Case, _Make], str]] = {
    "refusals": _refusals,
    "nothing to compute": _nothing_to_compute,
    "query": _query,
    "errors": _errors,
    MANY_ELEMENTS: _many_elements,
    LARGE_WORKSPACE: _large_workspace,
    "observed": _observed,
    "queued only": _queued_only,
    "capture": _capture,
    "two at once": _two_at_once,
    OTHER_ARGUMENTS: _other_arguments,
    "stream": _stream,
}
