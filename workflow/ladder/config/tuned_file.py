"""The tuned file of a GPU, config/tuned/GPU.yaml: the macros that each rung is built with, by class of size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ladder.config.documents import nearest, read_shapes, read_yaml, validated
from ladder.config.search_space import macros_of
from ladder.model.rung import Rung, TunedClass
from ladder.model.shape import Shape, work_key
from ladder.system.errors import LadderError
from ladder.system.paths import ROOT, shown

HEAD = """\
# Written by `snakemake tune` from results/{gpu}/raw/trials: what rungs are built with on this GPU, for products of
# about as much work as each of these sizes. `--config tune='{{use: false}}'` builds the sources' defaults instead.
"""


@dataclass(frozen=True)
class Tuned:
    """What a tuned file holds: tune_sizes of the search, and by rung the macros of each size that it was tuned at.

    A rung's own sizes stand for its classes.
    """

    sizes: tuple[Shape, ...]
    rungs: Mapping[str, Mapping[Shape, Mapping[str, int]]]


def tuned_file(gpu: str, folder: Path | None = None) -> Path:
    """Where the tuned file of a GPU stands, if there is one: that of the project, or of a folder of results."""
    return (folder or ROOT / "config") / "tuned" / f"{gpu}.yaml"


def read_tuned(path: Path) -> Tuned:
    """Read a tuned file; raises LadderError where it breaks its schema."""
    file = shown(path)
    document = validated(read_yaml(path), "tuned", file)
    sizes = read_shapes(document["sizes"], file, "sizes")
    rungs = {
        name: {Shape.parse(size): macros for size, macros in classes.items()}
        for name, classes in document["rungs"].items()
    }
    return Tuned(tuple(sorted(sizes, key=work_key)), rungs)


def tuned_text(gpu: str, tuned: Tuned) -> str:
    """The text of a tuned file; equal choices give equal bytes."""
    import yaml

    lines = [HEAD.format(gpu=gpu), f"sizes: {yaml.safe_dump([_key(s) for s in tuned.sizes], default_flow_style=True)}"]
    lines.append("rungs:\n" if tuned.rungs else "rungs: {}\n")
    for name, classes in tuned.rungs.items():
        lines.append(f"  {name}:\n")
        for size in sorted(classes, key=work_key):
            macros = ", ".join(f"{key}: {value}" for key, value in classes[size].items())
            lines.append(f'    "{size}": {{{macros}}}\n')
    return "".join(lines)


def _key(shape: Shape) -> int | str:
    return int(str(shape)) if str(shape).isdigit() else str(shape)


def with_tuned(ladder: Mapping[str, Rung], path: Path) -> dict[str, Rung]:
    """The ladder with the tuned file's macros, where there is such a file; macros of a variant's own name stay.

    Raises LadderError for a rung that the ladder does not have.
    """
    if not path.is_file():
        return dict(ladder)
    tuned = read_tuned(path)
    for name in tuned.rungs:
        if name not in ladder:
            raise LadderError(f"{shown(path)}: rungs.{name}: is no rung; {nearest(name, ladder)}")
        for size, macros in tuned.rungs[name].items():
            known = macros_of(ladder[name])
            if unknown := next((macro for macro in macros if macro not in known), None):
                place = f"{shown(path)}: rungs.{name}.{size}.{unknown}"
                raise LadderError(f"{place}: is no macro with a default in the source; {nearest(unknown, known)}")
    found = dict(ladder)
    for name, classes in tuned.rungs.items():
        found[name] = replace(found[name], tuned=size_classes(classes))
    return found


def size_classes(macros: Mapping[Shape, Mapping[str, int]]) -> tuple[TunedClass, ...]:
    """The classes of a rung in rising order, from its macros at each size; neighbours with the same macros are one.

    Two classes meet where a product is as many times the work of the smaller size as the larger size is of its own:
    at the geometric mean of their floating-point operations. The last class has no end.
    """
    classes: list[TunedClass] = []
    sizes = sorted(macros, key=work_key)
    for index, size in enumerate(sizes):
        last = index + 1 == len(sizes)
        below = math.inf if last else math.sqrt(size.flop * sizes[index + 1].flop)
        chosen = {key: str(value) for key, value in macros[size].items()}
        if classes and classes[-1].macros == chosen:
            classes.pop()
        classes.append(TunedClass(below, chosen))
    return tuple(classes)


def odd_shapes(classes: tuple[TunedClass, ...]) -> list[Shape]:
    """For each class of size but the first a shape just inside it whose m, n and k are odd and differ.

    The shapes that rungs are checked with are small, and would leave what is built for large products unchecked.
    """
    shapes = []
    for before in classes[:-1]:
        side = math.ceil((before.below_flop / 2) ** (1 / 3)) // 2 * 2
        shapes.append(Shape(side + 5, side + 3, side + 1))
    return shapes
