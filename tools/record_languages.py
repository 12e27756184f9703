"""What the compilers of CUDA C++, Triton and cuTile make of the same ideas: tests/data/languages.json."""

from __future__ import annotations

import ast
import io
import resource
import tempfile
import tokenize
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from ladder.build import sass
from ladder.build.compile import Build, build
from ladder.build.inspection import inspect
from ladder.build.languages.compile import why_no_compiler
from ladder.build.toolchain import Nvcc, find_nvcc
from ladder.config.cpp import tokens
from ladder.config.gpus import read_gpu
from ladder.config.plan import RESULTS, plan
from ladder.config.sources import WRAP, sources
from ladder.model.rung import Rung
from ladder.model.shape import Shape
from ladder.records import store
from ladder.records.digests import CURRENT, state_of
from ladder.records.timings import ShapeTiming, read_time_record
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT
from record_architectures import FLAGS

RECORD = ROOT / "tests/data/languages.json"
GPU_NAME, SHAPE = "h100-sxm", "4096"
IDEAS = {  # the rungs of each idea, by language; empty where a language has none
    "tiles in shared memory, FP32": ("async_copy", "triton_tiled", "cutile_tiled"),
    "FP32 accuracy from three TF32 products": ("mma_3xtf32", "triton_3xtf32", "cutile_3xtf32"),
    "the same, a block for each SM": ("", "triton_persistent", "cutile_persistent"),
    "one TF32 product": ("tf32", "triton_tf32", "cutile_tf32"),
}
LANGUAGES = ("CUDA C++", "Triton", "cuTile")
CONTRACT = ("gemm.cuh", "launch.cuh")  # which the pipeline writes for the other languages
# By opcode, the strongest first: what a kernel multiplies with, and how it loads what it multiplies.
MULTIPLIES = {"HGMMA": "HGMMA", "HMMA": "HMMA", "FFMA": "FFMA", "FMUL": "FMUL and FADD"}
COPIES = {"UTMALDG": "TMA (UTMALDG)", "LDGSTS": "cp.async (LDGSTS)", "LDG": "loads (LDG)"}


def all_rungs() -> dict[str, Rung]:
    """Our ladder and those of the other languages, with the parameters that are tuned for GPU_NAME."""
    asked = {"gpu": GPU_NAME, "measure": False}
    ladders = [
        plan({**asked, "ladder": f"kernels/{language}/kernels.yaml"}).ladder for language in ("triton", "cutile")
    ]
    return {name: rung for ladder in ladders for name, rung in ladder.items()}


def lines_of_code(rung: Rung) -> int:
    """The lines of a rung's own files that hold more than comments, without the contract's."""
    files = [path for path in sources(rung) if path.name not in CONTRACT and path.parent != WRAP]
    return sum(len(_lines_of_python(path) if path.suffix == ".py" else _lines_of_cpp(path)) for path in files)


def _lines_of_cpp(path: Path) -> set[int]:
    line, found = 1, set()
    for kind, text in tokens(path.read_text()):
        found |= {line} if kind not in ("space", "end", "nothing") else set()
        line += text.count("\n")
    return found


def _lines_of_python(path: Path) -> set[int]:
    text = path.read_text()
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.Module, ast.FunctionDef))]
    docstrings = [node.body[0] for node in nodes if ast.get_docstring(node) is not None]
    told = {line for node in docstrings for line in range(node.lineno, node.end_lineno + 1)}
    empty = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    read = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.start[0] for token in read if token.type not in empty} - told


def compiled_by_language(rung: Rung, nvcc: Nvcc) -> dict[str, Any]:
    """What a rung's compiler makes of its largest kernel; raises LadderError where it does not compile.

    Keys: source_digest, compiler, parameters (of that kernel, tuned, or empty where none are), lines, cpu_s (seconds of
    all processors, for every image and the host code), registers and stack_bytes (a thread), threads and shared_bytes
    (a block), instructions, and multiplies and copies: how often each opcode of MULTIPLIES and COPIES stands in the
    kernel.
    """
    gpu = read_gpu(GPU_NAME)
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as folder:
        before = _cpu_s()
        record = build(rung, gpu.target, nvcc, FLAGS, Path(folder))
        took = _cpu_s() - before
        if record["status"] != "ok":
            raise LadderError(f"{rung.name}: {record['status']}: {record['message']}")
        found = inspect(Build(Path(folder)), [SHAPE], gpu, Path(folder) / "log", nvcc)
        launches = found["launches"][SHAPE]
        bodies = sass.disassemble(Path(folder) / "library.so", {each["symbol"] for each in launches}, nvcc)
    counts = {name: Counter(sass.opcode(each.text).split(".")[0] for each in body) for name, body in bodies.items()}
    launch = max(launches, key=lambda each: [counts[each["symbol"]][name] for name in MULTIPLIES])
    kernel = next(each for each in found["kernels"] if each["symbol"] == launch["symbol"])
    count = counts[launch["symbol"]]
    return {
        **{"source_digest": record["source_digest"], "compiler": record["compiler"]},
        "parameters": rung.macros_at(Shape.parse(SHAPE)) if rung.tuned else {},
        "lines": lines_of_code(rung),
        **{"cpu_s": round(took, 1), "threads": launch["block"][0] * launch["block"][1] * launch["block"][2]},
        **{"registers": kernel["registers"], "stack_bytes": kernel["stack_bytes"]},
        "shared_bytes": kernel["static_shared_bytes"] + launch["dynamic_shared_bytes"],
        "instructions": sum(count.values()),
        "multiplies": {name: count[name] for name in MULTIPLIES if count[name]},
        "copies": {name: count[name] for name in COPIES if count[name]},
    }


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def record_languages() -> None:
    """Compile each idea in each language whose compiler is installed: tests/data/languages.json."""
    nvcc, rungs = find_nvcc(), all_rungs()
    names = [name for idea in IDEAS.values() for name in idea if name]
    for language in ("triton", "cutile"):
        if why := why_no_compiler(language):
            raise LadderError(f"{language}: {why}")
    builds = {name: compiled_by_language(rungs[name], nvcc) for name in names}
    store.write_json(RECORD, {"gpu": GPU_NAME, "shape": SHAPE, "flags": FLAGS, "builds": builds})


def languages() -> str:
    """The tables of docs/languages.md: a table for each idea, with a column for each language."""
    record = store.read_json(RECORD)
    lines, gpus = [], measured_gpus() or [record["gpu"]]
    for idea, names in IDEAS.items():
        builds = [record["builds"].get(name, {}) for name in names]
        rows = {
            "rung": lambda build, name: f"`{name}`",
            "compiler": lambda build, name: build["compiler"],
            f"tuned for {SHAPE}": lambda build, name: told(build["parameters"]),
            "lines of code": lambda build, name: build["lines"],
            "compiled in, s of CPU": lambda build, name: build["cpu_s"],
            "threads a block": lambda build, name: build["threads"],
            "registers a thread": lambda build, name: build["registers"],
            "stack, byte a thread": lambda build, name: build["stack_bytes"],
            "shared memory a block, KiB": lambda build, name: f"{build['shared_bytes'] / 1024:.1f}",
            "instructions": lambda build, name: build["instructions"],
            "multiplies by": lambda build, name: _first(build["multiplies"], MULTIPLIES),
            "copies by": lambda build, name: _first(build["copies"], COPIES),
        }
        for gpu in gpus:
            rows |= measured_rows(gpu, Shape.parse(record["shape"]))
        lines += [f"### {idea[0].upper()}{idea[1:]}", "", f"| | {' | '.join(LANGUAGES)} |", "| --- |" + " --- |" * 3]
        for row, of in rows.items():
            cells = [str(of(build, name)) if name else "" for build, name in zip(builds, names, strict=True)]
            lines.append(f"| {row} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines).rstrip()


def told(parameters: Mapping[str, str]) -> str:
    """Parameters in a cell of a table."""
    return ", ".join(f"{name} {value}" for name, value in parameters.items()) or "no, its defaults"


def _first(counts: Mapping[str, int], titles: Mapping[str, str]) -> str:
    return next((title for name, title in titles.items() if counts.get(name)), "none")


def measured_gpus(results: Path = RESULTS) -> list[str]:
    """The GPUs on which a rung in another language than CUDA C++ was timed."""
    others = {name for _, *names in IDEAS.values() for name in names}
    return sorted({path.parts[-4] for path in results.glob("*/raw/time/*.zip") if path.stem in others})


def measured_rows(
    gpu: str, shape: Shape, results: Path = RESULTS
) -> dict[str, Callable[[Mapping[str, Any], str], str]]:
    """The rows of what was measured on a GPU: the time at a shape, the share of cuBLAS beside it, and the error."""
    raw, short = results / gpu / "raw", gpu.partition("-")[0].upper()

    def timed(name: str) -> ShapeTiming | None:
        path = raw / f"time/{name}.zip"
        return read_time_record(path).get(shape) if path.exists() else None

    def medians(name: str) -> dict[str, float]:
        timing = timed(name)
        return {each: median(one.times_s) for each, one in timing.measurements.items()} if timing else {}

    def of_which(build: Mapping[str, Any], where: Mapping[str, Any], failed: bool = False) -> str:
        """What is to be said of a record that was made there, of this build or an earlier one."""
        earlier = state_of(where["compile"]["source_digest"], build["source_digest"]) != CURRENT
        words = [", of an earlier source"] * earlier + [" that failed its check" if earlier else ", failed"] * failed
        return "".join(words)

    def time(build: Mapping[str, Any], name: str) -> str:
        timing = timed(name)
        return f"{1000 * medians(name)[name]:.3f} ms{of_which(build, timing.where)}" if timing else "not recorded yet"

    def share(_: Mapping[str, Any], name: str) -> str:
        found = medians(name)
        libraries = [time_s for each, time_s in found.items() if each in ("cublas", "cublas_best", "cublas_tf32")]
        return f"{100 * min(libraries) / found[name]:.0f} %" if libraries else "not recorded yet"

    def error(build: Mapping[str, Any], name: str) -> str:
        path = raw / f"check/{name}.json"
        record = store.read_record(path) if path.exists() else {"cases": []}
        plain = [case for case in record["cases"] if (case["family"], case["alpha"], case["beta"]) == ("normal", 1, 0)]
        of_normal = [case.get("error_normwise") for case in plain]
        errors = [each for each in of_normal if each is not None]  # none where a sum may overflow
        if not errors:
            return "not recorded yet"
        return f"{max(errors):.1e}{of_which(build, record['where'], record['status'] != 'pass')}"

    return {
        f"time at {shape} on an {short}": time,
        f"of the fastest cuBLAS of its class, {short}": share,
        f"largest relative error on an {short}": error,
    }


COMMANDS = {"compile": record_languages}
