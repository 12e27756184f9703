"""The cases that a rung is checked with: on a GPU, in the emulator, and by compute-sanitizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ladder.model.shape import Shape

PLAIN = {"alpha": 1, "beta": 0, "padding": 0, "offset": 0, "family": "uniform"}
EMULATED_FLOP = 1 << 26  # of the largest product that is emulated,
EMULATED_WHOLE = 1 << 25  # of the largest that is emulated whole, and
EMULATED_SIDE = 1 << 16  # its largest dimension: what is beyond takes long on a CPU, so that only
EMULATED_BLOCKS = 64  # blocks of it are emulated, each launch's last one among them
EMULATED_SMALL = 1 << 16  # flop up to which a shape is emulated with every case, and not with one of them, and
EMULATED_SHORT = 1 << 10  # the k: a kernel's tile is no smaller where the product is
EMULATED_FAMILIES = 1 << 22  # flop up to which it is emulated with every family of inputs, and
EMULATED_TWICE = 1 << 20  # twice, in two orders
EMULATED_LONG = 1 << 9  # k beyond which there is one SM, for which a product of any size has tiles enough
# Beyond the cases of a GPU: one matrix of three unaligned; and rows so far apart, reserved and not filled, that an
# offset into a matrix needs more than 31 bits, and into two of them more than 32.
EMULATED_ALONE: tuple[dict[str, Any], ...] = (
    *(
        {"shape": "65x68x20", **PLAIN, "alpha": -1, "beta": -1, "padding": 4, "offset": offset}
        for offset in ([1, 0, 0], [0, 1, 0], [0, 0, 1])
    ),
    {"shape": "129x132x36", **PLAIN, "beta": 1, "padding": 1 << 26},
    {"shape": "129x5x35", **PLAIN, "padding": 1 << 26},
)


def all_cases(
    shapes: list[Shape],
    cases: list[Mapping[str, Any]],
    timed: list[Shape],
    families: list[str] | None = None,
    family_shapes: list[Shape] | None = None,
) -> list[dict[str, Any]]:
    """Every shape with every combination of scalars and layout on uniform inputs, the family's shapes with those that
    multiply on every other family, then the shapes to be timed as they are timed.
    """
    crossed = [{"shape": str(shape), **PLAIN, **case} for shape in dict.fromkeys(shapes) for case in cases]
    crossed += [
        {"shape": str(shape), **PLAIN, **case, "family": family}
        for family in families or ()
        for shape in family_shapes or ()
        for case in cases
        if case.get("alpha", 1) != 0
    ]
    return crossed + [case for case in ({"shape": str(shape), **PLAIN} for shape in timed) if case not in crossed]


def emulated_cases(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the cases that the emulator has the time for.

    All of small shapes; of every larger one and family a single one, another each time; of a very large or long one
    some blocks (`blocks`) at beta = 0, where it shows which elements they have computed. Of a long sum a GPU with a
    single SM (`sms`). Then EMULATED_ALONE.
    """
    chosen: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for case in cases:
        chosen.setdefault((case["shape"], case["family"]), []).append(case)
    kept = []
    for turn, ((text, family), of_shape) in enumerate(chosen.items()):
        shape = Shape.parse(text)
        if shape.flop > (EMULATED_FLOP if family == PLAIN["family"] else EMULATED_FAMILIES):
            continue
        if shape.k > EMULATED_LONG:
            of_shape = [case | {"sms": 1} for case in of_shape]
        computing = [case for case in of_shape if case["alpha"] != 0] or of_shape
        if shape.flop > EMULATED_WHOLE or max(shape.m, shape.n, shape.k) > EMULATED_SIDE:
            kept += [case | {"blocks": EMULATED_BLOCKS} for case in computing if case["beta"] == 0][:1]
            continue
        small = shape.flop <= EMULATED_SMALL and shape.k <= EMULATED_SHORT
        kept += of_shape if small else [computing[turn % len(computing)]]
    return kept + [dict(case) for case in EMULATED_ALONE]


def emulated_runs(case: Mapping[str, Any]) -> int:
    """How often the emulator computes a case, with another order of blocks and threads each time."""
    return 2 if Shape.parse(case["shape"]).flop <= EMULATED_TWICE else 1


def case_text(case: Mapping[str, Any]) -> str:
    """A case in the words of a message: its shape, and what differs from alpha 1, beta 0 and a tight layout."""
    extras = [
        f"{key.replace('family', 'inputs')} {format(case[key], 'g') if isinstance(case[key], float) else case[key]}"
        for key, value in PLAIN.items()
        if case.get(key, value) != value
    ]
    return ", ".join([case["shape"], *extras])


def sanitizer_cases(shapes: Sequence[str], cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every shape with every case of the check that multiplies anything, once."""
    layouts = [{key: case[key] for key in ("alpha", "beta", "padding", "offset")} for case in cases if case["alpha"]]
    distinct = [case for index, case in enumerate(layouts) if case not in layouts[:index]]
    return [{"shape": str(shape), **case} for shape in dict.fromkeys(shapes) for case in distinct]
