"""Kernels of another contract: what kernels.yaml's `wrap` declares, and the C++ source that puts it behind ours.

The wrapped source is included as it is, with its main() renamed. A compiled library is linked with, a cubin embedded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ladder.model.expressions import in_cpp
from ladder.model.rung import Rung
from ladder.system.errors import LadderError

WRAPPER = "wrapper.cu"  # the generated source
IMAGE = "image.inc"  # a cubin as the initialiser of an array, beside it
LIBRARY, CUBIN, CUDA_SOURCE = ".so", ".cubin", ".cu"
SYMBOL = "gemm_ladder_kernel_"  # begins the names of functions of the host that stand for the kernels of a cubin
NUMBERS = ("m", "n", "k", "lda", "ldb", "ldc", "sms")
_DECLARED = re.compile(r"[A-Za-z_][\w\s*]*?\b([A-Za-z_]\w*)\s*\([\w\s*,]*\)")
_NAMED = re.compile(r"(?!.*<<)(?:[A-Za-z_]\w*::)*[A-Za-z_]\w*(?:<[\w\s,:<>()+*/-]*>)?")


def check_wrap(rung: Rung, place: str) -> None:
    """Raise LadderError where what `wrap` declares does not suit the source, or an expression is none."""
    wrap, kind = rung.wrap, Path(rung.source).suffix
    if wrap is None:
        if kind != CUDA_SOURCE:
            raise LadderError(f"{place}.source: a {kind} file is wrapped; say under `wrap` how it is called")
        return
    wanted, unwanted = ("function", "kernel") if kind == LIBRARY else ("kernel", "function")
    if unwanted in wrap or wanted not in wrap:
        raise LadderError(f"{place}.wrap: a {kind} file is called by its {wanted}; give {wanted}, and no {unwanted}")
    if kind == LIBRARY and not _DECLARED.fullmatch(wrap["function"].strip()):
        problem = f"{wrap['function']!r} declares no C function"
        raise LadderError(f"{place}.wrap.function: {problem}; write it as in `int f(int m, const float* A)`")
    if kind != LIBRARY and not _NAMED.fullmatch(wrap["kernel"].strip()):
        problem = f"{wrap['kernel']!r} names no kernel"
        raise LadderError(f"{place}.wrap.kernel: {problem}; write it as in `name` or `space::name<128, 8>`")
    needed = () if kind == LIBRARY else ("grid", "block")
    if lacking := [key for key in needed if key not in wrap]:
        raise LadderError(f"{place}.wrap: a kernel is launched with grid and block; add {lacking[0]}")
    try:
        wrapper(rung)
    except ValueError as error:
        raise LadderError(f"{place}.wrap.{error}") from None


def parameters_of(rung: Rung) -> Mapping[str, int]:
    """The names that `wrap` uses as macros, with their values where a variant gives no others."""
    return (rung.wrap or {}).get("parameters", {})


def wrapper(rung: Rung) -> str:
    """The C++ source that puts a wrapped rung behind the contract; raises ValueError for an expression that is none.

    `run` calls it with the parameters of each class of size that the rung is tuned for.
    """
    wrap, file = rung.wrap or {}, Path(rung.source)
    classes = [(each.below_flop, each.macros) for each in rung.tuned] or [(float("inf"), {})]
    lines = [
        f"// Made by the pipeline: {file.name} behind the contract of gemm.cuh.",
        *(f"#include <{name}>" for name in ("algorithm", "cstddef", "cstdint")),
        *(["#include <cuda.h>"] if file.suffix == CUBIN else []),
        "#include <cuda_runtime.h>",
        "",
        "namespace gemm_ladder {",
        '#include "gemm.cuh"',
        '#include "wrap.cuh"',
        *(['#include "module.cuh"'] if file.suffix == CUBIN else []),
        "}  // namespace gemm_ladder",
        "",
        *_of_source(wrap, file),
        "",
        "namespace gemm_ladder {",
    ]
    for index, (_, macros) in enumerate(classes):
        lines += _run(rung, {**parameters_of(rung), **rung.macros, **macros}, index)
    lines += ["static cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {"]
    for index, (below, _) in enumerate(classes[:-1]):
        lines += [f"  if (2.0 * g.m * g.n * g.k < {below:.17g}) {{"]
        lines += [f"    return run_{index}(g, workspace, stream);", "  }"]
    lines += [f"  return run_{len(classes) - 1}(g, workspace, stream);", "}", ""]
    lines += ["static size_t workspace_of(const Gemm& g) {"]
    for index, (below, _) in enumerate(classes[:-1]):
        lines += [f"  if (2.0 * g.m * g.n * g.k < {below:.17g}) {{", f"    return workspace_{index}(g);", "  }"]
    lines += [f"  return workspace_{len(classes) - 1}(g);", "}", ""]
    lines += ["#pragma GCC visibility push(default)", "EXPORT_SGEMM_WITH_WORKSPACE(run, workspace_of)"]
    return "\n".join([*lines, "#pragma GCC visibility pop", "}  // namespace gemm_ladder", ""])


def _of_source(wrap: Mapping[str, Any], file: Path) -> list[str]:
    """What is declared of a library, embedded of a cubin, or included of a source."""
    if file.suffix == LIBRARY:
        return [f'extern "C" {wrap["function"].strip()};']
    if file.suffix == CUBIN:
        return [
            f'extern "C" __attribute__((used)) void {SYMBOL}{wrap["kernel"]}() {{}}  // tells an observer its name',
            "alignas(64) static const unsigned long long image[] = {",
            f'#include "{IMAGE}"',
            "};",
            "",
            "static const gemm_ladder::ModuleKernel& module_kernel() {",
            f'  static const gemm_ladder::ModuleKernel kernel(image, "{wrap["kernel"]}");',
            "  return kernel;",
            "}",
        ]
    in_emulator = ['#if __has_include("host_api.h")  // in the emulator', '#include "host_api.h"', "#endif"]
    return [
        *in_emulator,
        "#define main static __attribute__((unused)) main_of_the_source",
        f'#include "{file.name}"',
        "#undef main",
        *in_emulator,
    ]


def _run(rung: Rung, values: Mapping[str, Any], index: int) -> list[str]:
    """The functions that launch with these values of the parameters, and say how large a workspace that takes."""
    wrap, kind = rung.wrap or {}, Path(rung.source).suffix
    numbers = {name: name for name in NUMBERS} | {name: str(value) for name, value in values.items()}

    def number(text: Any, key: str) -> str:
        return _in_cpp(text, numbers, key)

    arguments = [_argument(text, numbers, f"arguments[{at}]", kind) for at, text in enumerate(wrap["arguments"])]
    bytes_needed = number(wrap["workspace_bytes"], "workspace_bytes")
    load = [] if kind != CUBIN else ["  if (launch_observer == nullptr) {", "    module_kernel();", "  }"]
    lines = [
        f"static size_t workspace_{index}([[maybe_unused]] const Gemm& g) {{",
        *_numbers([bytes_needed]),
        *load,
        f"  return static_cast<size_t>({bytes_needed});",
        "}",
        "",
        f"static cudaError_t run_{index}(const Gemm& g, [[maybe_unused]] void* workspace, cudaStream_t stream) {{",
    ]
    if wrap["clear_c"]:
        lines += [
            "  if (g.beta == 0.0f && launch_observer == nullptr) {",
            "    const size_t row_bytes = g.n * sizeof(float);",
            "    cudaError_t error = cudaMemset2DAsync(g.C, g.ldc * sizeof(float), 0, row_bytes, g.m, stream);",
            *("    if (error != cudaSuccess) {", "      return error;", "    }", "  }"),
        ]
    if kind == LIBRARY:
        declared = wrap["function"].strip()
        call = f"::{_DECLARED.fullmatch(declared)[1]}({', '.join(arguments)})"
        called = [f"  {call};", "  return cudaGetLastError();"]
        called = called if declared.startswith("void ") else [f"  return static_cast<cudaError_t>({call});"]
        return [*lines, *_numbers(arguments), *_observed("return cudaSuccess;"), *called, "}", ""]
    grid, block = (
        f"extent({', '.join(number(each, f'{key}[{at}]') for at, each in enumerate(wrap[key]))})"
        for key in ("grid", "block")
    )
    shared = number(wrap["shared_bytes"], "shared_bytes")
    lines += _numbers([*arguments, grid, block, shared])
    if kind != CUBIN:
        words = {name: str(value) for name, value in values.items()}
        kernel = re.sub(r"\b[A-Z]\w*\b", lambda word: words.get(word[0], word[0]), wrap["kernel"].strip())
        call = ", ".join([f"::{kernel}", grid, block, f"static_cast<size_t>({shared})", "stream", *arguments])
        return [*lines, f"  return launch({call});", "}", ""]
    symbol = f"reinterpret_cast<const void*>(&::{SYMBOL}{wrap['kernel']})"
    given = [grid, block, shared, "stream", *(f"as_parameter({each})" for each in arguments)]
    told = f"launch_observer({symbol}, {grid}, {block}, static_cast<size_t>({shared}));"
    call = f"  return module_kernel().launch({', '.join(given)});"
    return [*lines, *_observed(told, "return cudaSuccess;"), call, "}", ""]


def _observed(*statements: str) -> list[str]:
    """What is done in the place of a launch where launches are told and not made."""
    return ["  if (launch_observer != nullptr) {", *(f"    {each}" for each in statements), "  }"]


def _numbers(expressions: Sequence[str]) -> list[str]:
    """The declarations of the whole numbers of a product that the expressions hold."""
    used = {word for text in expressions for word in re.findall(r"(?<![\w.:])[a-z]+\b", text)}
    lines = [f"  const int64_t {name} = g.{name};" for name in NUMBERS if name in used and name != "sms"]
    if "sms" in used:
        lines += ["  int sms = 0;", "  if (cudaError_t error = sm_count(&sms)) {", "    return error;", "  }"]
    return lines


_FUNCTIONS = {"min": "std::min<int64_t>", "max": "std::max<int64_t>", "ceil_div": "ceil_quotient"}


def _in_cpp(text: Any, names: Mapping[str, str], key: str) -> str:
    try:
        return in_cpp(str(text), names, _FUNCTIONS, "number", "of a product")
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def _argument(text: Any, numbers: Mapping[str, str], key: str, kind: str) -> str:
    """An argument in C++: a pointer, alpha or beta, which C++ turns into what is asked for, or a whole number."""
    pointers = {name: f"g.{name}" for name in ("A", "B", "C")} | {"workspace": "workspace", "null": "nullptr"}
    scalars = {name: f"g.{name}" for name in ("alpha", "beta")}
    more = {"stream": "stream"} if kind == LIBRARY else {}
    written = _in_cpp(text, {**numbers, **pointers, **scalars, **more}, key)
    named = set(re.findall(r"[A-Za-z_]\w*", str(text)))
    if named & pointers.keys():
        return f"Pointer{{{written}}}"
    if named & scalars.keys():
        return f"Scalar{{{written}}}"
    return written if named & more.keys() else f"static_cast<int64_t>({written})"
