"""Whether a source is the same code in the emulator as on a GPU: whether g++ answers its directives as nvcc does.

The emulator defines the macros of the architecture as nvcc does for device code (`architecture_macros`). nvcc reads a
source twice, for the host without `__CUDA_ARCH__`; the emulator once. So a directive may ask for it only where the
answer matters to device functions alone. Of the version of CUDA it may ask what all versions answer alike. Every other
macro that a compiler may define itself makes other code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ladder.build.toolchain import run_compiler
from ladder.config.cpp import tokens
from ladder.system.paths import shown

_ASKING = ("if", "ifdef", "ifndef", "elif")
_OF_A_PASS = re.compile(r"__CUDA_ARCH__|__CUDA_ARCH_(?:FEAT|SPECIFIC|FAMILY)\w*")
_AS_NVCC = re.compile(r"__CUDACC__|__NVCC__|__CUDA_ARCH\w*|__cplusplus|__has_include|defined|true|false")
_OF_NEITHER = re.compile(
    r"_WIN\d+|_MSC_VER|__APPLE__|__HIP\w*|__OPENCL\w*|__METAL\w*|__SYCL\w*"
    r"|__CUDACC_RTC__|__INTELLISENSE__|__CLANGD__|__JETBRAINS_IDE__"
)
_LIMITS = re.compile(r"__\w+_(?:TYPE|MAX|MIN|WIDTH|C|DIG|EPSILON|EXP)__|__SIZEOF_\w+|__CHAR_BIT__|__CHAR\w*")
_OURS = re.compile(r"EMULATOR_\w*|emulator_\w*|emulator")
# Of the macros without an underscore those that nvcc, or a header that it includes by itself, may define.
_OF_NVCC = re.compile(r"cu\w*|nv_\w*|cccl\w*|cub_\w*|thrust_\w*|linux|unix|i386", re.IGNORECASE)
_OLDEST = {"CUDART_VERSION": 12000, "__CUDART_API_VERSION": 12000, "CUDA_VERSION": 12000, "__CUDACC_VER_MAJOR__": 12}
_OUTSIDE = ("namespace", "struct", "class", "union", "enum", "extern")


class _Directive(NamedTuple):
    line: int
    name: str
    words: list[str]
    said: str  # all of its tokens
    in_function: bool  # which nvcc compiles for the host, too
    inside: list[str]  # of a condition outside of functions: the tokens up to its #endif


def architecture_macros(architecture: str) -> dict[str, str]:
    """The macros by which nvcc tells device code what it is compiled for, `sm_90a` say.

    NVCC manual, "Virtual Architecture Macros".
    """
    number = int("".join(filter(str.isdigit, architecture)))
    macros = {"__CUDA_ARCH__": str(10 * number), "__CUDA_ARCH_LIST__": str(10 * number)}
    if architecture.endswith("a"):
        macros |= {f"__CUDA_ARCH_FEAT_SM{number}_ALL": "1", "__CUDA_ARCH_SPECIFIC__": str(10 * number)}
    return macros


def other_code(files: Sequence[Path], macros: Mapping[str, str]) -> str:
    """Where files of a rung have other code for a GPU than for g++, and what to write instead; empty where none has.

    `macros` are those that the rung is compiled with.
    """
    texts = {file: file.read_text() for file in files}
    directives = {file: list(_directives(text)) for file, text in texts.items()}
    defined = set(macros)
    for each in (each for of_file in directives.values() for each in of_file if each.name == "define"):
        defined.update(each.words[:1])
    for file, text in texts.items():
        found = [*_asked(directives[file], defined), *_used(text)]
        if found:
            line, problem = min(found)
            return f"{shown(file)}:{line}: {problem}; write one code for both, or check it on a GPU"
    return ""


def _asked(directives: list[_Directive], defined: set[str]) -> Iterator[tuple[int, str]]:
    """What a file's directives ask that g++ and nvcc may answer differently: line and problem."""
    for each in directives:
        for word in each.words if each.name in _ASKING else ():
            if _OF_A_PASS.fullmatch(word) and not _of_device_code(each):
                yield each.line, f"has other code for the host than for a GPU ({word}), which the emulator reads once"
            elif word not in defined and _may_differ(word) and not _of_every_version(word, each):
                yield each.line, f"may have other code for a GPU than for a CPU ({word})"


def _may_differ(word: str) -> bool:
    """Whether a macro that no file defines may be one of nvcc's or g++'s own; not of a name such as DEBUG.

    C++ keeps names that begin with an underscore and a capital letter, or hold two, for the compiler ([lex.name]).
    """
    if _AS_NVCC.fullmatch(word) or _OF_NEITHER.fullmatch(word):
        return False
    return word.startswith("_") or "__" in word or word in _predefined() or bool(_OF_NVCC.fullmatch(word))


def _of_every_version(word: str, directive: _Directive) -> bool:
    """Whether a directive asks of CUDA's version only what the answer to is the same from the oldest one on."""
    if word not in _OLDEST:
        return False
    asked = rf"defined ?\(? ?{word}\b|(?:^if|^elif|\(|&&|\|\|) {word} (>=|<) (\d+)(?= (?:\)|&&|\|\|)|$)"
    known = [each for each in re.finditer(asked, directive.said) if not each[2] or int(each[2]) <= _OLDEST[word]]
    return directive.name in ("ifdef", "ifndef") or len(known) == directive.words.count(word)


def _of_device_code(directive: _Directive) -> bool:
    """Whether a condition changes nothing but device functions, or what further directives ask."""
    if directive.in_function:
        return False
    inside = directive.inside
    return not inside or ("__host__" not in inside and bool({"__device__", "__global__"} & set(inside)))


def _used(text: str) -> Iterator[tuple[int, str]]:
    """What of g++'s own macros, or of the emulator, a text names."""
    line = 1
    for kind, token in tokens(text):
        if kind == "word" and (_OURS.fullmatch(token) or (token in _predefined() and not _AS_NVCC.fullmatch(token))):
            yield line, f"has other code for a GPU than for a CPU ({token})"
        line += token.count("\n")


@cache
def _predefined() -> frozenset[str]:
    """The macros that g++ defines itself, but for the limits of types, which nvcc shares."""
    command = [
        "g++",
        "-std=c++17",
        "-O2",
        "-fPIC",
        "-pthread",
        "-fsanitize=thread",
        "-dM",
        "-E",
        "-x",
        "c++",
        "/dev/null",
    ]
    listed = run_compiler(command, Path("/dev/null"))[0]
    names = re.findall(r"^#define (\w+)", listed, re.MULTILINE)
    return frozenset(name for name in names if not _LIMITS.fullmatch(name) and not name.startswith("__STDC"))


def _directives(text: str) -> Iterator[_Directive]:
    """The directives of a text, in their order."""
    found: list[_Directive] = []
    open_conditions: list[int] = []  # of those outside of functions, where they are in `found`
    scopes: list[bool | None] = []  # of each brace: whether it is of a function for the host, None for no function
    head: list[str] = []
    line, begun, words, said = 1, False, None, []
    for kind, token in [*tokens(text), ("end", "")]:
        if kind == "end":
            if words is not None:
                function = next((s for s in scopes if s is not None), None)
                _add(found, open_conditions, _Directive(line, "", words, " ".join(said), bool(function), []), function)
            begun, words = False, None
        elif kind not in ("space", "nothing"):
            if token == "#" and not begun:
                words, said = [], []
            elif words is not None:
                words += [token] if kind == "word" else []
                said.append(token)
            else:
                for each in open_conditions:
                    found[each].inside.append(token)
                if token == "{":
                    device = {"__device__", "__global__"} & set(head) and "__host__" not in head
                    scopes.append(None if set(_OUTSIDE) & set(head) and ")" not in head else not device)
                elif token == "}" and scopes:
                    scopes.pop()
                head = [] if token in ("{", "}", ";") else [*head, token]
            begun = True
        line += token.count("\n")
    yield from found


def _add(found: list[_Directive], opened: list[int], directive: _Directive, function: bool | None) -> None:
    name = directive.words[0] if directive.words else ""
    if name == "endif" and opened:
        opened.pop()
    found.append(directive._replace(name=name, words=directive.words[1:]))
    if name in ("if", "ifdef", "ifndef"):
        opened.append(len(found) - 1)
    if function is False:  # of device code: what stands inside does not matter
        found[-1] = found[-1]._replace(inside=_NothingKept())


class _NothingKept(list):
    """A list that stays empty."""

    def append(self, item: object) -> None:
        """Keep nothing."""
