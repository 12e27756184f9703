"""What a rung may leave behind in its process or on its GPU, and whether it did."""

from __future__ import annotations

import ctypes
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import cupy as cp
import numpy as np

from ladder.system.errors import LadderError

# cudaLimit of driver_types.h
DEVICE_LIMITS = {
    "stack size": 0,
    "printf buffer": 1,
    "malloc heap": 2,
    "L2 fetch granularity": 5,
    "persisting L2 cache": 6,
}
KEPT_BYTES = 16 << 20  # of device memory that may go while a rung is measured: the driver's own
LARGEST_TABLE = 4 << 20  # bytes of a read-only data segment that is compared: relocated addresses are in small ones
FLUSHED = 0.5  # of what the first flush made a load slower, what later ones have to
CHASED_LOADS = 400  # of a look at whether the L2 cache was flushed
_OF_THE_DRIVER = re.compile(r"lib(cuda|nvidia|nvrtc|nvJitLink|nvptxcompiler)")


class Dishonest(LadderError):
    """What a rung was seen to do in the launches of a measurement."""


class Watch:
    """Looks at the process and the GPU before and after a rung's launches."""

    def __init__(self, module: cp.RawModule, stream: cp.cuda.Stream, libraries: Iterable[str]) -> None:
        """Take the kernels of operands.cu, a stream that waits for no other, and the paths of the rungs' libraries."""
        self._chase, self._stream = module.get_function("chase"), stream
        self._own = {os.path.realpath(path) for path in libraries}
        self.l2_bytes = int(cp.cuda.runtime.getDeviceProperties(cp.cuda.Device().id)["l2CacheSize"])
        self._flush = cp.empty(max(2 * self.l2_bytes, 1 << 20), np.uint8)
        self._words = cp.zeros(max(self.l2_bytes // 4, 1 << 18) // 128 * 32, np.uint32)
        self._cycles = cp.zeros(1, np.float32)
        self._code: dict[str, int] = {}
        self._before: dict[str, Any] = {}
        self.slower_when_flushed = self._flushing()

    def begin(self) -> None:
        """Look for the first time, when what the rung sets up at its first call is done."""
        self._code = self._code or dict(code(self._own))
        self._before = left_alone()

    def compare(self) -> None:
        """Look again; raises Dishonest for what has changed."""
        now = left_alone()
        for what, value in self._before.items():
            if what == "free memory":
                if value - now[what] > KEPT_BYTES:
                    raise Dishonest(f"it left {(value - now[what]) >> 20} MiB of device memory allocated")
            elif isinstance(value, frozenset):
                if more := now[what] - value:
                    raise Dishonest(f"it left {what} behind in its process: {', '.join(sorted(more))}")
            elif now[what] != value:
                raise Dishonest(f"it changed {what}")
        slower = self._flushing()
        if slower - 1 < FLUSHED * (self.slower_when_flushed - 1):
            raise Dishonest(
                f"the L2 cache is not flushed any more: a load takes {slower:.2f} times as long after a flush, "
                f"and took {self.slower_when_flushed:.2f} times as long at first"
            )

    def code_changed(self) -> str:
        """Which library's code or relocated addresses are not what they were; empty where all are."""
        now = code(self._own) if self._code else ()
        changed = [name for name, check in now if self._code.get(name, check) != check]
        return f"it changed {Path(changed[0].partition(':')[0]).name} in the memory of its process" if changed else ""

    def _flushing(self) -> float:
        """How many times as long a load takes when the L2 cache has been flushed since the last of the same place."""
        self._load_cycles()
        cached = self._load_cycles()
        self._flush.data.memset_async(0, self._flush.nbytes, self._stream)
        return self._load_cycles() / cached

    def _load_cycles(self) -> float:
        arguments = (self._words, np.uint64(self._words.size // 32), np.int32(CHASED_LOADS), self._cycles)
        self._chase((1,), (1,), arguments, stream=self._stream)
        return float(self._cycles.get(stream=self._stream)[0])


def left_alone() -> dict[str, Any]:
    """What launches must leave as it is; of sets, to which they must not add."""
    runtime, status = cp.cuda.runtime, Path("/proc/self/status").read_text()
    found: dict[str, Any] = {
        f"the device's limit of {name}": runtime.deviceGetLimit(number) for name, number in DEVICE_LIMITS.items()
    }
    return found | {
        "the current context": cp.cuda.driver.ctxGetCurrent(),
        "the environment": sorted(environment_in_c()),
        "the handlers of signals": re.findall(r"Sig(?:Cgt|Ign|Blk):\s*(\w+)", status),
        "threads": frozenset(threads()),
        "libraries": frozenset(libraries()),
        "free memory": runtime.memGetInfo()[0],
    }


def environment_in_c() -> Iterator[bytes]:
    """The environment as C code sees it."""
    variables = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    index = 0
    while variables and (variable := variables[index]) is not None:
        yield variable
        index += 1


def threads() -> Iterator[str]:
    """The threads of this process but CUDA's own."""
    for task in Path("/proc/self/task").iterdir():
        try:
            name = (task / "comm").read_text().strip()
        except OSError:  # it has ended
            continue
        if not name.startswith("cuda"):
            yield f"{name} {task.name}"


def libraries() -> Iterator[str]:
    """The names of the libraries whose code is mapped, but those that the driver loads when it needs them."""
    for _, permissions, path in mappings():
        if "x" in permissions and not _OF_THE_DRIVER.match(Path(path).name):
            yield Path(path).name


def mappings() -> Iterator[tuple[tuple[int, int], str, str]]:
    """The mapped files of this process: addresses, permissions, path."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, permissions, _, _, _, *path = line.split(maxsplit=5)
        if path and path[0].startswith("/") and not path[0].startswith("/dev/"):
            begin, end = (int(each, 16) for each in addresses.split("-"))
            yield (begin, end), permissions, path[0]


def code(own: set[str]) -> Iterator[tuple[str, int]]:
    """A checksum of each segment of code, and of each small read-only one, of all libraries but the rungs' `own`."""
    for (begin, end), permissions, path in mappings():
        small = end - begin <= LARGEST_TABLE
        if os.path.realpath(path) in own or not permissions.startswith("r-") or not ("x" in permissions or small):
            continue
        yield f"{path}:{begin:x}", zlib.crc32((ctypes.c_char * (end - begin)).from_address(begin))
