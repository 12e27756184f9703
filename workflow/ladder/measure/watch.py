"""What a rung may leave behind in its process or on its GPU, and whether it did."""

from __future__ import annotations

import ctypes
import os
import re
import struct
import zlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import cupy as cp
import numpy as np

from ladder.system.errors import LadderError

# cudaLimit of driver_types.h; not the stack size, which the driver itself raises for a kernel that needs more
DEVICE_LIMITS = {
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

    def before_loading(self) -> None:
        """Look for the first time, before the rung's library is loaded and may do anything."""
        self._before = settings()
        self._code = dict(code(self._own))

    def begin(self) -> None:
        """Look again when what the rung and NVBench set up at their first calls is done."""
        self._before |= holdings()

    def compare(self) -> None:
        """Look a last time; raises Dishonest for what has changed."""
        now = settings() | holdings()
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
        """Which library's code or tables of addresses are not what they were; empty where all are."""
        now = dict(code(self._own)) if self._code else {}
        changed = [name for name, checksum in self._code.items() if now.get(name) != checksum]
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


def settings() -> dict[str, Any]:
    """What a rung must leave as it is from the moment that it is loaded."""
    runtime, status = cp.cuda.runtime, Path("/proc/self/status").read_text()
    flags, active = ctypes.c_uint(), ctypes.c_int()
    device = cp.cuda.Device().id
    ctypes.CDLL("libcuda.so.1").cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active))
    found: dict[str, Any] = {
        f"the device's limit of {name}": runtime.deviceGetLimit(number) for name, number in DEVICE_LIMITS.items()
    }
    return found | {
        "the device's flags": flags.value,
        "the current context": cp.cuda.driver.ctxGetCurrent(),
        "the environment": sorted(environment_in_c()),
        "the handlers of signals": re.findall(r"Sig(?:Cgt|Ign|Blk):\s*(\w+)", status),
    }


def holdings() -> dict[str, Any]:
    """What a rung must not add to from its second call on."""
    return {
        "threads": frozenset(threads()),
        "libraries": frozenset(libraries()),
        "free memory": cp.cuda.runtime.memGetInfo()[0],
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
    """A checksum of all that libraries but the rungs' `own` are run by, by file and address.

    That is each segment of code, each small read-only one, and each table of addresses of imported functions.
    """
    held = [each for each in mappings() if os.path.realpath(each[2]) not in own]
    for (begin, end), permissions, path in held:
        small = end - begin <= LARGEST_TABLE
        if "r" in permissions and "w" not in permissions and ("x" in permissions or small):
            yield f"{path}:{begin:x}", _checksum(begin, end - begin)
    for path in {path for *_, path in held if ".so" in path}:
        base = min(begin for (begin, _), _, other in held if other == path)
        mapped = [span for span, permissions, other in held if other == path and "r" in permissions]
        for offset, size in tables_of_addresses(Path(path)):
            begin, end = base + offset, base + offset + size
            # only a part of a table may be in pages that are read-only by now
            if sum(max(0, min(end, last) - max(begin, first)) for first, last in mapped) == size:
                yield f"{path}:{begin:x}", _checksum(begin, size)


def _checksum(address: int, size: int) -> int:
    return zlib.crc32((ctypes.c_char * size).from_address(address))


@cache
def tables_of_addresses(path: Path) -> list[tuple[int, int]]:
    """Where a library's .got and .got.plt lie in memory, from its beginning, and their bytes; of a 64-bit ELF file."""
    with path.open("rb") as file:
        header = file.read(64)
        if header[:5] != b"\x7fELF\x02":
            return []
        (start,), (size, count, names) = struct.unpack_from("<Q", header, 40), struct.unpack_from("<HHH", header, 58)
        file.seek(start)
        sections = [struct.unpack("<IIQQQQ", file.read(size)[:40]) for _ in range(count)]
        if not sections:
            return []
        file.seek(sections[names][4])
        text = file.read(sections[names][5])
    named = ((text[each[0] : text.find(b"\0", each[0])], each) for each in sections)
    return [(each[3], each[5]) for name, each in named if name in (b".got", b".got.plt")]
