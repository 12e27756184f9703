"""Products in the emulator: the rungs that it can run, the cases that they are run on, and everything that it finds.

The check tells the first finding of a rung; this tells all of them, and judges the result by a
bound of its own.
"""

import atexit
import ctypes
import mmap
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from ladder.build.emulator import HEADER, compile_engine, compile_for_emulator
from ladder.build.library import Library, Operands
from ladder.build.other_code import other_code
from ladder.config.kernels import read_kernels
from ladder.config.plan import KERNELS
from ladder.config.sources import sources
from ladder.measure.devices import EMULATED_SMS, Call, EmulatedDevice
from ladder.measure.inputs import draw_inputs
from ladder.model.bounds import componentwise_bound
from ladder.model.cases import EMULATED_LONG
from ladder.model.precision import BOUNDS
from ladder.model.rung import Rung
from ladder.model.shape import Shape
from ladder.system.paths import ROOT

UNIT = 2.0**-24
HUGE = 2**20  # a gap that is only mapped, never filled
GUARD = 2**14  # floats behind each matrix, so that what reads a tile too far meets no other matrix


def emulated(rung: Rung) -> bool:
    """Whether the emulator can run a rung: whether it is the same code for a CPU as for a GPU."""
    return rung.role == "rung" and not other_code(sources(rung), rung.macros)


RUNGS = sorted({ROOT / "kernels" / rung.source for rung in read_kernels(KERNELS).values() if emulated(rung)})


@dataclass(frozen=True)
class Case:
    """A product; gaps are the columns between a row's end and its leading dimension, offset is in floats.

    One offset is that of all three matrices. Inputs are normal, or of a family of the check.
    """

    m: int
    n: int
    k: int
    alpha: float = 1.0
    beta: float = 0.0
    gaps: tuple[int, int, int] = (0, 0, 0)
    offset: int | tuple[int, int, int] = 0
    family: str = ""

    def __str__(self):
        text = f"{self.m}x{self.n}x{self.k} alpha={self.alpha:g} beta={self.beta:g}"
        return text + f" gaps={self.gaps} offset={self.offset}"


SMALL = [
    Case(1, 1, 1),
    Case(1, 1, 1, -0.5, 2.0, (3, 2, 1), 1),
    Case(17, 33, 1, 1.5, 0.5),
    Case(5, 7, 100, 1.0, 0.0, (1, 1, 1), 1),
    Case(64, 64, 64, 1.25, -1.5, (4, 4, 4)),
    Case(65, 31, 47, -2.0, 0.75, (5, 3, 2), 3),
    Case(40, 72, 36, 0.5, 0.0, (0, 0, 12)),
    Case(17, 33, 613, 1.0, 1.0, (3, 2, 1)),
]
AWKWARD = [
    *SMALL,
    Case(0, 5, 5, 1.0, 1.0),
    Case(5, 0, 5, 1.0, 1.0),
    Case(6, 7, 0, 1.0, 0.5),
    Case(6, 7, 0, 1.0, 0.0),
    Case(6, 7, 8, 0.0, 0.5),
    Case(6, 7, 8, 0.0, 0.0),
    Case(36, 68, 612, -1.0, 0.0, (4, 4, 4)),
    Case(128, 128, 16),
    Case(129, 127, 33, 1.0, 1.0, (7, 9, 11), 2),
    Case(1, 257, 63, 3.0, 0.0),
    Case(257, 1, 65, 3.0, 1.0),
    Case(96, 160, 131, 1.0, 0.0, (1, 0, 3)),
    Case(130, 258, 21, 1.0, 1.0, (2, 2, 2)),
    Case(133, 260, 18, -0.5, 0.5, (2, 4, 3)),
]


@dataclass(frozen=True)
class Matrix:
    """A view with its gap columns, inside a flat buffer that is NaN elsewhere; a huge one is zero there."""

    flat: np.ndarray
    view: np.ndarray
    cols: int

    @property
    def ld(self) -> int:
        return self.view.shape[1]

    @property
    def elements(self) -> np.ndarray:
        return self.view[:, : self.cols]

    @property
    def address(self) -> int:
        return self.view.ctypes.data

    def outside(self) -> bytes:
        """What no kernel may write."""
        flat = self.flat.copy()
        start = (self.view.ctypes.data - self.flat.ctypes.data) // 4
        flat[start : start + self.view.size].reshape(self.view.shape)[:, : self.cols] = 0
        return flat.tobytes()


def matrix(rows: int, cols: int, gap: int, offset: int, values) -> Matrix:
    ld = max(1, cols + gap)
    if gap > HUGE:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
        flat = np.frombuffer(mmap.mmap(-1, (rows * ld + GUARD) * 4, flags=flags), np.float32)
    else:
        flat = np.full(rows * ld + GUARD, np.nan, np.float32)
    start = -(flat.ctypes.data // 4) % 16 + 16 + offset
    view = flat[start : start + rows * ld].reshape(rows, ld)
    view[:, :cols] = values
    return Matrix(flat, view, cols)


def report(library: Library) -> list[str]:
    """Everything that the emulator found since it was told what the matrices are."""
    text = ctypes.create_string_buffer(1 << 16)
    library.functions.emulator_report(text, ctypes.c_size_t(len(text)))
    return text.value.decode().splitlines()


def run(
    library: Library,
    case: Case,
    seed: int,
    data: int | None = None,
    time_limit_s: float = 30.0,
    precision: str = "fp32",
):
    """Runs the case on random data; gives C's bytes, the kinds of faults found, and the report."""
    shape = Shape(case.m, case.n, case.k)
    rng = np.random.default_rng([case.m, case.n, case.k, seed if data is None else data])
    gaps = case.gaps
    offsets = case.offset if isinstance(case.offset, tuple) else (case.offset,) * 3
    a, b = rng.standard_normal((case.m, case.k)), rng.standard_normal((case.k, case.n))
    if case.family:
        inputs = draw_inputs(case.family, shape, True, False, seed)
        a, b = inputs.A, inputs.B
    A = matrix(case.m, case.k, gaps[0], offsets[0], a)
    B = matrix(case.k, case.n, gaps[1], offsets[1], b)
    old = rng.standard_normal((case.m, case.n)) if case.beta != 0 else np.nan
    C = matrix(case.m, case.n, gaps[2], offsets[2], old)
    old = C.elements.astype(np.float64)
    outside = C.outside() if gaps[2] < HUGE else b""

    device = EmulatedDevice(threads=0, time_limit_s=time_limit_s)
    library.functions.emulator_set_sms(ctypes.c_int(1 if case.k > EMULATED_LONG else EMULATED_SMS))
    operands = Operands(A.address, A.ld, B.address, B.ld, C.address, C.ld)
    size = library.workspace_bytes(shape, case.alpha, case.beta, operands)
    workspace = device.put(np.full(size // 4 + 128, np.nan, np.float32))
    problem = device.compute(library, Call(shape, case.alpha, case.beta, operands, workspace, size), seed - 1)

    found = report(library) if problem else []
    kinds = {line.split(":")[0] for line in found}
    untouched = gaps[2] > HUGE or C.outside() == outside
    refused = problem and not found
    if refused or not untouched or not right(case, A.elements, B.elements, old, C.elements, precision):
        kinds.add("values")
    return C.elements.tobytes(), kinds, found


def right(case: Case, A, B, old, C, precision: str) -> bool:
    """Is C within the bounds of a sum of k products? NaN and infinity are where they belong, and only there.

    Operands in TF32 may have lost 2^-10 each before, as docs/checking.md says.
    """
    A, B, got = A.astype(np.float64), B.astype(np.float64), C.astype(np.float64)
    scaled = case.beta * old if case.beta != 0 else np.zeros_like(got)
    with np.errstate(invalid="ignore"):
        product = case.alpha * (A @ B) if case.alpha != 0 else np.zeros_like(got)
        magnitude = abs(case.alpha) * (np.abs(A) @ np.abs(B)) + np.abs(scaled)
    belongs = np.isfinite(product + scaled)
    if not np.array_equal(got[~belongs], (product + scaled)[~belongs], equal_nan=True):
        return False
    got, product, scaled = (np.where(belongs, x, 0) for x in (got, product, scaled))
    error = np.abs(got - (product + scaled))
    lost = 2.0**-9 + 2.0**-20 if precision == "tf32" else 0.0
    bound = componentwise_bound(case.k, BOUNDS[precision])
    norm = np.sqrt((product**2).sum() + (scaled**2).sum())
    componentwise = (error <= bound * magnitude)[belongs].all()
    normwise = np.sqrt((error**2).sum()) <= ((2 * np.sqrt(case.k) + 4) * UNIT + 4 * lost) * norm
    return bool(componentwise and normwise)


def compile_rung(source: Path, target: Path, macros: Mapping[str, str] | None = None) -> str:
    """Compile a source for the emulator as the pipeline does; g++'s first error in one line, or nothing."""
    return compile_for_emulator(source, dict(macros or {}), target, source.parent, compiled_engine())


@cache
def compiled_engine() -> Path:
    """The emulator's engine as the pipeline compiles it, with the headers beside it: once a process."""
    folder = Path(tempfile.mkdtemp(prefix="gemm-ladder-"))
    atexit.register(shutil.rmtree, folder)
    compile_engine(folder / "engine.o", folder / f"{HEADER.name}.gch")
    return folder / "engine.o"
