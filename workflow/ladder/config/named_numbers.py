"""The numbers that the sources of a rung name, around which cases of the check are drawn."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ladder.config.cpp import canonical
from ladder.config.sources import source_of_rung, source_text, sources
from ladder.model.drawn import Named
from ladder.model.rung import Rung
from ladder.model.shape import Shape
from ladder.system.paths import read_text

CPP = (".cu", ".cuh", ".h", ".hpp", ".cpp")  # how files that are read for numbers end
LARGEST_NAMED = 4096  # of the numbers that a dimension is drawn around: what is larger limits work, if anything
MOST_FEW = 32  # up to which a number that a dimension is compared with is small
# What the sides of the tile that a block computes are called, m, n and k, or all of them: in small letters, and without
# `_`, a `size` and the `k` of a constant.
ALL_SIDES = ("tile", "block")
SIDES = tuple((f"b{side}", f"block{side}", f"tile{side}", f"{side}tile", *ALL_SIDES) for side in "mnk")

_NUMBER = r"(?:0[xX][0-9a-fA-F']+|[0-9][0-9']*(?:\.[0-9]*)?(?:[eE][0-9]+)?)[uUlLfF]*"
_TERM = re.compile(rf"(?<![\w.])({_NUMBER})(?: ?(<<|\*) ?({_NUMBER})(?![\w.]))?(?![\w.])")
_CONSTANT = re.compile(rf"\b(\w+) ?(?:=|\{{) ?({_NUMBER})(?= ?[,;}}>)])")
_DEFINED = re.compile(rf"^#define (\w+) ({_NUMBER})$", re.MULTILINE)
_COMPARED = re.compile(rf"(?<![\w.])(?:\w+\.)?([mnk]) ?(?:[=!<>]=|[<>]) ?({_NUMBER})(?![\w.])")
_TEXT = re.compile(r'"(?:\\.|[^"\\\n])*"')


def named_by(rung: Rung, all_classes: bool = True) -> Named:
    """The numbers in a rung's source, its headers and its macros, and the limits of its classes of size.

    With `all_classes` the macros of every class of size count, else those of the first one alone.
    """
    classes = rung.tuned if all_classes else rung.tuned[:1]
    chosen = [{**rung.macros, **each.macros} for each in classes] or [rung.macros]
    own = source_of_rung(rung)
    text = source_text(rung) if own.suffix in CPP else ""  # of another language the parameters alone
    found = [number for macros in chosen for number in _numbers([text], macros)]
    headers = [read_text(path) for path in sources(rung) if path != own and path.suffix in CPP]
    others = list(_numbers(headers, {}))
    limits = [int(each.below_flop) for each in rung.tuned[:-1]] if all_classes else []
    return Named(
        own=_small(found),
        others=_small(others),
        work=tuple(sorted({*limits, *(each for each in [*found, *others] if LARGEST_NAMED < each < 1 << 40)})),
        tile=_tile(text, chosen[-1], _small(found)),
        few=tuple(sorted({few for each in [text, *headers] for few in _few(each)})),
    )


def _few(text: str) -> Iterator[tuple[str, int]]:
    """The dimensions that a text compares with a small number, and that number."""
    for name, number in _COMPARED.findall(_code(text)):
        if 1 <= (_value(number) or 0) <= MOST_FEW:
            yield name, int(_value(number) or 0)


def _small(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted({each for each in numbers if 2 <= each <= LARGEST_NAMED}))


def _numbers(texts: Iterable[str], macros: Mapping[str, str]) -> Iterator[int]:
    """Every whole number of the texts, and what two of them make with << or *; of macros the values in force."""
    for whole in texts:
        text = _DEFINED.sub(lambda line: "" if line[1] in macros else line[0], _code(whole))
        for one, operator, other in _TERM.findall(text):
            values = [value for value in map(_value, (one, other)) if value is not None]
            yield from values
            if operator and len(values) == 2:
                yield values[0] << min(values[1], 64) if operator == "<<" else values[0] * values[1]
    yield from (int(value) for value in macros.values() if value.isdigit())


def _code(text: str) -> str:
    """A source without comments, texts and the lines that include others."""
    code = "\n".join(line for line in canonical(text).splitlines() if not line.startswith("#include"))
    return _TEXT.sub("", code)


def _value(text: str) -> int | None:
    """A number's value if it is a whole one: 1e9 is, 0.5 and 1.0f are not taken for one."""
    digits = text.replace("'", "")
    if digits.lower().startswith("0x"):
        return int(digits.rstrip("uUlL"), 16)
    digits = digits.rstrip("uUlLfF")
    value = float(digits) if digits else 0.0
    return int(value) if value.is_integer() and ("." not in digits or value >= LARGEST_NAMED) else None


def _tile(text: str, macros: Mapping[str, str], numbers: Sequence[int]) -> Shape:
    """The tile of a block by the names of SIDES; where there is none, the largest powers of two that are likely."""
    constants = [(name, _value(number)) for name, number in _CONSTANT.findall(_code(text))]
    defined = [(name, _value(number)) for name, number in _DEFINED.findall(canonical(text)) if name not in macros]
    chosen = [(name, int(value)) for name, value in macros.items() if value.isdigit()]
    sides = []
    for names, most in zip(SIDES, (128, 128, 32), strict=True):
        named = [
            value
            for side in names
            for found in (chosen, defined, constants)
            for name, value in found
            if value and _plain(name) == side and (side not in ALL_SIDES or value <= most)
        ]
        likely = [each for each in numbers if each <= most and each & (each - 1) == 0]
        sides.append((named or likely[-1:] or [most // 2])[0])
    return Shape(*sides)


def _plain(name: str) -> str:
    """The name of a constant as SIDES has it."""
    return name.removeprefix("k").replace("_", "").lower().replace("size", "")
