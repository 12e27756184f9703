"""Where a rung is checked: on the GPU, or on the CPU by the emulator. The check is one, its memory is not.

A device has `arrays` (CuPy or NumPy), and can put an array where a rung finds it, say at which address, and compute.
`stuck` says that a product did not come to an end, so that no other is worth its time.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ladder.build.library import Library, Operands, explain
from ladder.model.cases import is_unfinished
from ladder.model.shape import Shape

GUARD = 1024  # words before and behind each matrix; a multiple of the bytes that CUDA aligns allocations to
SENTINEL = np.uint32(0x7FC0DEAD)  # a quiet NaN that no arithmetic produces: what a rung must not read
ALIGNMENT = 256  # bytes, of what cudaMalloc gives
MAP_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # Python names it from 3.13 on
EMULATED_STREAM = 0x57EA  # what the emulator is told to be the stream: any number, and not the default stream
HELD_S = 5.0  # how long sgemm may take to queue a product on a stream that is held
LEAST_SIDE = 16  # of a tile, about
LARGE_S = 12.0  # of CPU time for a launch of which some blocks are emulated
SEEN_AFTER_S = 0.2  # within which work on another stream than that one is seen
EMULATED_SMS = 8  # as many as the emulator has at first: kernels/emulator/README.md


@dataclass(frozen=True)
class Call:
    """One product: what a library is given for it, and how long the workspace is that it asked for."""

    shape: Shape
    alpha: float
    beta: float
    operands: Operands
    workspace: Any
    workspace_bytes: int
    blocks: int = 0  # the most that a launch in the emulator runs; 0 for all
    deterministic: bool = True  # else the emulator may find sums in whatever order

    def workspace_at(self, device: CudaDevice | EmulatedDevice) -> int:
        """What the library is given: of none that is needed null for every other k, for the contract allows that."""
        return 0 if self.workspace_bytes == 0 and self.shape.k % 2 else device.address(self.workspace)


class CudaDevice:
    """The GPU: memory by CuPy, each product on a stream that waits for no other."""

    stuck = False  # the parent kills a process that waits for an endless kernel

    def __init__(self, device: int) -> None:
        """Use the CUDA device of this number."""
        import cupy

        self.arrays, self.number = cupy, device
        cupy.cuda.Device(device).use()

    def put(self, host: np.ndarray) -> Any:
        """A copy on the GPU."""
        return self.arrays.asarray(host)

    def reserve(self, elements: int) -> Any:
        """So many numbers, whatever they are; raises OSError where the GPU has no room for them."""
        try:
            return self.arrays.empty(elements, np.float32)
        except self.arrays.cuda.memory.OutOfMemoryError as error:
            raise OSError(str(error)) from None

    def address(self, array: Any) -> int:
        """Where an array begins."""
        return array.data.ptr

    def compute(self, library: Library, call: Call, run: int) -> str:
        """Compute and wait; what went wrong, in one line, or nothing."""
        stream = self.arrays.cuda.Stream(non_blocking=True)
        self.arrays.cuda.runtime.deviceSynchronize()
        workspace = call.workspace_at(self)
        error = library.queue(call.shape, call.alpha, call.beta, call.operands, workspace, stream.ptr)
        if error:
            return f"sgemm returned {explain(error)}"
        stream.synchronize()
        return ""

    def capture(self, library: Library, calls: Sequence[Call]) -> tuple[list[Any], str]:
        """Capture each product into a graph; the graphs, and what went wrong, in one line, or nothing."""
        graphs, runtime = [], self.arrays.cuda.runtime
        for call in calls:
            stream = self.arrays.cuda.Stream(non_blocking=True)
            stream.begin_capture(runtime.streamCaptureModeThreadLocal)
            error = library.queue(call.shape, call.alpha, call.beta, call.operands, call.workspace_at(self), stream.ptr)
            try:
                graphs.append(stream.end_capture())
            except runtime.CUDARuntimeError as problem:
                return [], f"cannot be captured into a graph ({problem})"
            if error:
                return [], f"sgemm returned {explain(error)} while its stream was captured"
        return graphs, ""

    def replay(self, library: Library, calls: Sequence[Call], graphs: Sequence[Any]) -> str:
        """Run what was captured once more, each graph on a stream of its own; what went wrong, or nothing."""
        streams = [self.arrays.cuda.Stream(non_blocking=True) for _ in graphs]
        self.arrays.cuda.runtime.deviceSynchronize()
        for graph, stream in zip(graphs, streams, strict=True):
            graph.launch(stream)
        for stream in streams:
            stream.synchronize()
        return ""

    def queued_on_its_stream(self, library: Library, call: Call, written: Any) -> str:
        """Queue a product on a stream that is held; whether it waits for its stream, and all its work for it, or not.

        `written` is an array that the product writes to.
        """
        cupy = self.arrays
        stream, beside = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
        driver = ctypes.CDLL("libcuda.so.1")
        hold, release = driver.cuStreamWaitValue32_v2, driver.cuStreamWriteValue32_v2
        for function in (hold, release):
            function.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint]
        released = cupy.zeros(1, np.int32)
        before = written.copy()

        def as_before() -> bool:
            return bool((written.view(np.uint32) == before.view(np.uint32)).all())

        with beside:  # loading CuPy's kernels and taking memory for them would wait for the stream that is held
            as_before()
            beside.synchronize()
        cupy.cuda.runtime.deviceSynchronize()
        if hold(stream.ptr, released.data.ptr, 1, 0):  # CU_STREAM_WAIT_VALUE_GEQ
            raise RuntimeError("CUDA: cuStreamWaitValue32 is not supported")
        workspace, errors = call.workspace_at(self), []

        def queue() -> None:
            cupy.cuda.Device(self.number).use()
            errors.append(library.queue(call.shape, call.alpha, call.beta, call.operands, workspace, stream.ptr))

        thread = threading.Thread(target=queue, daemon=True)
        thread.start()
        thread.join(HELD_S)
        waited = thread.is_alive()
        with beside:
            time.sleep(SEEN_AFTER_S)
            early = not as_before()
            release(beside.ptr, released.data.ptr, 1, 0)
            beside.synchronize()
        thread.join()
        stream.synchronize()
        with beside:
            at_end = written.copy()
            beside.synchronize()
        cupy.cuda.runtime.deviceSynchronize()
        if errors[0]:
            return f"sgemm returned {explain(errors[0])}"
        if waited:
            return "sgemm waits for the stream that it was given, while the contract says that nothing waits"
        if early:
            return "writes C before the work that was queued on its stream earlier has ended"
        complete = bool((written.view(np.uint32) == at_end.view(np.uint32)).all())
        return "" if complete else "writes C when the work on its stream has ended"

    def clear(self) -> None:
        """Give back what is no longer used."""
        self.arrays.get_default_memory_pool().free_all_blocks()


class EmulatedDevice:
    """The CPU: memory by NumPy, and a library that was compiled for the emulator (kernels/emulator)."""

    arrays = np
    stream = EMULATED_STREAM

    def __init__(self, threads: int, time_limit_s: float, first_only: bool = False) -> None:
        """Use so many threads; a launch that takes more CPU time than the limit, or than `_patience_s`, is a finding.

        With `first_only` the device is stuck after its first finding, whatever that is.
        """
        self.threads, self.time_limit_s, self.first_only = threads, time_limit_s, first_only
        self.stuck = False
        self.cut_off = False  # whether a launch was not waited for: its variables are half done, whatever follows

    def put(self, host: np.ndarray) -> np.ndarray:
        """A copy, aligned as cudaMalloc aligns."""
        memory = np.empty(host.nbytes + ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % ALIGNMENT
        aligned = memory[start : start + host.nbytes].view(host.dtype)
        aligned[...] = host
        return aligned

    def reserve(self, elements: int) -> np.ndarray:
        """So many zeros, of which only what is written takes memory; raises OSError where that cannot be had."""
        memory = mmap.mmap(-1, 4 * elements, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
        return np.frombuffer(memory, np.float32)

    def address(self, array: np.ndarray) -> int:
        """Where an array begins."""
        return array.ctypes.data

    def compute(self, library: Library, call: Call, run: int) -> str:
        """Compute, with an order of blocks and threads that depends on `run`; the first finding, or nothing.

        Reads of shared memory or of the workspace that nobody has written are a finding if C is another one with zeros
        there than with NaNs. Raises OSError where the emulator cannot reserve what it keeps of each element that may be
        written.
        """
        C = _elements(call.operands.C, call.shape.m, call.shape.n, call.operands.ldc)
        before, workspace = C.copy() if call.beta != 0 else None, call.workspace.copy()
        wrong = self._compute(library, call, run)
        if not wrong or not library.functions.emulator_only_unwritten():
            return wrong
        with_nans, stuck = C.copy(), self.stuck
        if before is not None:  # else nothing that counts is read from C
            C[...] = before
        call.workspace[...] = workspace
        call.workspace[: call.workspace_bytes // 4] = 0
        library.functions.emulator_set_unwritten(ctypes.c_int(0))
        again = self._compute(library, call, run)
        unused = bool((C.view(np.uint32) == with_nans.view(np.uint32)).all())
        unused = unused and (not again or library.functions.emulator_only_unwritten())
        library.functions.emulator_set_unwritten(ctypes.c_int(0xFF))
        self.stuck = stuck and not unused
        return "" if unused else wrong

    def _compute(self, library: Library, call: Call, run: int) -> str:
        self.begin(library, [call], run)
        error = library.queue(
            call.shape, call.alpha, call.beta, call.operands, call.workspace_at(self), EMULATED_STREAM
        )
        return self.found(library, call) or (f"sgemm returned {explain(error)}" if error else "")

    def written(self, library: Library, call: Call) -> np.ndarray:
        """Which elements of C kernels have written since `begin`, m x n."""
        found = np.zeros((call.shape.m, call.shape.n), np.bool_)
        library.functions.emulator_written(ctypes.c_void_p(call.operands.C), ctypes.c_void_p(found.ctypes.data))
        return found

    def some_blocks_ran(self, library: Library) -> bool:
        """Whether of any launch since `begin` only some blocks have run."""
        function = library.functions.emulator_skipped
        function.restype = ctypes.c_uint64
        return int(function()) > 0

    def uncovered(self, library: Library, call: Call) -> int:
        """How many elements of C no block can write, by what those that have run since `begin` wrote."""
        function = library.functions.emulator_uncovered
        function.restype = ctypes.c_int64
        return int(function(ctypes.c_void_p(call.operands.C)))

    def launches(self, library: Library) -> list[tuple[Any, ...]]:
        """The launches since `begin`, as `Library.observed` gives them; the address of an unknown kernel is 0.

        The last value of each is whether the contract's `launch` has made it.
        """
        first, function = ctypes.c_void_p(), library.functions.emulator_launches
        function.restype = ctypes.c_uint64
        count = int(function(ctypes.byref(first)))
        numbers = list((ctypes.c_uint64 * (9 * count)).from_address(first.value or 0)) if count else []
        each = [numbers[9 * i : 9 * i + 9] for i in range(count)]
        return [(one[0], tuple(one[1:4]), tuple(one[4:7]), one[7], bool(one[8])) for one in each]

    def largest_blocks(self, library: Library) -> dict[str, int]:
        """The most threads of a block that each kernel was launched with since the library was loaded, by its symbol.

        A template whose arguments the launch leaves to the compiler has its name in the source.
        """
        first, function = ctypes.c_void_p(), library.functions.emulator_largest_blocks
        function.restype = ctypes.c_uint64
        count = int(function(ctypes.byref(first)))
        numbers = list((ctypes.c_uint64 * (3 * count)).from_address(first.value or 0)) if count else []
        found: dict[str, int] = {}
        for kernel, name, threads in zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True):
            text = ctypes.cast(name, ctypes.c_char_p).value if name else None
            symbol = library.symbol(kernel) if kernel else (text or b"").decode()
            found[symbol] = max(threads, found.get(symbol, 0))
        return found

    def variable_written(self, library: Library) -> str:
        """The name of a `__device__` variable that kernels have written since `begin`; empty where there is none."""
        function = library.functions.emulator_variable_written
        function.restype = ctypes.c_char_p
        return str(function().decode())

    def begin(self, library: Library, calls: Sequence[Call], run: int = 0) -> None:
        """Forget all findings, and tell the emulator of the memory of these products."""
        c = library.functions
        c.emulator_set_workers(ctypes.c_int(self.threads))
        c.emulator_set_timeout(ctypes.c_double(min(self.time_limit_s, _patience_s(calls[0]))))
        c.emulator_set_most_blocks(ctypes.c_uint64(calls[0].blocks))
        c.emulator_set_most_accesses(ctypes.c_uint64(0))
        c.emulator_set_stream(ctypes.c_void_p(EMULATED_STREAM))
        c.emulator_reset(ctypes.c_uint64(run + 1))
        for number, call in enumerate(calls):
            self._register(library, call, f" of product {number + 1}" if len(calls) > 1 else "")

    def _register(self, library: Library, call: Call, of: str) -> None:
        shape, o = call.shape, call.operands
        inputs = b"r" if call.alpha != 0 and shape.k > 0 else b""
        words = -(-call.workspace_bytes // 4)
        for name, address, rows, columns, ld, access in (
            ("A", o.A, shape.m, shape.k, o.lda, inputs),
            ("B", o.B, shape.k, shape.n, o.ldb, inputs),
            ("C", o.C, shape.m, shape.n, o.ldc, b"w" if call.beta == 0 else b"rw"),
            ("workspace", self.address(call.workspace), 1, words, max(1, words), b"wb"),
        ):
            sizes = (ctypes.c_int64(size) for size in (rows, columns, ld))
            named = ctypes.c_char_p((name + of).encode())
            if library.functions.emulator_register_buffer(named, ctypes.c_void_p(address), *sizes, access):
                raise OSError(f"no room for what the emulator keeps of {name}")

    def found(self, library: Library, call: Call) -> str:
        """The first finding since `begin`, or nothing."""
        text = ctypes.create_string_buffer(1 << 16)
        library.functions.emulator_report(text, ctypes.c_size_t(len(text)))
        lines = text.value.decode(errors="replace").splitlines()
        lines = [line for line in lines if call.deterministic or not line.startswith("nondeterminism: ")]
        findings = sorted(lines, key=is_unfinished)
        self.stuck = any(self.first_only or is_unfinished(finding) for finding in findings)
        self.cut_off |= any(map(is_unfinished, findings))
        return findings[0] if findings else ""

    def found_beside_unwritten(self, library: Library, call: Call) -> str:
        """The same without reads of shared memory or workspace that nobody has written: if they matter C has NaNs."""
        wrong = self.found(library, call)
        if library.functions.emulator_only_unwritten():
            wrong, self.stuck = "", False
        return wrong

    def capture(self, library: Library, calls: Sequence[Call]) -> tuple[list[int], str]:
        """Capture each product's work; its numbers, and what went wrong, in one line, or nothing."""
        self.begin(library, calls)
        graphs, error = [], 0
        for call in calls:
            library.functions.emulator_begin_capture()
            error = error or library.queue(
                call.shape, call.alpha, call.beta, call.operands, call.workspace_at(self), EMULATED_STREAM
            )
            graphs.append(library.functions.emulator_end_capture())
        wrong = self.found(library, calls[0])
        return graphs, wrong or (f"sgemm returned {explain(error)} while its work was captured" if error else "")

    def replay(self, library: Library, calls: Sequence[Call], graphs: Sequence[int]) -> str:
        """Run what was captured once more, of two products at the same time; what went wrong, or nothing."""
        graph, beside = graphs[0], graphs[1] if len(graphs) > 1 else -1
        library.functions.emulator_begin_replay()
        error = library.functions.emulator_replay(ctypes.c_int(graph), ctypes.c_int(beside))
        wrong = self.found_beside_unwritten(library, calls[0])
        return wrong or (f"its work ended with {explain(error)}" if error else "")

    def clear(self) -> None:
        """Nothing is kept."""


def _elements(address: int, rows: int, columns: int, ld: int) -> np.ndarray:
    """The elements of a matrix in the CPU's memory, a rows x columns view."""
    if not rows or not columns:
        return np.zeros((rows, columns), np.float32)
    memory = (ctypes.c_float * ((rows - 1) * ld + columns)).from_address(address)
    return np.lib.stride_tricks.as_strided(np.frombuffer(memory, np.float32), (rows, columns), (4 * ld, 4))


def _patience_s(call: Call) -> float:
    """The seconds of CPU time for which a launch in the emulator is waited for.

    They are 5, and one for each million FLOP and for each 10,000 steps of k, at which threads may wait for each other.
    The FLOP are those of LEAST_SIDE rows, columns and steps at least: threads of a tile work beyond a thin C, and on
    one step as long as on some.

    LARGE_S of a product of which some blocks are computed: blocks that compute one tile after the other do not end.
    """
    rows, columns, steps = (max(side, LEAST_SIDE) for side in (call.shape.m, call.shape.n, call.shape.k))
    return LARGE_S if call.blocks else 5 + 2 * rows * columns * steps / 1e6 + call.shape.k / 1e4
