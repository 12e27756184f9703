"""How a rung is compiled, what that leaves, and when the stages after it may run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ladder.build.borrowed import why_borrowed
from ladder.build.entry import why_no_entry
from ladder.build.languages.compile import Image, compile_images, compiler_version, why_no_compiler
from ladder.build.toolchain import Nvcc, run_compiler, tool_beside
from ladder.config.documents import nearest
from ladder.config.sources import (
    INCLUDE,
    WRAP,
    defined_macros,
    generated,
    header_folders,
    source_digest,
    source_of_rung,
)
from ladder.config.wrapper import CUBIN, LIBRARY, function_name, image_header, passed_parameters
from ladder.model.gpu import Target
from ladder.model.rung import Rung
from ladder.records import digests, store
from ladder.system.paths import ROOT

NOT_APPLICABLE = "does not apply"
NO_COMPILER = "no compiler"  # of the rung's language


@dataclass(frozen=True)
class Build:
    """A rung's folder under build/: compile.json and, where it compiled, library.so."""

    folder: Path

    @property
    def library(self) -> Path:
        """The shared library."""
        return self.folder / "library.so"

    @property
    def ptx(self) -> Path:
        """What nvcc compiled the kernels to before their machine code."""
        return self.folder / "kernels.ptx"

    @property
    def record(self) -> dict[str, Any]:
        """What the compile stage recorded: `compile_rung`'s record and the rung's name."""
        return store.read_json(self.folder / "compile.json")


def build(rung: Rung, target: Target, nvcc: Nvcc, flags: list[str], folder: Path) -> dict[str, Any]:
    """Compile a rung into its folder and record how that went; returns the record.

    A rung that needs another compute capability than the GPU's is not compiled: its status is `does not apply`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made = Build(folder)
    if rung.language != "cuda" and (why := why_no_compiler(rung.language)):
        record: dict[str, Any] = {"status": NO_COMPILER, "message": why, "log": "", "build_digest": ""}
    elif message := _why_not_for(rung, target, nvcc):
        record = {"status": NOT_APPLICABLE, "message": message, "log": "", "build_digest": ""}
    else:
        record = compile_rung(rung, target, nvcc, flags, made.library)
    store.write_json(folder / "compile.json", {"rung": rung.name, **record})
    return record


def _why_not_for(rung: Rung, target: Target, nvcc: Nvcc) -> str:
    """Why a rung does not run on a GPU, in one line; empty where it does."""
    if not rung.runs_on(target.compute_capability):
        return f"needs compute capability {rung.compute_capability}; {target.title} has {target.compute_capability}"
    source = source_of_rung(rung)
    of = architecture_of_cubin(source, nvcc) if source.suffix == CUBIN else ""
    if source.suffix == CUBIN and of.rstrip("af") != target.architecture.rstrip("af"):
        return f"{source.name} is {f'of {of}' if of else 'no cubin'}; {target.title} needs {target.architecture}"
    return ""


def why_not_measured(made: Build, check: dict[str, Any] | None) -> str:
    """Why a rung may not be timed or profiled: it did not compile, or this build did not pass its check.

    Empty where it may be. `check` is its check record, or None for a floor, which has none.
    """
    compiled = made.record
    if compiled["status"] != "ok":
        prefix = "" if compiled["status"] in (NOT_APPLICABLE, NO_COMPILER) else "it does not compile: "
        return prefix + compiled["message"]
    if check is None:
        return ""
    if check["status"] != "pass":
        return f"its check failed: {check['message']}"
    if digests.build_of(check["where"]) != compiled["build_digest"]:
        return "its check was of another build; run the check stage again"
    return ""


GLIBC = Path(__file__).with_name("glibc")  # what nvcc cannot read of a newer glibc than it knows, as it can


def build_digest(rung: Rung, target: Target, nvcc: Nvcc, flags: list[str]) -> str:
    """What identifies a build: the rung's code and all that makes a library of it."""
    return digests.digest_of_build(source_digest(rung), nvcc.version, target.architecture, flags)


def compile_command(rung: Rung, target: Target, nvcc: Nvcc, flags: list[str], output: Path) -> list[str]:
    """The nvcc command line that makes a rung's library; where its source is generated, from that beside the library.

    It runs in the project's folder and has paths as seen from there: nvcc gives them to a shell, some without quotes.
    """
    virtual = target.architecture.replace("sm_", "compute_")
    made = generated(rung)
    source = Path("kernels") / rung.source
    return [
        str(nvcc.path),
        *flags,
        f"-gencode=arch={virtual},code={target.architecture}",
        "-Xptxas=-v",
        "-shared",
        "--no-device-link",  # no kernel calls into another file
        "-Xcompiler=-fPIC",
        "-allow-unsupported-compiler",  # of a g++ that is newer than itself
        f"-I{os.path.relpath(GLIBC, ROOT)}",
        f"-I{INCLUDE.relative_to(ROOT)}",
        *(flag[:2] + os.path.relpath(flag[2:], ROOT) for flag in nvcc.library_flags),
        *([f"-I{source.parent}"] if made else []),
        *(_of_wrapped(rung, source) if rung.wrap else []),
        *(f"-D{key}={value}" for key, value in defined_macros(rung).items()),
        "-o",
        str(output),
        str(output.parent / made[0] if made else source),
        "-ldl",
    ]


def _of_wrapped(rung: Rung, source: Path) -> list[str]:
    """What nvcc is told of a wrapped source: where its headers are, and to leave out host code that nothing calls."""
    folders = [f"-I{folder}" for folder in (WRAP.relative_to(ROOT), *header_folders(rung))]
    hosts = f"-Xcompiler=-ffunction-sections,-fvisibility=hidden,-idirafter,{WRAP.relative_to(ROOT) / 'host'}"
    linked = [str(source), f"-Xlinker=-rpath={source.parent}"] if source.suffix == LIBRARY else []
    return [*folders, hosts, "-Xlinker=--gc-sections", *linked]


def compile_rung(rung: Rung, target: Target, nvcc: Nvcc, flags: list[str], library: Path) -> dict[str, Any]:
    """Compile a rung; returns its compile record, whose `status` is `ok` or `failed` with the compiler's message.

    A rung that has another library's product (`ladder.build.borrowed`) fails too, and leaves no library.

    Keys: status, message, nvcc, compiler (of the kernels, with its version), flags, architecture, source_digest,
    build_digest (of the code and all that made it), log (the compiler's output with the resource report). Raises
    LadderError where nvcc fails whatever the source (`run_compiler`): no record is left of that, so that the next run
    compiles again.
    """
    if made := generated(rung):
        (library.parent / made[0]).write_text(made[1])
    source, used, made_by = source_of_rung(rung), "", []
    images, error = [], ""
    compiled_before = f"others ({source.name})" if source.suffix in (CUBIN, LIBRARY) else ""
    if rung.language != "cuda":
        made_by = [compiler_version(rung.language)]
        images, error = compile_images(rung, target, library.parent)
    elif error := why_not_called(rung, source):
        error = f"{source.name}: {error}"
    elif source.suffix == CUBIN:
        shutil.copyfile(source, library.with_name(f"{rung.wrap['kernel']}.cubin"))
        images = [Image(rung.wrap["kernel"], library.with_name(f"{rung.wrap['kernel']}.cubin"), 0, 0, 0)]
    for image in images:
        used += embed(image, nvcc)
        error = error or why_not_passed(rung, image, nvcc, " ".join(made_by))
    command = compile_command(rung, target, nvcc, flags, library)
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as folder:
        kept = ["--keep", f"--keep-dir={folder}"]
        if not error:
            log, error = run_compiler([*command, *kept], Path(rung.source))
            error += why_newer(command, Path(rung.source), Path(folder)) if error else ""
        else:
            log = ""
        if rung.wrap and error.startswith(("kernels/include/launch.cuh", str(library.parent))):
            error = f"{rung.entry}.wrap does not suit {source.name}: {error.partition(': ')[2]}"
        libraries = [library, *([source] if source.suffix == LIBRARY else [])]
        if not error and rung.role != "baseline" and (why := why_borrowed(Path(folder).glob("*.o"), *libraries)):
            error = f"{Path(rung.source).name}: {why}"
            library.unlink(missing_ok=True)
        for ptx in sorted(Path(folder).glob("*.ptx")):
            shutil.copyfile(ptx, library.with_name("kernels.ptx"))
    record = {
        "status": "failed" if error else "ok",
        "message": error,
        "nvcc": nvcc.version,
        "compiler": next(iter(made_by), compiled_before or f"nvcc {nvcc.version}"),
        "flags": [
            *flags,
            *made_by,
            f"-gencode=arch={target.architecture.replace('sm_', 'compute_')},code={target.architecture}",
        ],
        "architecture": target.architecture,
        "source_digest": source_digest(rung),
        "build_digest": build_digest(rung, target, nvcc, [*flags, *made_by]),
        "log": log + used,
    }
    return record


STANDARD, NEWER = "-std=c++17", "-std=c++20"


def why_newer(command: list[str], source: Path, folder: Path) -> str:
    """The end of the error of a source that this command does not compile: that newer C++ would; or nothing."""
    newer = [NEWER if word == STANDARD else word for word in command]
    newer[newer.index("-o") + 1] = str(folder / "newer")
    if NEWER not in newer or run_compiler(newer, source)[1]:
        return ""
    return f"; as {NEWER[5:]} it compiles, but rungs are compiled as {STANDARD[5:]}: leave out what is newer"


def why_not_called(rung: Rung, source: Path) -> str:
    """Why a rung cannot be called, in one line: a compiled file has not what `wrap` names, a source no entry."""
    if source.suffix == LIBRARY:
        listing, kind, name = ["nm", "-D", "--defined-only"], "shared library", function_name(rung.wrap["function"])
    elif source.suffix == CUBIN:
        listing, kind, name = ["readelf", "--syms", "--wide"], "cubin", rung.wrap["kernel"]
    else:
        return why_no_entry(rung)
    listed = subprocess.run([*listing, source], capture_output=True, text=True, check=False)
    has = [line.split() for line in listed.stdout.splitlines()]
    has = [words[-1] for words in has if len(words) > 1 and ("FUNC" in words or words[-2] in ("T", "W", "i"))]
    if listed.returncode or not listed.stdout:
        return f"is no {kind}; build it anew, or mend the name"
    return "" if name in has else f"has no function {name}; {nearest(name, has, 'it has')}"


def why_not_passed(rung: Rung, image: Image, nvcc: Nvcc, compiler: str) -> str:
    """Why the wrapper's parameters are not those of an embedded kernel, in one line; empty where they are as many."""
    passed, taken = passed_parameters(rung), parameters_of_kernel(image.cubin, image.name, nvcc)
    if taken in (None, passed):
        return ""
    name = source_of_rung(rung).name
    if rung.language == "cuda":
        return f"{name}: {image.name} takes {taken} parameters, and wrap.arguments has {passed}; mend kernels.yaml"
    remedy = f"make env EXTRA={rung.language} installs one whose kernels it knows"
    return f"{name}: compiled by {compiler} it takes {taken} parameters, and the wrapper passes {passed}; {remedy}"


def parameters_of_kernel(cubin: Path, kernel: str, nvcc: Nvcc) -> int | None:
    """How many parameters a kernel of a cubin takes, by what the driver reads of them; None where that is not there."""
    command = [tool_beside(nvcc, "cuobjdump"), "-elf", cubin]
    listed = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace").stdout
    found = re.search(rf"^\.nv\.info\.{re.escape(kernel)}$(.*?)^\.", listed, re.MULTILINE | re.DOTALL)
    return found[1].count("EIATTR_KPARAM_INFO") if found else None


def embed(image: Image, nvcc: Nvcc) -> str:
    """Write what the wrapper includes of a cubin beside it; what cuobjdump says that its kernels use."""
    sizes = image.threads, image.launch_threads, image.shared_bytes
    image.cubin.with_suffix(".h").write_text(image_header(image.name, image.cubin.read_bytes(), *sizes))
    command = [tool_beside(nvcc, "cuobjdump"), "-res-usage", image.cubin]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def architecture_of_cubin(cubin: Path, nvcc: Nvcc) -> str:
    """The architecture that a cubin is of, such as sm_90a; empty where the file is no cubin."""
    command = [tool_beside(nvcc, "cuobjdump"), "-lelf", cubin]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = re.search(r"\.(sm_\w+)\.cubin", listed)
    return found[1] if found else ""
