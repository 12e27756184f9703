"""A compiled rung as Python calls it: the contract of kernels/include/gemm.cuh through ctypes."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ladder.config.wrapper import SYMBOL
from ladder.model.shape import Shape
from ladder.system.errors import LadderError

_POINTER = ctypes.c_void_p
_SGEMM = [
    *(ctypes.c_int,) * 3,  # m, n, k
    ctypes.c_float,  # alpha
    *(_POINTER, ctypes.c_int64) * 2,  # A, lda, B, ldb
    ctypes.c_float,  # beta
    *(_POINTER, ctypes.c_int64),  # C, ldc
    _POINTER,  # workspace
    ctypes.POINTER(ctypes.c_size_t),  # workspace_bytes
    _POINTER,  # stream
]

# cudaError_t as the contract returns it, where a remedy is known (driver_types.h).
_ERRORS = {
    1: "cudaErrorInvalidValue: an argument outside the contract, or a launch larger than CUDA allows",
    2: "cudaErrorMemoryAllocation: out of GPU memory",
    9: "cudaErrorInvalidConfiguration: a grid or block larger than this GPU allows",
    98: "cudaErrorInvalidDeviceFunction: compiled for another architecture than this GPU's",
    209: "cudaErrorNoKernelImageForDevice: compiled for another architecture than this GPU's",
    303: "cudaErrorSharedObjectInitFailed: libcublas was not found or gives no handle; "
    "install envs/cublas.txt or a CUDA toolkit",
    700: "cudaErrorIllegalAddress: a kernel read or wrote outside its memory",
    701: "cudaErrorLaunchOutOfResources: too many registers for the block",
    716: "cudaErrorMisalignedAddress: a vector access at an address that is no multiple of its width",
    719: "cudaErrorLaunchFailure: a kernel failed",
}


def explain(error: int) -> str:
    """A cudaError_t in words."""
    return _ERRORS.get(error, f"CUDA error {error}")


@dataclass(frozen=True)
class Operands:
    """Pointers (as integers) and leading dimensions, in elements, of one product."""

    A: int
    lda: int
    B: int
    ldb: int
    C: int
    ldc: int


@dataclass(frozen=True)
class Launch:
    """One kernel launch that a rung makes for a shape."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int


# Host stubs of templates and static functions are local, in a namespace or not; what they start bears the
# name of a global function.
_LOCAL = re.compile(r"^(_Z(?:N\d+[a-z_][a-z0-9_]*?)?)L(?=\d)")


class _Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


class _DlInfo(ctypes.Structure):
    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


class Library:
    """The shared library of one rung."""

    _folder: tempfile.TemporaryDirectory[str] | None = None

    def __init__(self, path: Path) -> None:
        """Load the library; raises LadderError where it cannot be loaded or has no `sgemm`."""
        self._path = path
        try:
            self._library = ctypes.CDLL(str(path.resolve()), mode=os.RTLD_LOCAL | os.RTLD_NOW)
            self._sgemm = self._library.sgemm
        except (OSError, AttributeError) as error:
            problem = str(error).replace(f"{path.resolve()}: ", "")
            raise LadderError(f"it cannot be used as a rung ({problem}); end the source with EXPORT_SGEMM") from None
        self._sgemm.argtypes = _SGEMM
        self._sgemm.restype = ctypes.c_int

    def anew(self) -> Library:
        """The library loaded once more, from a copy of its file: its variables are those of a first call."""
        folder = tempfile.TemporaryDirectory()
        copied = Library(Path(shutil.copy(self._path, folder.name)))
        copied._folder = folder  # whose file the emulator reads where it reports a finding
        return copied

    @property
    def functions(self) -> ctypes.CDLL:
        """What else the library exports."""
        return self._library

    @cached_property
    def _names(self) -> dict[int, str]:
        return _symbols(self._path)

    def symbol(self, kernel: int) -> str:
        """The symbol of a kernel at an address; empty where the library has none there."""
        return self._names.get(_offset(kernel), "")

    def workspace_bytes(self, shape: Shape, alpha: float, beta: float, operands: Operands) -> int:
        """Bytes of workspace that this product needs; raises LadderError where the rung refuses the arguments."""
        needed = ctypes.c_size_t(0)
        error = self._call(shape, alpha, beta, operands, 0, ctypes.byref(needed), 0)
        if error:
            raise LadderError(f"sgemm refuses {shape}: {explain(error)}")
        return needed.value

    def queue(
        self, shape: Shape, alpha: float, beta: float, operands: Operands, workspace: int = 0, stream: int = 0
    ) -> int:
        """Queue one product on the stream and return the contract's cudaError_t."""
        return self._call(shape, alpha, beta, operands, workspace, None, stream)

    def answer(
        self, m: int, n: int, k: int, alpha: float, beta: float, o: Operands, workspace: int = 0, stream: int = 0
    ) -> int:
        """What sgemm returns for whatever arguments, also those outside the contract."""
        return self._sgemm(m, n, k, alpha, o.A, o.lda, o.B, o.ldb, beta, o.C, o.ldc, workspace, None, stream)

    def _call(
        self, shape: Shape, alpha: float, beta: float, o: Operands, workspace: int, needed: object, stream: int
    ) -> int:
        return self._sgemm(
            shape.m, shape.n, shape.k, alpha, o.A, o.lda, o.B, o.ldb, beta, o.C, o.ldc, workspace, needed, stream
        )  # fmt: skip

    def launches(self, shape: Shape, sms: int, gaps: tuple[int, int, int] = (0, 0, 0)) -> list[Launch]:
        """The launches of C = A . B for a shape on a GPU with so many SMs, observed and not made: needs no GPU.

        `gaps` are the elements between the rows of A, B and C. Empty where the rung starts its kernels
        without the contract's `launch`, as cuBLAS does.
        """
        made: list[Launch] = []

        def observe(kernel: int, grid: _Dim3, block: _Dim3, dynamic_shared_bytes: int) -> None:
            name = _LOCAL.sub(r"\1", self.symbol(kernel)).removeprefix(SYMBOL)
            made.append(Launch(name, (grid.x, grid.y, grid.z), (block.x, block.y, block.z), dynamic_shared_bytes))

        with self.observed(sms, observe) as observed:
            if observed:
                self.queue(shape, 1.0, 0.0, _nowhere(shape, gaps), workspace=OBSERVED_ADDRESS)
        return made

    def workspace_asked(self, shape: Shape, sms: int) -> int:
        """Bytes of workspace that C = A . B asks for on a GPU with so many SMs: needs no GPU; 0 as `launches` is empty.

        Raises LadderError where the rung refuses the arguments.
        """
        with self.observed(sms, lambda *launch: None) as observed:
            return self.workspace_bytes(shape, 1.0, 0.0, _nowhere(shape)) if observed else 0

    @cached_property
    def exported_bytes(self) -> dict[str, int]:
        """How long what the library exports is, by name, by nm."""
        command = ["nm", "--dynamic", "--defined-only", "--print-size", str(self._path)]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        fields = (line.split() for line in listed.splitlines())
        return {field[3]: int(field[1], 16) for field in fields if len(field) == 4}

    @contextmanager
    def observed(self, sms: int, observe: Callable[..., None]) -> Iterator[bool]:
        """Tell launches to `observe` instead of making them, on a GPU with so many SMs; whether the rung does so."""
        observer_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p, _Dim3, _Dim3, ctypes.c_size_t)
        observer = observer_type(observe)
        try:
            pointer = observer_type.in_dll(self._library, "launch_observer")
            sm_count = ctypes.c_int.in_dll(self._library, "observed_sms")
        except ValueError:
            yield False
            return
        pointer_value = ctypes.cast(observer, ctypes.c_void_p).value
        address = ctypes.cast(ctypes.addressof(pointer), ctypes.POINTER(ctypes.c_void_p))
        address[0], sm_count.value = pointer_value, sms
        try:
            yield True
        finally:
            address[0], sm_count.value = None, 0


OBSERVED_ADDRESS = 1 << 20  # any address will do where nothing is read


def _nowhere(shape: Shape, gaps: tuple[int, int, int] = (0, 0, 0)) -> Operands:
    return operands_at((OBSERVED_ADDRESS,) * 3, shape, gaps)


def operands_at(
    addresses: tuple[int, int, int],
    shape: Shape,
    gaps: tuple[int, int, int] = (0, 0, 0),
    offsets: tuple[int, int, int] = (0, 0, 0),
) -> Operands:
    """The operands of a product whose A, B and C begin so many floats behind these addresses, with gaps behind rows."""
    A, B, C = (address + 4 * offset for address, offset in zip(addresses, offsets, strict=True))
    lda, ldb, ldc = (max(1, columns) + gap for columns, gap in zip((shape.k, shape.n, shape.n), gaps, strict=True))
    return Operands(A, lda, B, ldb, C, ldc)


def _symbols(path: Path) -> dict[int, str]:
    """The text symbols of a library by their offset, local ones (as nvcc's host stubs are) included, by nm."""
    listed = subprocess.run(["nm", str(path)], capture_output=True, text=True, check=True).stdout
    fields = (line.split() for line in listed.splitlines())
    return {int(field[0], 16): field[2] for field in fields if len(field) == 3 and field[1] in "tTwW"}


def _offset(address: int) -> int:
    """The offset of an address inside the library that holds it."""
    info = _DlInfo()
    found = ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(info))
    return address - info.base if found else 0
