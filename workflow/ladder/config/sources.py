"""The files that a rung is made of, and what identifies their code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from ladder.config.cpp import canonical
from ladder.config.wrapper import CUBIN, EMBEDDED, LIBRARY, PYTHON, WRAPPER, macros_of_classes, parameters_of, wrapper
from ladder.model.rung import Rung
from ladder.records.store import digest, digest_files
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT, read_text, shown

INCLUDE = ROOT / "kernels" / "include"
WRAP = ROOT / "kernels" / "wrap"  # what a wrapper includes
BY_SIZE = "by_size.cu"  # the generated source of a rung that is tuned for several classes of size


def source_of_rung(rung: Rung) -> Path:
    """The file that a rung's entry names: below kernels/, or beside the user's own ladder."""
    return ROOT / "kernels" / rung.source


def sources(rung: Rung) -> list[Path]:
    """The files that a rung is made of: its source, and the shared headers that it includes, directly or not."""
    found = [source_of_rung(rung)]
    if rung.wrap:
        module = [WRAP / "module.cuh"] if found[0].suffix in EMBEDDED else []
        found += [INCLUDE / "gemm.cuh", WRAP / "wrap.cuh", *module]
    for file in found:
        for name in _included(file):
            folders = (file.parent, INCLUDE, *header_folders(rung))
            header = next((folder / name for folder in folders if (folder / name).is_file()), None)
            if header is not None and header not in found:
                found.append(header)
    return found[:1] + sorted(found[1:], key=lambda header: header.name)


def _included(file: Path) -> list[str]:
    """What a source includes, or a Python file imports from beside itself, by the names of the files."""
    if is_compiled(file):
        return []
    if file.suffix == PYTHON:
        return [f"{name}.py" for name in _IMPORTED.findall(read_text(file))]
    return _INCLUDED.findall(read_text(file))


_IMPORTED = re.compile(r"^(?:from|import) (\w+)", re.MULTILINE)
_INCLUDED = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)


def is_compiled(source: Path) -> bool:
    """Whether a rung's source is machine code already: a cubin or a shared library."""
    return source.suffix in (CUBIN, LIBRARY)


def source_text(rung: Rung) -> str:
    """What a reader may read of a rung's source: of one that is compiled already the wrapper, if it has one."""
    source = source_of_rung(rung)
    if is_compiled(source):
        return wrapper(rung) if rung.wrap else ""
    return read_text(source)


def header_folders(rung: Rung) -> list[Path]:
    """The folders that a wrapped source's own headers are looked for in."""
    return [ROOT / "kernels" / folder for folder in (rung.wrap or {}).get("include", ())]


def generated(rung: Rung) -> tuple[str, str] | None:
    """The name and the text of the source that is generated for a rung; None where its own is compiled as it is."""
    if rung.wrap:
        return WRAPPER, wrapper(rung)
    return (BY_SIZE, by_size(rung)) if len(rung.tuned) > 1 else None


def defined_macros(rung: Rung) -> dict[str, str]:
    """The macros that the compiler is given; a generated source has the others inside."""
    if rung.wrap:
        return {key: value for key, value in rung.macros.items() if key not in parameters_of(rung)}
    if len(rung.tuned) > 1:
        return {}
    return dict(rung.macros) | (dict(rung.tuned[0].macros) if rung.tuned else {})


def source_digest(rung: Rung) -> str:
    """What identifies a rung's code: its source, its headers, its macros and the choices of its tuning.

    Comments and layout do not count.
    """
    macros = [f"{key}={value}" for key, value in rung.macros.items()]
    if rung.wrap:
        macros = [*(f"{key}={value}" for key, value in defined_macros(rung).items()), canonical(wrapper(rung))]
        if rung.language != "cuda":
            macros += [rung.language, *(f"{k}={v}" for each in macros_of_classes(rung) for k, v in each.items())]
    elif len(rung.tuned) == 1:  # the same code as the variant with these macros
        macros += [f"{key}={value}" for key, value in rung.tuned[0].macros.items()]
    elif rung.tuned:
        macros.append(canonical(by_size(rung)))
    files = [part for file in sources(rung) for part in (file.name, _content(file))]
    return digest(*files, *macros)


def _content(file: Path) -> str:
    if is_compiled(file):
        return digest_files([file])
    text = read_text(file)
    return _canonical_python(text, file) if file.suffix == PYTHON else canonical(text)


def _canonical_python(text: str, file: Path) -> str:
    """A Python text without comments and layout; raises LadderError where it is none."""
    try:
        return ast.unparse(ast.parse(text))
    except SyntaxError as error:
        raise LadderError(f"{shown(file)}: line {error.lineno}: is no Python: {error.msg}; mend it there") from None


def by_size(rung: Rung) -> str:
    """The source of a rung that is tuned for several classes of size: the rung once for each, and the choice.

    Each copy stands in a namespace of its own, behind the headers, which all of them share, and exports its function
    under a name of its own.
    """
    source = source_of_rung(rung)
    text = read_text(source)
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
