"""What `snakemake tune` varies of a rung: its parameters, and which combinations of them are worth compiling.

kernels.yaml declares the parameters with the values to try, and restrictions on them, Python expressions. What the
static_asserts of a source refuse stands in the source alone: there the compiler refuses it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ladder.config.documents import read_shapes
from ladder.config.sources import source_text
from ladder.config.wrapper import parameters_of
from ladder.model.expressions import evaluate
from ladder.model.gpu import Gpu
from ladder.model.rung import Rung
from ladder.model.shape import Shape, work_key
from ladder.system.errors import LadderError

STATIC_SHARED_KIB = 48  # of a block that asks for no more: taken where the GPU's limits are not known
SYSTEM_SHARED_KIB = 1  # that CUDA keeps of each block, from compute capability 8.0 on

Macros = dict[str, int]

_DEFAULT = re.compile(r"^#ifndef\s+([A-Z][A-Z0-9_]*)\s*\n#define\s+\1\s+(\d+)\s*$", re.MULTILINE)


def defaults(source: str) -> Macros:
    """The macros that a source lets be overridden, with the values that it gives them otherwise."""
    return {name: int(value) for name, value in _DEFAULT.findall(source)}


def macros_of(rung: Rung) -> Macros:
    """The macros that may be chosen for a rung with their values: those of its source, and the wrapper's parameters."""
    return {**defaults(source_text(rung)), **parameters_of(rung)}


@dataclass(frozen=True)
class SearchSpace:
    """What kernels.yaml declares of an entry under `tune`, and the macros of its source with their defaults."""

    sizes: tuple[Shape, ...]  # at which the entry is tuned, by rising work; empty where tune_sizes are
    parameters: Mapping[str, tuple[int, ...]]
    restrictions: tuple[str, ...]
    shared_bytes: str
    defaults: Macros
    where: str

    @classmethod
    def of(cls, rung: Rung) -> SearchSpace:
        """That of a rung's entry, which has one.

        Raises LadderError where a size is none, a parameter no macro that the source lets be overridden, or an
        expression none.
        """
        declared, file = rung.tune or {}, rung.file
        where = f"{file}: {rung.entry}.tune"
        sizes = sorted(read_shapes(declared["sizes"], file, f"{rung.entry}.tune.sizes"), key=work_key)
        known = macros_of(rung)
        parameters = {name: tuple(values) for name, values in declared["parameters"].items()}
        space = cls(tuple(sizes), parameters, tuple(declared["restrictions"]), declared["shared_bytes"], known, where)
        for name in (name for name in parameters if name not in known):
            listed = ", ".join(known) or "none"
            raise LadderError(f"{where}: {name} is no macro with a default in the source; known: {listed}")
        for expression in (*space.restrictions, space.shared_bytes):
            space._value(expression, space.default)
        return space

    @property
    def default(self) -> Macros:
        """The source's own values of the parameters."""
        return {name: self.defaults[name] for name in self.parameters}

    def combinations(self, gpu: Gpu) -> list[Macros]:
        """Every combination of the parameters that is worth compiling for a GPU, the source's own defaults first.

        Those that no restriction forbids, and of which the GPU's shared memory holds a block, and as many in an SM as
        the macro MIN_BLOCKS says where the source has it.
        """
        every = itertools.product(*self.parameters.values())
        others = (dict(zip(self.parameters, values, strict=True)) for values in every)
        found = [self.default, *(macros for macros in others if macros != self.default)]
        return [
            macros
            for macros in found
            if all(self._value(each, macros) for each in self.restrictions) and self._fits(macros, gpu)
        ]

    def _fits(self, macros: Macros, gpu: Gpu) -> bool:
        shared = self._value(self.shared_bytes, macros)
        if "shared_memory_per_sm_kib" not in gpu.limits:
            return shared <= STATIC_SHARED_KIB << 10
        blocks = {**self.defaults, **macros}.get("MIN_BLOCKS", 1)
        return (shared + (SYSTEM_SHARED_KIB << 10)) * blocks <= gpu.limits["shared_memory_per_sm_kib"] << 10

    def _value(self, expression: str, macros: Macros) -> int:
        try:
            return evaluate(expression, {**self.defaults, **macros}, "macro", "with a default in the source")
        except ValueError as error:
            raise LadderError(f"{self.where}: {error}") from None
