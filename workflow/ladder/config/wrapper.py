"""Kernels of another contract: what kernels.yaml's `wrap` declares, and the C++ source that puts it behind ours.

The wrapped source is included as it is, with its main() renamed. A compiled library is linked with, a cubin embedded. A
rung in Triton or cuTile is compiled to cubins, which `ladder.build.languages` leaves beside the wrapper.
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
MAIN_OF_SOURCE = "main_of_the_source"  # what it calls the source's main
LIBRARY, CUBIN, PYTHON, CUDA_SOURCE = ".so", ".cubin", ".py", ".cu"
EMBEDDED = (CUBIN, PYTHON)  # what is launched through the driver
SYMBOL = "gemm_ladder_kernel_"  # begins the names of functions of the host that stand for the kernels of a cubin
NUMBERS = ("m", "n", "k", "lda", "ldb", "ldc", "sms")
_DECLARED = re.compile(r"[A-Za-z_][\w\s*]*?\b([A-Za-z_]\w*)\s*\([\w\s*,]*\)")
_NAMED = re.compile(r"(?!.*<<)(?:[A-Za-z_]\w*::)*[A-Za-z_]\w*(?:<[\w\s,:<>()+*/-]*>)?")


def check_wrap(rung: Rung, place: str) -> None:
    """Raise LadderError where what `wrap` declares does not suit the source, or an expression is none."""
    wrap, kind = rung.wrap, Path(rung.source).suffix
    if (kind == PYTHON) != (rung.language != "cuda"):
        raise LadderError(f"{place}.language: {rung.language!r} is not that of a {kind} file; mend language or source")
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
    needed = {LIBRARY: (), PYTHON: ("grid",)}.get(kind, ("grid", "block"))
    if given := [key for key in ("block", "shared_bytes", "clear_c") if kind == PYTHON and wrap.get(key)]:
        raise LadderError(f"{place}.wrap.{given[0]}: the compiler of {rung.language} decides it; leave it out")
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
    file = Path(rung.source)
    ends = [each.below_flop for each in rung.tuned] or [float("inf")]
    lines = [
        f"// Made by the pipeline: {file.name} behind the contract of gemm.cuh.",
        *(f"#include <{name}>" for name in ("algorithm", "cstddef", "cstdint")),
        *(["#include <cuda.h>"] if file.suffix in EMBEDDED else []),
        "#include <cuda_runtime.h>",
        "",
        "namespace gemm_ladder {",
        '#include "gemm.cuh"',
        '#include "wrap.cuh"',
        *(['#include "module.cuh"'] if file.suffix in EMBEDDED else []),
        "}  // namespace gemm_ladder",
        "",
        *_of_source(rung),
        "",
        "namespace gemm_ladder {",
    ]
    for index, values in enumerate(macros_of_classes(rung)):
        lines += _run(rung, values, index)
    lines += ["static cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {"]
    for index, below in enumerate(ends[:-1]):
        lines += [f"  if (2.0 * g.m * g.n * g.k < {below:.17g}) {{"]
        lines += [f"    return run_{index}(g, workspace, stream);", "  }"]
    lines += [f"  return run_{len(ends) - 1}(g, workspace, stream);", "}", ""]
    lines += ["static size_t workspace_of(const Gemm& g) {"]
    for index, below in enumerate(ends[:-1]):
        lines += [f"  if (2.0 * g.m * g.n * g.k < {below:.17g}) {{", f"    return workspace_{index}(g);", "  }"]
    lines += [f"  return workspace_{len(ends) - 1}(g);", "}", ""]
    lines += ["#pragma GCC visibility push(default)", "EXPORT_SGEMM_WITH_WORKSPACE(run, workspace_of)"]
    return "\n".join([*lines, "#pragma GCC visibility pop", "}  // namespace gemm_ladder", ""])


def function_name(declaration: str) -> str:
    """The name of the C function that a declaration declares."""
    return _DECLARED.fullmatch(declaration.strip())[1]


def macros_of_classes(rung: Rung) -> list[dict[str, Any]]:
    """The values of the wrapper's parameters in each class of size that a rung is tuned for."""
    return [{**parameters_of(rung), **rung.macros, **each} for each in [each.macros for each in rung.tuned] or [{}]]


def image_names(rung: Rung) -> list[tuple[str, bool]]:
    """The embedded kernels of a rung by their symbols, and whether each relies on accesses of 16 bytes.

    Of a cubin its one; of a rung in another language two for each class of size.
    """
    name = (rung.wrap or {})["kernel"]
    if Path(rung.source).suffix == CUBIN:
        return [(name, False)]
    names = [f"{name}_{index}" for index in range(len(rung.tuned))] if len(rung.tuned) > 1 else [name]
    return [(f"{each}{ending}", aligned) for each in names for ending, aligned in (("", False), ("_aligned", True))]


def _of_source(rung: Rung) -> list[str]:
    """What is declared of a library, embedded of cubins, or included of a source."""
    wrap, file = rung.wrap or {}, Path(rung.source)
    if file.suffix == LIBRARY:
        return [f'extern "C" {wrap["function"].strip()};']
    if file.suffix in EMBEDDED:
        return [line for name, _ in image_names(rung) for line in _embedded(name)]
    in_emulator = ['#if __has_include("host_api.h")  // in the emulator', '#include "host_api.h"', "#endif"]
    return [
        *in_emulator,
        f"#define main static __attribute__((unused)) {MAIN_OF_SOURCE}",
        f'#include "{file.name}"',
        "#undef main",
        *in_emulator,
    ]


def _embedded(name: str) -> list[str]:
    """The image of a kernel, a function of the host by whose name an observer knows it, and what loads it once."""
    return [
        f'#include "{name}.h"',
        f'extern "C" __attribute__((used)) void {SYMBOL}{name}() {{}}',
        f"static const gemm_ladder::ModuleKernel& load_{name}() {{",
        f'  static const gemm_ladder::ModuleKernel kernel(image_{name}::words, "{name}");',
        "  return kernel;",
        "}",
        "",
    ]


def image_header(name: str, content: bytes, threads: int = 0, launch_threads: int = 0, shared_bytes: int = 0) -> str:
    """What a wrapper includes of a cubin: its words, and of a launch the threads of a block and its shared memory."""
    padded = content + bytes(-len(content) % 8)
    words = (int.from_bytes(padded[at : at + 8], "little") for at in range(0, len(padded), 8))
    return "\n".join(
        [
            f"namespace image_{name} {{",
            f"constexpr int64_t threads = {threads}, launch_threads = {launch_threads}, shared_bytes = {shared_bytes};",
            "alignas(64) static const unsigned long long words[] = {",
            ",\n".join(f"{word:#x}" for word in words),
            "};",
            "}",
            "",
        ]
    )


def _run(rung: Rung, values: Mapping[str, Any], index: int) -> list[str]:
    """The functions that launch with these values of the parameters, and say how large a workspace that takes."""
    wrap, kind = rung.wrap or {}, Path(rung.source).suffix
    numbers = {name: name for name in NUMBERS} | {name: str(value) for name, value in values.items()}

    def number(text: Any, key: str) -> str:
        return _in_cpp(text, numbers, key)

    arguments = [_argument(text, numbers, f"arguments[{at}]", kind) for at, text in enumerate(wrap["arguments"])]
    bytes_needed = number(wrap["workspace_bytes"], "workspace_bytes")
    images = image_names(rung) if kind in EMBEDDED else []
    images = images if kind == CUBIN else images[2 * index : 2 * index + 2]
    load = [f"    load_{name}();" for name, _ in images]
    load = ["  if (launch_observer == nullptr) {", *load, "  }"] if load else []
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
        call = f"::{function_name(declared)}({', '.join(arguments)})"
        called = [f"  {call};", "  return cudaGetLastError();"]
        called = called if declared.startswith("void ") else [f"  return static_cast<cudaError_t>({call});"]
        return [*lines, *_numbers(arguments), *_observed("return cudaSuccess;"), *called, "}", ""]
    grid, block = (
        f"extent({', '.join(number(each, f'{key}[{at}]') for at, each in enumerate(wrap.get(key, [1])))})"
        for key in ("grid", "block")
    )
    shared = number(wrap["shared_bytes"], "shared_bytes")
    if kind in EMBEDDED:
        given = [f"as_parameter({each})" for each in _parameters(rung, arguments)]
        lines += _numbers([*given, grid, block, shared])
        for name, aligned in sorted(images, key=lambda image: not image[1]):
            sizes = (block, block, shared)
            if kind == PYTHON:
                sizes = (f"extent(image_{name}::{each})" for each in ("threads", "launch_threads"))
                sizes = (*sizes, f"image_{name}::shared_bytes")
            launch = _launch_of_image(name, grid, *sizes, given)
            lines += ["  if (is_aligned(g)) {", *(f"  {line}" for line in launch), "  }"] if aligned else launch
        return [*lines, "}", ""]
    lines += _numbers([*arguments, grid, block, shared])
    words = {name: str(value) for name, value in values.items()}
    kernel = re.sub(r"\b[A-Z]\w*\b", lambda word: words.get(word[0], word[0]), wrap["kernel"].strip())
    call = ", ".join([f"::{kernel}", grid, block, f"static_cast<size_t>({shared})", "stream", *arguments])
    return [*lines, f"  return launch({call});", "}", ""]


def _launch_of_image(name: str, grid: str, told: str, block: str, shared: str, given: Sequence[str]) -> list[str]:
    """A launch of an embedded kernel; an observer is told the threads that its blocks have."""
    symbol = f"reinterpret_cast<const void*>(&::{SYMBOL}{name})"
    told = f"launch_observer({symbol}, {grid}, {told}, static_cast<size_t>({shared}));"
    call = f"  return load_{name}().launch({', '.join([grid, block, shared, 'stream', *given])});"
    return [*_observed(told, "return cudaSuccess;"), call]


def _parameters(rung: Rung, arguments: Sequence[str]) -> list[str]:
    """The arguments as the kernel of a language takes them.

    cuTile's calling convention passes a matrix as its address, its two dimensions and its two strides (cuTile Python,
    Compilation and Export); Triton appends two pointers to scratch memory, which our rungs have none of.
    """
    if rung.language == "triton":
        return [*arguments, "Pointer{nullptr}", "Pointer{nullptr}"]
    if rung.language != "cutile":
        return list(arguments)
    shapes = {"Pointer{g.A}": ("m", "k", "lda"), "Pointer{g.B}": ("k", "n", "ldb"), "Pointer{g.C}": ("m", "n", "ldc")}
    found = []
    for each in arguments:
        found += [each, *(f"static_cast<int64_t>({name})" for name in (*shapes[each], 1))] if each in shapes else [each]
    return found


def passed_parameters(rung: Rung) -> int:
    """How many parameters the wrapper passes to an embedded kernel of a rung."""
    return len(_parameters(rung, [f"Pointer{{g.{name}}}" for name in (rung.wrap or {})["arguments"]]))


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
