"""libgemm_ladder.so from Python: `sgemm(A, B, C)` for CuPy arrays, PyTorch tensors and whatever else speaks DLPack."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

CUDA, FLOAT = 2, 2  # kDLCUDA and kDLFloat of dlpack.h
LEGACY_STREAM = 1  # as DLPack names CUDA's default stream


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    matrix = (ctypes.c_void_p, ctypes.c_int64)
    library.gemm_ladder_sgemm_transposed.argtypes = [
        *(ctypes.c_int,) * 5, ctypes.c_float, *matrix * 2, ctypes.c_float, *matrix, ctypes.c_void_p,
    ]  # fmt: skip
    library.gemm_ladder_describe.restype = ctypes.c_char_p
    return library


_library = _load(Path(__file__).with_name("libgemm_ladder.so"))


def describe() -> str:
    """The rung, its arithmetic and the GPU that it was compiled for."""
    return _library.gemm_ladder_describe().decode()


def sgemm(A: Any, B: Any, C: Any, alpha: float = 1.0, beta: float = 0.0, stream: int = 0) -> Any:
    """Queue C = alpha * A @ B + beta * C on a CUDA stream (its address; 0 is the default stream); returns C.

    A is m x k, B k x n and C m x n, of float32, on one CUDA device that is current. Neighbouring columns of C lie side
    by side, those of A and B too, or else their neighbouring rows, as in a transposed view, which is copied first.
    Raises TypeError or ValueError for other operands, RuntimeError where CUDA refuses the launch.
    """
    with _matrix(A, "A", stream) as a, _matrix(B, "B", stream) as b, _matrix(C, "C", stream) as c:
        (m, k), (rows, n) = a.shape, b.shape
        if k != rows or c.shape != (m, n):
            raise ValueError(
                f"sgemm: A is {m} x {k}, B {rows} x {n}, C {c.shape[0]} x {c.shape[1]}: they make no product"
            )
        if len({a.device, b.device, c.device}) > 1:
            raise ValueError("sgemm: A, B and C are on different devices; move them to one")
        if c.transposed:
            raise ValueError("sgemm: C: its columns are not side by side; make it contiguous")
        operands = (alpha, a.address, a.ld, b.address, b.ld, beta, c.address, c.ld)
        error = _library.gemm_ladder_sgemm_transposed(a.transposed, b.transposed, m, n, k, *operands, stream)
    if error:
        raise RuntimeError(f"sgemm: CUDA error {error}; {describe()} may not run on this device")
    return C


class _Matrix(NamedTuple):
    address: int
    shape: tuple[int, int]
    ld: int
    device: int
    transposed: bool  # whether its rows lie side by side, and not its columns


@contextlib.contextmanager
def _matrix(array: Any, name: str, stream: int) -> Iterator[_Matrix]:
    """What the library is told of a matrix, which stays alive until the block ends."""
    if not hasattr(array, "__dlpack__"):
        raise TypeError(f"sgemm: {name}: {type(array).__name__} speaks no DLPack; give a CuPy array or PyTorch tensor")
    if array.__dlpack_device__()[0] != CUDA:
        raise TypeError(f"sgemm: {name}: is on no CUDA device; move it there")
    capsule = array.__dlpack__(stream=stream or LEGACY_STREAM)
    tensor = _Tensor.from_address(_pointer_of(capsule, b"dltensor"))
    if (tensor.ndim, tensor.code, tensor.bits, tensor.lanes) != (2, FLOAT, 32, 1):
        raise TypeError(f"sgemm: {name}: is no matrix of float32; convert it")
    rows, columns = tensor.shape[0], tensor.shape[1]
    steps = (tensor.strides[0], tensor.strides[1]) if tensor.strides else (columns, 1)
    along, across = _ld(rows, columns, *steps), _ld(columns, rows, *steps[::-1])
    if along is None and across is None:
        raise ValueError(f"sgemm: {name}: neither its columns nor its rows are side by side; make it contiguous")
    address, ld = (tensor.data or 0) + tensor.byte_offset, along or across
    yield _Matrix(address, (rows, columns), ld, tensor.device, along is None)
    del capsule


def _ld(rows: int, columns: int, step: int, one: int) -> int | None:
    """The leading dimension of a row-major matrix with these steps, from row to row and column to column; or None."""
    if rows and columns > 1 and one != 1:
        return None
    ld = max(1, columns) if rows <= 1 or not columns else step
    return ld if ld >= max(1, columns) else None
