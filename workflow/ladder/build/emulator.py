"""The check on the CPU: a rung's source compiled for the emulator (kernels/emulator), and its verdict there.

What it finds is derived from the sources alone: the inputs and the order of threads are the same each time.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ladder.build.cuda_syntax import in_plain_cpp
from ladder.build.other_code import architecture_macros
from ladder.build.ptx import ASM, UnknownPtxError, clusters_in_cpp, ptx_in_cpp
from ladder.build.toolchain import run_compiler
from ladder.config.cpp import tokens
from ladder.config.sources import INCLUDE, WRAP
from ladder.config.wrapper import WRAPPER
from ladder.records.store import digest_files
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT

EMULATOR = ROOT / "kernels" / "emulator"
ENGINE = EMULATOR / "emulator.cpp"
HEADER = EMULATOR / "emulator_launch.h"  # what every rung begins with (flags.txt)
NEEDED_GXX = 12
ARCHITECTURE = "sm_90a"  # whose code runs, where no GPU says otherwise
COVERAGE = "-fsanitize-coverage=trace-pc,trace-cmp"
EMULATED, NEEDS_GPU, NOT_EMULATED = "emulated", "needs a GPU", "not emulated"

_EXCEPTIONS = {"try", "catch", "throw"}  # without which no code for them is made
_OF_ENGINE = ("-DEMULATOR_ENGINE",)  # beside which a source is compiled that is preprocessed without it

# What g++ says of what the emulator cannot run, what that is, and what to write instead.
_INSTEAD = {
    r"error: (\S+): No such file": ("the header {}", "leave it out, or use what kernels/emulator has"),
    r"\b(cuda[A-Z]\w+)": ("{}", "leave it out: a rung queues kernels on the stream that it is given, and no more"),
    r"'(?:class )?(?:cuda::)?(\w*(?:tex\w+|surf\w+|half\w*|bfloat\w*)\w*)'": (
        "{}",
        "write it in CUDA C++ with FP32 and the functions of kernels/include",
    ),
    r"error: '([\w:]+)' (?:was not declared|has not been declared|is not a member)": (
        "{}",
        "it has nothing of that name: leave it out",
    ),
}
_BUILTIN_ATOMIC = re.compile(r"\b__(?:nv_atomic_|NV_ATOMIC_|NV_THREAD_SCOPE_)")
_UNDEFINED = re.compile(r"undefined reference to [`']([^(']+)")  # which nvcc says of no shared library


def compile_engine(target: Path, headers: Path) -> None:
    """Compile the emulator's engine and the headers of all rungs, once; empty files where g++ is too old for it.

    `headers` bears the name of HEADER and .gch, by which g++ finds it (GCC manual, Using Precompiled Headers). Raises
    LadderError with g++'s first error where something does not compile, or where there is no g++.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if shutil.which("g++") is None:
        raise LadderError("g++: not found; install it (Debian: apt install g++)")
    if why_no_emulator():
        target.write_bytes(b"")
        headers.write_bytes(b"")
        return
    fast = ["-O3", "-ftrivial-auto-var-init=uninitialized"]  # the engine's own variables need no poison
    made_of = {target: [*fast, *_OF_ENGINE, str(ENGINE)], headers: ["-x", "c++-header", str(HEADER)]}
    for made, arguments in made_of.items():
        if error := _compile(["-c", *arguments, "-o", str(made)], Path(arguments[-1])):
            raise LadderError(error)


def cached_engine(folder: Path) -> Path:
    """The engine of the present sources and compiler below a folder, compiled where it is not there yet.

    It is compiled in a folder that takes its name once it is whole: of two at once one counts, of a killed one none.
    """
    sources = sorted(path for place in (EMULATOR, INCLUDE) for path in place.rglob("*") if path.is_file())
    made = folder / digest_files(sources, gxx_version())
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            compile_engine(Path(place) / made.name / "engine.o", Path(place) / made.name / f"{HEADER.name}.gch")
            with contextlib.suppress(OSError):
                (Path(place) / made.name).rename(made)
    return made / "engine.o"


def compile_for_emulator(
    source: Path,
    macros: dict[str, str],
    library: Path,
    include: Path | Sequence[Path],
    engine: Path = ENGINE,
    files: Sequence[Path] = (),
    architecture: str = ARCHITECTURE,
    coverage: bool = False,
) -> str:
    """Compile a source with g++; in one line what the emulator cannot run of it and what to write instead, or nothing.

    What a CPU cannot do does not compile. `engine` is that of the emulator, its source or what `compile_engine` has
    made of it, with the headers beside it or not. `include` has the folders in which the source's own headers are.
    `files` are those that the source is made of, or without any the headers of all rungs: of these and of itself copies
    are compiled, beside the library, where they have to be rewritten. Inline PTX is rewritten once the source is
    preprocessed. `architecture` is what nvcc compiles the source for, `sm_90a` say, and sees of it. With `coverage` the
    library tells which ways its host code takes (`emulator_coverage.h`); g++ may order what kernels do otherwise then.
    Raises LadderError where g++ fails for another reason than the source.
    """
    defined = [f"-D{key}={value}" for key, value in {**macros, **architecture_macros(architecture)}.items()]
    copies = library.with_suffix(".sources")
    source = source.resolve()
    texts = {path.resolve(): path.read_text() for path in [source, *(files or INCLUDE.glob("*.cuh"))]}
    rewritten = {path: in_plain_cpp(text.removeprefix("\ufeff"), str(path)) for path, text in texts.items()}
    if rewritten != texts:
        for path, text in rewritten.items():
            copy = copies / path.relative_to("/")  # so that what one includes of the others is found
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text if text != texts[path] else f'#line 1 "{path}"\n{text}')
    compiled = copies / source.relative_to("/") if rewritten != texts else source
    folders = [folder.resolve() for folder in ([include] if isinstance(include, Path) else include)]
    copied = [copies / folder.relative_to("/") for folder in folders] if rewritten != texts else []
    found = [f"-I{folder}" for folder in (*copied, *folders, source.parent, WRAP)]
    found += [f"-iquote{copies / INCLUDE.relative_to('/')}"]
    found += ["-idirafter", str(WRAP / "host")]
    preprocessed = library.with_suffix(".ii")
    throws = any(text in _EXCEPTIONS for each in texts.values() for kind, text in tokens(each) if kind == "word")
    defined += ["-fexceptions"] if throws else []
    defined += [COVERAGE] if coverage else []
    try:
        error = _preprocess([*defined, *found, str(compiled)], source, engine.parent, preprocessed)
    except UnknownPtxError as unknown:
        instead = "write it in CUDA C++, or check it on a GPU"
        return f"{unknown.place.replace(f'{copies}/', '/')}: the emulator cannot run {unknown.what}; {instead}"
    if not error:
        made_of = ["-x", "c++-cpp-output", str(preprocessed)]
        made_of += ["-x", "none" if engine.suffix == ".o" else "c++", str(engine)]
        if source.name == WRAPPER:  # host code that nothing calls is left out
            made_of += ["-ffunction-sections", "-fvisibility=hidden", "-Wl,--gc-sections"]
        libraries = ["-lstdc++", "-lm", "-lc", "-lgcc", *(["-lgcc_s"] if throws else [])]
        error = _compile([*defined, *_OF_ENGINE, "-o", str(library), *made_of, *libraries], source, engine.parent)
    return _what_instead(error.replace(f"{copies}/", "/")) if error else ""


def _preprocess(arguments: list[str], source: Path, made: Path, preprocessed: Path) -> str:
    """Write a source as g++ sees it behind the headers of all rungs, its PTX as C++; the first error, or nothing.

    Raises UnknownPtxError. GCC manual, -fpch-preprocess.
    """
    command = ["-E", "-fpch-preprocess", *arguments, "-o", str(preprocessed)]
    error = _compile(command, source, made)
    text = "" if error else preprocessed.read_text()
    rewritten = bool(ASM.search(text)) or "__cluster_dims__" in text
    included = ["-include", str(EMULATOR / "ptx.h")] if rewritten else []
    included += ["-include", str(EMULATOR / "cuda_builtin_atomics.h")] if _BUILTIN_ATOMIC.search(text) else []
    if included:
        error = _compile([*included, *command], source, made)
    if rewritten and not error:
        preprocessed.write_text(ptx_in_cpp(clusters_in_cpp(preprocessed.read_text())))
    return error


def _compile(arguments: list[str], source: Path, made: Path = EMULATOR) -> str:
    """Run g++ as the emulator asks for it, with what has been made of it; its first error in one line, or nothing."""
    folders = [f"-I{folder}" for folder in (made, EMULATOR, ROOT / "kernels" / "include")]
    return run_compiler(["g++", f"@{EMULATOR / 'flags.txt'}", *folders, *arguments], source)[1]


def _what_instead(error: str) -> str:
    """What cannot run of a source that g++ refuses with this error, where it stands, and what to write instead."""
    place = error.partition(": ")[0].removesuffix(":")
    if (missing := _UNDEFINED.search(error)) and missing[1].startswith("__"):  # a name of CUDA's or of the compiler's
        return f"{place}: the emulator cannot run {missing[1]}; leave it out, or check it on a GPU"
    if missing:
        remedy = "a rung is compiled from one file: include the file that has it"
        return f"{place}: {missing[1]} is declared, and nothing that the source includes defines it; {remedy}"
    for mark, (what, instead) in _INSTEAD.items():
        if found := re.search(mark, error):
            named = what.format(found[1] if found.groups() else "")
            return f"{place}: the emulator cannot run {named}; {instead}, or check it on a GPU"
    return f"{error}; the emulator cannot run this: write it in plain CUDA C++, or check it on a GPU"


def why_no_emulator() -> str:
    """Why nothing can be emulated on this machine, in one line; empty where it can."""
    needs = f"the emulator needs g++ {NEEDED_GXX} or newer"
    if shutil.which("g++") is None:
        return f"{needs}; there is none"
    version = gxx_version()
    if not version:
        return f"{needs}; the g++ on the PATH does not tell its version: mend `g++ -dumpversion`"
    return "" if int(version.split(".")[0]) >= NEEDED_GXX else f"{needs}; here is {version}"


def gxx_version() -> str:
    """The version of g++, such as 12 or 12.2.0; empty where there is none, or it tells none."""
    try:
        told = subprocess.run(["g++", "-dumpversion"], capture_output=True, text=True, check=True, errors="replace")
    except (OSError, subprocess.CalledProcessError):
        return ""
    version = told.stdout.strip()
    return version if re.fullmatch(r"\d+(\.\d+)*", version) else ""
