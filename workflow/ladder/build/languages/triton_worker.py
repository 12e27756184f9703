"""The process that compiles one image of a rung in Triton; Triton is imported here and nowhere else."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any

from ladder.build.languages.worker import POINTERS, answer_with, load

# Beside `constexpr` parameters of the kernel: what Triton is asked for by other names.
TRITON_OPTIONS = {"WARPS": "num_warps", "STAGES": "num_stages"}
_TYPES = {**dict.fromkeys(POINTERS, "*fp32"), "alpha": "fp32", "beta": "fp32", "m": "i32", "n": "i32", "k": "i32"}
# Multiples that the aligned image relies on: of bytes for pointers, of elements for what accesses begin at.
_ALIGNED = {**dict.fromkeys(POINTERS, 16), **dict.fromkeys(("n", "k", "lda", "ldb", "ldc"), 4)}


def compile_triton(asked: dict[str, Any]) -> dict[str, Any]:
    """Compile the image that is asked for; threads, shared memory, or the error of the source.

    Its PTX is left beside it. Triton's own cache is not used: it does not look at the lines on which a source stands.
    """
    with tempfile.TemporaryDirectory(prefix="gemm-ladder-") as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        return _compile(asked)


def _compile(asked: dict[str, Any]) -> dict[str, Any]:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, CompilationError

    if "version" in asked:
        return {"version": f"triton {triton.__version__}"}
    kernel = load(asked["file"], asked["kernel"])
    if not isinstance(kernel, triton.JITFunction):
        return {"error": f"{asked['kernel']}: is no kernel of Triton; put @triton.jit above it"}
    names = kernel.arg_names
    given = dict(zip(names, asked["arguments"], strict=False))
    constants = {name: value for name, value in asked["constants"].items() if name not in TRITON_OPTIONS}
    if missing := [name for name in names if name not in given and name not in constants]:
        return {"error": f"{asked['kernel']}: the parameter {missing[0]} is neither among arguments nor parameters"}
    if unknown := [name for name in constants if name not in names]:
        return {"error": f"{asked['kernel']}: has no parameter {unknown[0]}, which kernels.yaml gives a value"}
    signature = {name: "constexpr" if name in constants else _TYPES.get(str(given[name]), "i64") for name in names}
    multiples = {(at,): [["tt.divisibility", _ALIGNED[given[name]]]] for at, name in enumerate(names) if name in given
                 and asked["aligned"] and given[name] in _ALIGNED}  # fmt: skip
    taken = [name for name in names if name not in constants]
    if len(asked["arguments"]) > len(taken):
        problem = f"takes {len(taken)} arguments beside constants, and kernels.yaml gives {len(asked['arguments'])}"
        return {"error": f"{asked['kernel']}: {problem}; mend wrap.arguments"}
    options = {TRITON_OPTIONS[name]: value for name, value in asked["constants"].items() if name in TRITON_OPTIONS}
    kernel._repr = lambda _: asked["name"]  # the name that the kernel has in its cubin
    capability = int(re.sub(r"\D", "", asked["architecture"]))
    try:
        made = triton.compile(
            ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=multiples),
            target=GPUTarget("cuda", capability, 32),
            options=options,
        )
    except CompilationError as error:
        return {"error": _said(error)[:300]}
    if made.metadata.global_scratch_size:
        return {"error": f"{asked['kernel']}: needs scratch memory, which a rung has not; leave out tensor descriptors"}
    Path(asked["output"]).write_bytes(made.asm["cubin"])
    Path(asked["output"]).with_suffix(".ptx").write_text(made.asm["ptx"])
    threads = 32 * made.metadata.num_warps
    return {"threads": threads, "launch_threads": threads, "shared_bytes": made.metadata.shared}


def _said(error: Any) -> str:
    """What is wrong, behind the line of the innermost function that Triton was compiling."""
    while isinstance(error.__cause__, type(error)):
        error = error.__cause__
    line = getattr(error.node, "lineno", 0)
    text = error.src.splitlines()[line - 1].strip() if error.src and line else ""
    said = " ".join(str(error.error_message or error.__cause__ or type(error).__name__).split())
    return f"`{text}`: {said}" if text else said


if __name__ == "__main__":
    answer_with(compile_triton)
