"""The corpus of faults, the rungs that the emulator can run, and the cases that both are run on in it."""

import atexit
import ctypes
import mmap
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from ladder.measure.devices import EMULATED_SMS, EMULATED_STREAM
from ladder.measure.inputs import draw_inputs
from ladder.model.cases import EMULATED_LONG
from ladder.model.shape import Shape

ROOT = Path(__file__).resolve().parents[1]
FAULTS = sorted(p for p in (ROOT / "tests/faults").glob("*.cu") if not p.stem.startswith("control_"))
CONTROLS = sorted((ROOT / "tests/faults").glob("control_*.cu"))
UNIT = 2.0**-24
HUGE = 2**20  # a gap that is only mapped, never filled

# What a CPU cannot run: libraries, and what only inline PTX or a driver call reaches.
NOT_EMULATED = re.compile(
    r"#include <(cublas|cuda\.h|cuda/|cuda_fp16|cuda_bf16|mma)|\basm\s*(volatile\s*)?\(|\bdlopen\("
)


def for_the_emulator(path: Path) -> str:
    """A source without what only nvcc reads."""
    return re.sub(r"#ifdef __CUDACC__.*?#(else|endif)", "", path.read_text(), flags=re.DOTALL)


def emulated(rung: Path) -> bool:
    sources = [rung]
    for source in sources:
        helpers = re.findall(r'#include "(\w+\.cuh)"', source.read_text())
        ours = [name for name in helpers if not (ROOT / "kernels/emulator" / name).exists()]  # it has its own of these
        sources += [path for name in ours if (path := ROOT / "kernels/include" / name) not in sources]
    return not any(NOT_EMULATED.search(for_the_emulator(source)) for source in sources)


RUNGS = sorted(filter(emulated, (ROOT / "kernels/sgemm").glob("*.cu")))


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


class Library:
    """A rung compiled for the emulator."""

    def __init__(self, path: Path):
        p, i, n, f = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_float
        self.lib = ctypes.CDLL(str(path))
        self.lib.sgemm.argtypes = [i, i, i, f, p, n, p, n, f, p, n, p, p, p]
        self.lib.emulator_reset.argtypes = [ctypes.c_uint64]
        self.lib.emulator_set_stream.argtypes = [p]
        self.lib.emulator_register_buffer.argtypes = [ctypes.c_char_p, p, n, n, n, ctypes.c_char_p]
        self.lib.emulator_report.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        self.lib.emulator_set_timeout.argtypes = [ctypes.c_double]
        self.lib.emulator_set_timeout(30.0)

    def report(self) -> list[str]:
        text = ctypes.create_string_buffer(1 << 16)
        self.lib.emulator_report(text, len(text))
        return text.value.decode().splitlines()


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
        flat = np.frombuffer(mmap.mmap(-1, (rows * ld + 128) * 4, flags=flags), np.float32)
    else:
        flat = np.full(rows * ld + 128, np.nan, np.float32)
    start = -(flat.ctypes.data // 4) % 16 + 16 + offset
    view = flat[start : start + rows * ld].reshape(rows, ld)
    view[:, :cols] = values
    return Matrix(flat, view, cols)


def run(library: Library, case: Case, seed: int, data: int | None = None):
    """Runs the case on random data; gives C's bytes, the kinds of faults found, and the report."""
    rng = np.random.default_rng([case.m, case.n, case.k, seed if data is None else data])
    gaps = case.gaps
    offsets = case.offset if isinstance(case.offset, tuple) else (case.offset,) * 3
    a, b = rng.standard_normal((case.m, case.k)), rng.standard_normal((case.k, case.n))
    if case.family:
        inputs = draw_inputs(case.family, Shape(case.m, case.n, case.k), True, False, seed)
        a, b = inputs.A, inputs.B
    A = matrix(case.m, case.k, gaps[0], offsets[0], a)
    B = matrix(case.k, case.n, gaps[1], offsets[1], b)
    old = rng.standard_normal((case.m, case.n)) if case.beta != 0 else np.nan
    C = matrix(case.m, case.n, gaps[2], offsets[2], old)
    old = C.elements.astype(np.float64)
    outside = C.outside() if gaps[2] < HUGE else b""

    lib = library.lib
    lib.emulator_set_stream(EMULATED_STREAM)
    lib.emulator_reset(seed)
    lib.emulator_set_sms(1 if case.k > EMULATED_LONG else EMULATED_SMS)
    inputs = b"r" if case.k > 0 and case.alpha != 0 else b""
    output = b"w" if case.beta == 0 else b"rw"
    for name, x, access in ((b"A", A, inputs), (b"B", B, inputs), (b"C", C, output)):
        lib.emulator_register_buffer(name, x.view.ctypes.data, len(x.view), x.cols, x.ld, access)
    arguments = [case.m, case.n, case.k, case.alpha, A.view.ctypes.data, A.ld, B.view.ctypes.data, B.ld]
    arguments += [case.beta, C.view.ctypes.data, C.ld]
    size = ctypes.c_size_t()
    status = lib.sgemm(*arguments, None, ctypes.byref(size), None)
    workspace = np.full(size.value // 4 + 128, np.nan, np.float32)
    start = workspace.ctypes.data + -workspace.ctypes.data % 256
    lib.emulator_register_buffer(b"workspace", start, 1, size.value // 4, max(1, size.value // 4), b"w")
    status = status or lib.sgemm(*arguments, start, None, EMULATED_STREAM)

    report = library.report()
    kinds = {line.split(":")[0] for line in report}
    untouched = gaps[2] > HUGE or C.outside() == outside
    if status != 0 or not untouched or not right(case, A.elements, B.elements, old, C.elements):
        kinds.add("values")
    return C.elements.tobytes(), kinds, report


def right(case: Case, A, B, old, C) -> bool:
    """Is C within the bounds of a sum of k products in FP32? NaN and infinity are where they belong, and only there."""
    A, B, got = A.astype(np.float64), B.astype(np.float64), C.astype(np.float64)
    with np.errstate(invalid="ignore"):
        product = case.alpha * (A @ B) if case.alpha != 0 else np.zeros_like(got)
    scaled = case.beta * old if case.beta != 0 else np.zeros_like(got)
    belongs = np.isfinite(product + scaled)
    if not np.array_equal(got[~belongs], (product + scaled)[~belongs], equal_nan=True):
        return False
    got, product, scaled = (np.where(belongs, x, 0) for x in (got, product, scaled))
    error = np.abs(got - (product + scaled))
    gamma = (case.k + 3) * UNIT / (1 - (case.k + 3) * UNIT)
    magnitude = abs(case.alpha) * (np.abs(A) @ np.abs(B)) + np.abs(scaled)
    norm = np.sqrt((product**2).sum() + (scaled**2).sum())
    componentwise = (error <= gamma * magnitude)[belongs].all()
    normwise = np.sqrt((error**2).sum()) <= (2 * np.sqrt(case.k) + 4) * UNIT * norm
    return bool(componentwise and normwise)


def compile_rung(source: Path, target: Path, *extra: str) -> subprocess.CompletedProcess:
    engine = ["kernels/emulator/emulator.cpp"] if "-DEMULATOR_UCONTEXT" in extra else ["-x", "none", compiled_engine()]
    return _compile(*extra, "-o", str(target), str(source), *engine, "-lstdc++", "-lm", "-lc", "-lgcc")


@cache
def compiled_engine() -> str:
    """The emulator's engine as the pipeline compiles it, once for all that this process tests."""
    folder = Path(tempfile.mkdtemp(prefix="gemm-ladder-"))
    atexit.register(shutil.rmtree, folder)
    _compile("-O3", "-c", "-o", str(folder / "engine.o"), "kernels/emulator/emulator.cpp").check_returncode()
    return str(folder / "engine.o")


def _compile(*arguments: str) -> subprocess.CompletedProcess:
    flags = ["@kernels/emulator/flags.txt", "-I", "kernels/emulator", "-I", "kernels/include"]
    return subprocess.run(["g++", *flags, *arguments], cwd=ROOT, capture_output=True, text=True)


def header(source: Path, key: str) -> str:
    """A line of a fault's first comment, such as `Caught by`; empty where there is none."""
    found = re.search(rf"^// {key}: (.*)\.$", source.read_text(), re.M)
    return found.group(1) if found else ""


CASES = {
    "": SMALL,
    "one": [Case(1, 1, 1)],
    "tall": [Case(16 * 65535 + 1, 1, 1)],
    "nonfinite": [Case(20, 24, 20, family="nonfinite")],
    "offsets": [Case(20, 24, 20, offset=(0, 1, 0))],
    "huge_lda": [Case(3, 2, 2, gaps=(2**30, 0, 0))],
    "huge_ldc": [Case(3, 2, 2, gaps=(0, 0, 2**31))],
}


def expected(source: Path) -> set[str]:
    """The kinds of finding that a fault says it is caught by."""
    return {kind.strip() for kind in header(source, "Caught by").split(",") if kind.strip()}


def emulate(library: Library, source: Path) -> tuple[set[str], list[str]]:
    """Run a fault or a control over the cases that it asks for; the kinds found and the lines of the reports."""
    if "timeout" in expected(source):
        library.lib.emulator_set_timeout(0.5)
    found, lines = set(), []
    for case in CASES[header(source, "Case")]:
        for seed in (1, 2):
            _, kinds, report = run(library, case, seed)
            found |= kinds
            lines += report
    if not found:
        results = {run(library, Case(20, 20, 200), seed, data=0)[0] for seed in range(8)}
        found |= {"nondeterminism"} if len(results) > 1 else set()
    return found, lines
