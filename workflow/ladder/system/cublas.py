"""The cuBLAS that rungs are compared with: where it is, and which versions it says that it has."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable
from functools import cache

LOCATION = "GEMM_LADDER_CUBLAS"  # the environment variable that kernels/include/cublas.cuh reads
_VERSION_PARTS = (0, 1, 2)  # libraryPropertyType of library_types.h: major, minor, patch level


def provide_cublas() -> None:
    """Tell kernels/include/cublas.cuh where libcublas is: in the environment, the toolkit or the system."""
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

    with contextlib.suppress(DynamicLibNotFoundError, RuntimeError):
        os.environ[LOCATION] = str(load_nvidia_dynamic_lib("cublas").abs_path)


@cache
def cublas_versions() -> dict[str, str]:
    """What the library that rungs load, and the cublasLt that it loads, say of themselves: `13.1.0`; needs no GPU.

    Keys: cublas, cublas_lt. Empty where there is no libcublas. Source: cublasGetProperty and cublasLtGetProperty of
    cuBLAS's C interface.
    """
    provide_cublas()
    try:
        library = ctypes.CDLL(os.environ.get(LOCATION, "libcublas.so"))
    except OSError:
        return {}
    return {"cublas": _version(library.cublasGetProperty), "cublas_lt": _version(library.cublasLtGetProperty)}


def _version(get_property: Callable[..., int]) -> str:
    parts = []
    for part in _VERSION_PARTS:
        value = ctypes.c_int()
        get_property(part, ctypes.byref(value))
        parts.append(str(value.value))
    return ".".join(parts)
