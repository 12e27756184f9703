"""The emulator passes what is right, over awkward shapes and seeds, and finds every fault of the corpus."""

import ctypes
import mmap
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest

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
    helpers = re.findall(r'#include "(\w+\.cuh)"', rung.read_text())
    sources = [rung, *(ROOT / "kernels/include" / helper for helper in helpers)]
    return not any(NOT_EMULATED.search(for_the_emulator(source)) for source in sources)


RUNGS = sorted(filter(emulated, (ROOT / "kernels/sgemm").glob("*.cu")))


@dataclass(frozen=True)
class Case:
    """A product; gaps are the columns between a row's end and its leading dimension, offset is in floats."""

    m: int
    n: int
    k: int
    alpha: float = 1.0
    beta: float = 0.0
    gaps: tuple[int, int, int] = (0, 0, 0)
    offset: int = 0

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
]
AWKWARD = [
    *SMALL,
    Case(0, 5, 5, 1.0, 1.0),
    Case(5, 0, 5, 1.0, 1.0),
    Case(6, 7, 0, 1.0, 0.5),
    Case(6, 7, 0, 1.0, 0.0),
    Case(6, 7, 8, 0.0, 0.5),
    Case(6, 7, 8, 0.0, 0.0),
    Case(128, 128, 16),
    Case(129, 127, 33, 1.0, 1.0, (7, 9, 11), 2),
    Case(1, 257, 63, 3.0, 0.0),
    Case(257, 1, 65, 3.0, 1.0),
    Case(96, 160, 131, 1.0, 0.0, (1, 0, 3)),
]


class Library:
    """A rung compiled for the emulator."""

    def __init__(self, path: Path):
        p, i, n, f = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_float
        self.lib = ctypes.CDLL(str(path))
        self.lib.sgemm.argtypes = [i, i, i, f, p, n, p, n, f, p, n, p, p, p]
        self.lib.emulator_reset.argtypes = [ctypes.c_uint64]
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
    A = matrix(case.m, case.k, gaps[0], case.offset, rng.standard_normal((case.m, case.k)))
    B = matrix(case.k, case.n, gaps[1], case.offset, rng.standard_normal((case.k, case.n)))
    old = rng.standard_normal((case.m, case.n)) if case.beta != 0 else np.nan
    C = matrix(case.m, case.n, gaps[2], case.offset, old)
    old = C.elements.astype(np.float64)
    outside = C.outside() if gaps[2] < HUGE else b""

    lib = library.lib
    lib.emulator_reset(seed)
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
    status = status or lib.sgemm(*arguments, start, None, None)

    report = library.report()
    kinds = {line.split(":")[0] for line in report}
    untouched = gaps[2] > HUGE or C.outside() == outside
    if status != 0 or not untouched or not right(case, A.elements, B.elements, old, C.elements):
        kinds.add("values")
    return C.elements.tobytes(), kinds, report


def right(case: Case, A, B, old, C) -> bool:
    """Is C within the bounds of a sum of k products in FP32? NaN is not."""
    A, B, got = A.astype(np.float64), B.astype(np.float64), C.astype(np.float64)
    product = case.alpha * (A @ B) if case.alpha != 0 else np.zeros_like(got)
    scaled = case.beta * old if case.beta != 0 else np.zeros_like(got)
    error = np.abs(got - (product + scaled))
    gamma = (case.k + 3) * UNIT / (1 - (case.k + 3) * UNIT)
    magnitude = abs(case.alpha) * (np.abs(A) @ np.abs(B)) + np.abs(scaled)
    norm = np.sqrt((product**2).sum() + (scaled**2).sum())
    componentwise = (error <= gamma * magnitude).all()
    normwise = np.sqrt((error**2).sum()) <= (2 * np.sqrt(case.k) + 4) * UNIT * norm
    return bool(componentwise and normwise)


def compile_rung(source: Path, target: Path, *extra: str) -> subprocess.CompletedProcess:
    command = ["g++", "@kernels/emulator/flags.txt", *extra, "-I", "kernels/emulator", "-I", "kernels/include"]
    command += ["-o", str(target), str(source), "-lstdc++", "-lm", "-lc"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.fixture(scope="session")
def libraries(tmp_path_factory, request):
    """Every source that a selected test needs, compiled in parallel: path -> Library or the compiler's message."""
    folder = tmp_path_factory.mktemp("emulated")
    sources = {
        item.callspec.params["source"]
        for item in request.session.items
        if "libraries" in item.fixturenames and hasattr(item, "callspec")
    }

    def build(source):
        target = folder / f"{source.stem}.so"
        result = compile_rung(source, target)
        return source, Library(target) if result.returncode == 0 else result.stderr

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return dict(pool.map(build, sorted(sources)))


def library_of(libraries, source) -> Library:
    library = libraries[source]
    assert isinstance(library, Library), library
    return library


@pytest.mark.parametrize("source", RUNGS + CONTROLS, ids=lambda p: p.stem)
def test_a_sound_kernel_has_no_finding_and_one_result(libraries, source):
    library = library_of(libraries, source)
    for case in AWKWARD:
        results = set()
        for seed in (1, 2, 3) if case in SMALL else (4,):
            result, kinds, report = run(library, case, seed, data=0)
            assert not kinds, f"{case} seed {seed}: {kinds} " + "\n".join(report)
            results.add(result)
        assert len(results) == 1, f"{case}: the order of threads and blocks changes the result"


def header(source: Path, key: str) -> str:
    found = re.search(rf"^// {key}: (.*)\.$", source.read_text(), re.M)
    return found.group(1) if found else ""


@pytest.mark.parametrize("source", FAULTS, ids=lambda p: p.stem)
def test_a_fault_is_caught(libraries, source):
    library = library_of(libraries, source)
    expected = {kind.strip() for kind in header(source, "Caught by").split(",")}
    special = {
        "": SMALL,
        "one": [Case(1, 1, 1)],
        "tall": [Case(16 * 65535 + 1, 1, 1)],
        "huge_lda": [Case(3, 2, 2, gaps=(2**30, 0, 0))],
        "huge_ldc": [Case(3, 2, 2, gaps=(0, 0, 2**31))],
    }
    if "timeout" in expected:
        library.lib.emulator_set_timeout(0.5)
    found, lines = set(), []
    for case in special[header(source, "Case")]:
        for seed in (1, 2):
            _, kinds, report = run(library, case, seed)
            found |= kinds
            lines += report
    if "nondeterminism" in expected:
        results = {run(library, Case(20, 20, 200), seed, data=0)[0] for seed in range(8)}
        found |= {"nondeterminism"} if len(results) > 1 else set()
    assert expected <= found, f"found {found}\n" + "\n".join(lines)


@pytest.mark.parametrize("source", [ROOT / "tests/faults/missing_first_barrier.cu"], ids=lambda p: p.stem)
def test_a_finding_names_kernel_block_thread_array_and_both_lines(libraries, source):
    _, _, report = run(library_of(libraries, source), Case(16, 16, 16), 1)
    line = r"missing_first_barrier\.cu:\d+"
    thread = r"block \(0,0,0\) thread \(\d+,\d+,0\)"
    pattern = rf"race: sgemm_kernel {thread} (reads|writes) tile_[AB] \+ \d+ bytes, .*{line}(; the other: {line})?"
    assert any(re.fullmatch(pattern, text) for text in report), report


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('__global__ void k() { asm volatile("bar.sync 0;"); }', "inline_PTX_cannot_be_emulated"),
        ("#include <mma.h>", "mma.h"),
        ("__global__ void k() { extern __shared__ float dynamic[]; dynamic[0] = 0; }", "dynamic"),
    ],
    ids=["inline PTX", "tensor cores", "extern shared array"],
)
def test_what_cannot_be_emulated_does_not_compile(tmp_path, text, message):
    source = tmp_path / "rung.cu"
    source.write_text('#include "gemm.cuh"\n' + text)
    result = compile_rung(source, tmp_path / "rung.so")
    assert result.returncode != 0
    assert message in result.stderr


def test_a_rung_sees_the_number_of_sms_that_the_host_sets(tmp_path):
    source = tmp_path / "rung.cu"
    source.write_text(
        '#include "gemm.cuh"\ncudaError_t run(const Gemm&, void*, cudaStream_t) {\n'
        "  int sms = 0;\n  sm_count(&sms);\n  return static_cast<cudaError_t>(sms);\n}\nEXPORT_SGEMM(run)\n"
    )
    assert compile_rung(source, tmp_path / "rung.so").returncode == 0
    library = Library(tmp_path / "rung.so")
    library.lib.emulator_set_sms(132)
    assert library.lib.sgemm(1, 1, 1, 1.0, None, 1, None, 1, 0.0, None, 1, None, None, None) == 132


def test_fibers_work_without_assembly(tmp_path):
    target = tmp_path / "tiled.so"
    result = compile_rung(ROOT / "kernels/sgemm/tiled.cu", target, "-DEMULATOR_UCONTEXT")
    assert result.returncode == 0, result.stderr
    for case in SMALL:
        assert not run(Library(target), case, 1)[1]
