"""Whether a source has the function of the contract, by its text, so that one without it is told before nvcc runs."""

from __future__ import annotations

import re

from ladder.config.cpp import canonical
from ladder.config.sources import INCLUDE, source_of_rung, sources
from ladder.model.rung import Rung
from ladder.system.paths import read_text

PARAMETERS = 14  # of sgemm (kernels/include/gemm.cuh)

_EXPORT = re.compile(r"\bEXPORT_SGEMM(?:_WITH_WORKSPACE)? ?\(")
_DEFINED = re.compile(r"\bsgemm ?\(([^()]*)\) ?{")
_REMEDY = (
    "with EXPORT_SGEMM(run) (docs/add-a-kernel.md), or say in a kernels.yaml, under `wrap`, how its kernel is called "
    "(docs/kernels-from-anywhere.md)"
)


def why_no_entry(rung: Rung) -> str:
    """Why a CUDA source cannot be called as a rung, in one line with the remedy; empty where nothing speaks against it.

    It ends with EXPORT_SGEMM, or defines sgemm with the contract's parameters; a macro of its own may do either. A
    wrapped source does not: the wrapper does it. Floors are not asked, for probes of the hardware are no product.
    """
    if rung.role == "floor":
        return ""
    if rung.wrap:
        own = _EXPORT.search(canonical(read_text(source_of_rung(rung))))
        return "it ends with EXPORT_SGEMM, so nothing needs to call it; leave `wrap` out of its entry" if own else ""
    texts = [canonical(read_text(file)) for file in sources(rung) if file.parent != INCLUDE]
    if any(map(_EXPORT.search, texts)):
        return ""
    defined = [len(found[1].split(",")) for text in texts for found in _DEFINED.finditer(text)]
    if defined and PARAMETERS not in defined:
        problem = f"its sgemm takes {defined[0]} parameters, and that of kernels/include/gemm.cuh takes {PARAMETERS}"
        return f"{problem}; give it another name and end the file {_REMEDY}"
    if any(re.search(r"\bsgemm\b", text) for text in texts):
        return ""
    return f"it has no sgemm that can be called; end the file {_REMEDY}"
