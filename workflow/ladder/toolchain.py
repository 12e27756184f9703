"""NVIDIA's tools: where they are, how a rung is compiled, and what the compiler says of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ladder.config import ROOT, Rung
from ladder.errors import LadderError
from ladder.gpu import Gpu
from ladder.records import digest_files

INCLUDE = ROOT / "kernels" / "include"
GLIBC = Path(__file__).with_name("glibc")  # what nvcc cannot read of a newer glibc than it knows, as it can
BY_SIZE = "by_size.cu"  # the generated source of a rung that is tuned for several classes of size
# Where a CUDA toolkit stands that is not on the PATH.
TOOLKITS = ("/usr/local/cuda/bin",)


@dataclass(frozen=True)
class Nvcc:
    """One nvcc: its path, its version and what it needs beside a toolkit's own layout."""

    path: Path
    version: str
    library_flags: tuple[str, ...]


def wheel_folders() -> list[Path]:
    """The folders of this environment in which NVIDIA's compiler wheels put their programs, CUDA 13's before 12's."""
    site = Path(sysconfig.get_path("purelib")) / "nvidia"
    return [folder for folder in (site / "cu13" / "bin", *sorted(site.glob("cuda_*/bin"))) if folder.is_dir()]


def find_tool(name: str, configured: str = "auto") -> Path | None:
    """The configured tool, else the environment's own, else the first on the PATH, else a toolkit's; None if none."""
    if configured != "auto":
        found = shutil.which(configured)
        if found is None:
            section = {"nvcc": "compile", "ncu": "profile", "compute-sanitizer": "sanitize"}.get(name, name)
            problem = f"{configured!r} is no program; give the path of {name}, or auto"
            raise LadderError(f"config/config.yaml: {section}.{name.replace('-', '_')}: {problem}")
        return Path(found)
    folders = [*map(str, wheel_folders()), *os.environ.get("PATH", "").split(os.pathsep), *TOOLKITS]
    found = shutil.which(name, path=os.pathsep.join(folders))
    return Path(found) if found else None


def require_tool(name: str, configured: str = "auto") -> Path:
    """`find_tool`; raises LadderError where there is none."""
    tool = find_tool(name, configured)
    if tool is None:
        raise LadderError(
            f"{name}: not found; `make env` installs CUDA 13's, and a toolkit has CUDA 12's (docs/cuda12.md): put it "
            "on the PATH, or set config/config.yaml: compile.nvcc"
        )
    return tool


def tool_beside(nvcc: Nvcc | None, name: str) -> Path:
    """A tool of the toolkit that nvcc is of, for another's may not know the architecture; else `require_tool`."""
    own = nvcc.path.resolve().parent / name if nvcc else None
    return own if own and own.is_file() else require_tool(name)


@cache
def find_nvcc(configured: str = "auto") -> Nvcc:
    """The nvcc to use; raises LadderError where there is none or it does not run."""
    path = require_tool("nvcc", configured)
    try:
        result = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise LadderError(f"{path}: cannot be run ({error.strerror}); set compile.nvcc to an nvcc, or auto") from None
    version = re.search(r"V(\d+\.\d+\.\d+)", result.stdout)
    if result.returncode or version is None:
        raise LadderError(f"{path}: does not answer --version; give another nvcc in config/config.yaml: compile.nvcc")
    wheel = Path(sysconfig.get_path("purelib")) / "nvidia"
    libraries = [path.parent.parent / "lib", *sorted(wheel.glob("cuda_*/lib"))]
    headers = sorted(wheel.glob("cuda_*/include"))
    inside = path.is_relative_to(wheel)
    flags = [f"-L{folder}" for folder in libraries if folder.is_dir()] + [f"-I{folder}" for folder in headers]
    return Nvcc(path, version[1], tuple(flags) if inside else ())


def supported_architectures(nvcc: Nvcc) -> set[str]:
    """The real architectures that this nvcc compiles for, such as sm_90."""
    listed = subprocess.run([nvcc.path, "--list-gpu-code"], capture_output=True, text=True, check=True).stdout
    return set(listed.split())


def require_architecture(nvcc: Nvcc, gpu: Gpu) -> None:
    """Raise LadderError, with the environment to use instead, where nvcc cannot compile for the GPU."""
    if gpu.architecture.rstrip("af") in supported_architectures(nvcc):
        return
    other = "" if nvcc.version.startswith(f"{gpu.cuda}.") else gpu.cuda
    remedy = {
        "12": "use CUDA 12: make env ENV=cuda12 (envs/cuda12.txt), with a toolkit's nvcc (docs/cuda12.md)",
        "13": "use CUDA 13: make env ENV=requirements (envs/requirements.txt)",
    }.get(other, "set compile.nvcc to a newer nvcc")
    raise LadderError(
        f"{gpu.file}: architecture: nvcc {nvcc.version} does not compile for {gpu.architecture}; {remedy}"
    )


def sources(rung: Rung) -> list[Path]:
    """The files that a rung is made of: its source, and the shared headers that it includes, directly or not."""
    found = [ROOT / "kernels" / rung.source]
    for file in found:
        for name in _INCLUDED.findall(file.read_text()):
            header = next((path for path in (file.parent / name, INCLUDE / name) if path.is_file()), None)
            if header is not None and header not in found:
                found.append(header)
    return found[:1] + sorted(found[1:], key=lambda header: header.name)


_INCLUDED = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)


def source_digest(rung: Rung) -> str:
    """What identifies a rung's code: its source, its headers, its macros and the choices of its tuning."""
    macros = [f"{key}={value}" for key, value in rung.macros.items()]
    if len(rung.tuned) == 1:  # the same code as the variant with these macros
        macros += [f"{key}={value}" for key, value in rung.tuned[0].macros.items()]
    elif rung.tuned:
        macros.append(by_size(rung))
    return digest_files(sources(rung), *macros)


def by_size(rung: Rung) -> str:
    """The source of a rung that is tuned for several classes of size: the rung once for each, and the choice.

    Each copy stands in a namespace of its own, behind the headers, which all of them share, and exports its function
    under a name of its own.
    """
    source = ROOT / "kernels" / rung.source
    text = source.read_text()
    lines = ["// Made by the pipeline: the rung as it was tuned for each class of size.", *_INCLUDES.findall(text)]
    for index, each in enumerate(rung.tuned):
        lines += ["", f"namespace class_{index} {{", f"#define sgemm sgemm_{index}"]
        lines += [f"#define {key} {value}" for key, value in (dict(rung.macros) | dict(each.macros)).items()]
        lines += [f'#include "{source.name}"', "#undef sgemm"]
        lines += [f"#undef {name}" for name in dict.fromkeys([*_DEFINED.findall(text), *rung.macros, *each.macros])]
        lines += [f"}}  // namespace class_{index}"]
    lines += ["", 'extern "C" int sgemm(int m, int n, int k, float alpha, const float* A, int64_t lda, const float* B,']
    lines += ["                     int64_t ldb, float beta, float* C, int64_t ldc, void* workspace,"]
    lines += ["                     size_t* workspace_bytes, cudaStream_t stream) {"]
    lines += ["  double flop = 2.0 * m * n * k;"]
    call = "(m, n, k, alpha, A, lda, B, ldb, beta, C, ldc, workspace, workspace_bytes, stream)"
    for index, each in enumerate(rung.tuned[:-1]):
        lines += [f"  if (flop < {each.below_flop:.17g}) {{", f"    return class_{index}::sgemm_{index}{call};", "  }"]
    last = len(rung.tuned) - 1
    return "\n".join([*lines, f"  return class_{last}::sgemm_{last}{call};", "}", ""])


_INCLUDES = re.compile(r"^\s*#\s*include.*$", re.MULTILINE)
_DEFINED = re.compile(r"^\s*#\s*define\s+(\w+)", re.MULTILINE)


def build_digest(rung: Rung, gpu: Gpu, nvcc: Nvcc, flags: list[str]) -> str:
    """What identifies a build: the rung's code and all that makes a library of it."""
    return digest_files([], source_digest(rung), nvcc.version, gpu.architecture, *flags)


def compile_command(rung: Rung, gpu: Gpu, nvcc: Nvcc, flags: list[str], output: Path) -> list[str]:
    """The nvcc command line that makes a rung's library; for several classes of size from `by_size.cu` beside it."""
    virtual = gpu.architecture.replace("sm_", "compute_")
    classes = len(rung.tuned) > 1
    macros = {} if classes else dict(rung.macros) | (dict(rung.tuned[0].macros) if rung.tuned else {})
    source = Path("kernels") / rung.source
    return [
        str(nvcc.path),
        *flags,
        f"-gencode=arch={virtual},code={gpu.architecture}",
        "-Xptxas=-v",
        "-shared",
        "--no-device-link",  # no kernel calls into another file
        "-Xcompiler=-fPIC",
        "-allow-unsupported-compiler",  # of a g++ that is newer than itself
        f"-I{GLIBC}",
        f"-I{INCLUDE.relative_to(ROOT)}",
        *nvcc.library_flags,
        *([f"-I{source.parent}"] if classes else []),
        *(f"-D{key}={value}" for key, value in macros.items()),
        "-o",
        str(output),
        str(output.parent / BY_SIZE if classes else source),
        "-ldl",
    ]


def compile_rung(rung: Rung, gpu: Gpu, nvcc: Nvcc, flags: list[str], library: Path) -> dict[str, Any]:
    """Compile a rung; returns its compile record, whose `status` is `ok` or `failed` with the compiler's message.

    Keys: status, message, nvcc, flags, architecture, source_digest, build_digest (of the code and all that made it),
    log (the compiler's output with the resource report). Raises LadderError where nvcc fails whatever the source: no
    record is left of that, so that the next run compiles again.
    """
    if len(rung.tuned) > 1:
        (library.parent / BY_SIZE).write_text(by_size(rung))
    command = compile_command(rung, gpu, nvcc, flags, library)
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as folder:
        kept = ["--keep", f"--keep-dir={folder}"]
        result = subprocess.run([*command, *kept], capture_output=True, text=True, check=False, cwd=ROOT)
        for ptx in sorted(Path(folder).glob("*.ptx")):
            shutil.copyfile(ptx, library.with_name("kernels.ptx"))
    log = (result.stdout + result.stderr).replace(str(ROOT) + "/", "")
    if fatal := re.search(r"^nvcc fatal\s*: (.*)", log, re.MULTILINE):
        raise LadderError(
            f"{nvcc.path}: {fatal[1].rstrip('.')}; install g++, or mend config/config.yaml: compile.flags"
        )
    record = {
        "status": "ok" if result.returncode == 0 else "failed",
        "message": "" if result.returncode == 0 else first_error(log),
        "nvcc": nvcc.version,
        "flags": [*flags, f"-gencode=arch={gpu.architecture.replace('sm_', 'compute_')},code={gpu.architecture}"],
        "architecture": gpu.architecture,
        "source_digest": source_digest(rung),
        "build_digest": build_digest(rung, gpu, nvcc, flags),
        "log": log,
    }
    return record


def first_error(log: str) -> str:
    """The line of a compiler's output that says what is wrong and where."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if re.search(r"\berror\b", line, re.IGNORECASE)), lines[-1] if lines else "")


_FUNCTION = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
_USED = re.compile(r"Used (\d+) registers")
_STATIC = re.compile(r"(\d+) bytes smem")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


def resource_report(log: str) -> dict[str, dict[str, int]]:
    """What `ptxas -v` says of each kernel, by its mangled name.

    Keys: registers (a thread), static_shared_bytes (a block), stack_bytes, spill_store_bytes and spill_load_bytes
    (a thread).
    """
    report: dict[str, dict[str, int]] = {}
    current: dict[str, int] = {}
    for line in log.splitlines():
        if match := _FUNCTION.search(line):
            current = report.setdefault(match[1], {})
        elif match := _STACK.search(line):
            current |= {
                "stack_bytes": int(match[1]),
                "spill_store_bytes": int(match[2]),
                "spill_load_bytes": int(match[3]),
            }
        elif match := _USED.search(line):
            shared = _STATIC.search(line)
            current |= {"registers": int(match[1]), "static_shared_bytes": int(shared[1]) if shared else 0}
    return report


def demangled(symbols: list[str]) -> Mapping[str, str]:
    """The C++ names of mangled symbols, through binutils' c++filt; a symbol is its own name where there is none."""
    filter_program = shutil.which("c++filt")
    if filter_program is None or not symbols:
        return {symbol: symbol for symbol in symbols}
    result = subprocess.run([filter_program], input="\n".join(symbols), capture_output=True, text=True, check=False)
    return dict(zip(symbols, result.stdout.splitlines(), strict=False))
