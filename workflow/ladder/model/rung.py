"""A rung: one kernel with one choice of macros, and how it is named."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ladder.model.precision import BOUNDS

if TYPE_CHECKING:
    pass
from ladder.model.shape import Shape


@dataclass(frozen=True)
class TunedClass:
    """What a rung is built with for the products of a class: those of fewer operations than `below_flop`."""

    below_flop: float
    macros: Mapping[str, str]


@dataclass(frozen=True)
class Rung:
    """One library to build and measure: an entry of kernels.yaml with one choice of macros."""

    name: str
    entry: str
    title: str
    source: str
    macros: Mapping[str, str]
    precision: str
    role: str
    before: str | None
    compute_capability: str
    tune: Mapping[str, Any] | None = field(default=None, compare=False)  # the space declared for its entry
    tuned: tuple[TunedClass, ...] = ()  # from the GPU's tuned file, by rising size
    deterministic: bool = True
    subnormals: str = "gradual"
    newest_compute_capability: str | None = None
    claims: Mapping[str, Any] = field(default_factory=dict)  # what it computes of SGEMM: `ladder.model.claims`
    baselines: tuple[str, ...] = ()  # that it is compared with: `ladder.model.precision.baselines_of`
    wrap: Mapping[str, Any] | None = None  # how a kernel of another contract is called: `ladder.config.wrapper`
    language: str = "cuda"  # or triton, cutile: `ladder.build.languages`
    file: str = "config/kernels.yaml"  # the ladder that it stands in, as messages name it

    def macros_at(self, shape: Shape) -> dict[str, str]:
        """The macros that products of a shape are computed with: the rung's own and those of its class of size."""
        chosen = next((each.macros for each in self.tuned if shape.flop < each.below_flop), {})
        return {**self.macros, **chosen}

    @property
    def parameters(self) -> str:
        """The tuned macros as tables print them, `BM=64 BN=64 below 1.7e+10 FLOP, else BM=128 BN=128`; or nothing."""
        texts = []
        for each in self.tuned:
            macros = " ".join(f"{key}={value}" for key, value in each.macros.items())
            texts.append(macros if math.isinf(each.below_flop) else f"{macros} below {each.below_flop:.2g} FLOP")
        return ", else ".join(texts)

    def runs_on(self, compute_capability: str) -> bool:
        """Whether a GPU of this compute capability has the instructions that the rung needs."""
        newest = float(self.newest_compute_capability or "inf")
        return float(self.compute_capability) <= float(compute_capability) <= newest

    @property
    def as_built(self) -> Rung:
        """The rung without what its library does not depend on: its words and its place in the ladder."""
        return replace(self, title="", before=None, tune=None, baselines=(), claims={}, file="")

    @property
    def declared(self) -> dict[str, Any]:
        """What the rung says of its results, and is held to by its check."""
        return {"deterministic": self.deterministic, "subnormals": self.subnormals, "precision": BOUNDS[self.precision]}


def variant_name(entry: str, macros: Mapping[str, object]) -> str:
    """`tiled@TILE=8`: the entry and its macros in the order written, or the bare entry without macros."""
    return entry + ("@" + ",".join(f"{key}={value}" for key, value in macros.items()) if macros else "")


def parse_variant(name: str) -> tuple[str, dict[str, str]]:
    """Split `tiled@TILE=8,X=1` into the entry and its macros; raises ValueError where it is not written so."""
    macro = "[A-Z][A-Z0-9_]*=[A-Za-z0-9_]+"
    match = re.fullmatch(f"([a-z][a-z0-9_]*)(?:@({macro}(?:,{macro})*))?", name)
    if match is None:
        raise ValueError(f"{name!r} is neither a kernel's name nor NAME@MACRO=VALUE,MACRO=VALUE")
    pairs = [pair.split("=") for pair in match[2].split(",")] if match[2] else []
    if len(dict(pairs)) < len(pairs):
        raise ValueError(f"{name!r} gives a macro twice")
    return match[1], dict(pairs)
