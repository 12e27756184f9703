"""The numbers that the sources of a rung name, around which cases of the check are drawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from ladder.config.cpp import canonical
from ladder.config.sources import source_of_rung, source_text, sources
from ladder.model.drawn import ANY, Bounded, Named
from ladder.model.rung import Rung
from ladder.model.shape import Shape
from ladder.system.paths import read_text

CPP = (".cu", ".cuh", ".h", ".hpp", ".cpp")  # how files that are read for numbers end
LARGEST_NAMED = 4096  # of the numbers that a dimension is drawn around: what is larger limits work, if anything
LARGEST_COMPARED = 1 << 17  # of the numbers that a dimension is compared with
MOST_FEW = 32  # up to which a number that a dimension is compared with is small
# What the sides of the tile that a block computes are called, m, n and k, or all of them: in small letters, and without
# `_`, a `size` and the `k` of a constant.
ALL_SIDES = ("tile", "block")
SIDES = tuple((f"b{side}", f"block{side}", f"tile{side}", f"{side}tile", *ALL_SIDES) for side in "mnk")

_NUMBER = r"(?:0[xX][0-9a-fA-F']+|[0-9][0-9']*(?:\.[0-9]*)?(?:[eE][0-9]+)?)[uUlLfF]*"
_TERM = re.compile(rf"(?<![\w.])({_NUMBER})(?: ?(<<|\*) ?({_NUMBER})(?![\w.]))?(?![\w.])")
_CONSTANT = re.compile(rf"\b(\w+) ?(?:=|\{{) ?({_NUMBER})(?= ?[,;}}>)])")
_DEFINED = re.compile(rf"^#define (\w+) ({_NUMBER})$", re.MULTILINE)
# A dimension that is compared with a number, or with what may be the name of one.
_COMPARED = re.compile(rf"(?<![\w.])(?:\w+\.)?([mnk]) ?([=!<>]=|[<>]) ?({_NUMBER}|[A-Za-z_]\w*)(?![\w.])")
_ALLOWED: dict[str, Callable[[int], tuple[int, int]]] = {  # the least and the largest that a comparison allows
    "<": lambda number: (1, number - 1),
    "<=": lambda number: (1, number),
    ">": lambda number: (number + 1, ANY),
    ">=": lambda number: (number, ANY),
    "==": lambda number: (number, number),
    "!=": lambda number: (1, ANY),
}
_SWITCH = re.compile(r"\bswitch \( (?:\w+ \. )?([mnk]) \) \{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")
_CASE = re.compile(rf"\bcase ({_NUMBER}) :")
_STATEMENT = re.compile(r"[;{}?]")
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
        regions=_some(_regions(each, chosen[-1]) for each in [text, *headers]),
        pairs=_some([_pairs(text, chosen[-1])]),
    )


def _some(regions: Iterable[Iterable[Bounded]]) -> tuple[Bounded, ...]:
    """Each region once, in order."""
    return tuple(sorted({region for some in regions for region in some if region}))


def _few(text: str) -> Iterator[tuple[str, int]]:
    """The dimensions that a text compares with a small number, and that number."""
    for name, _, text_of_number in _COMPARED.findall(_compared(text)):
        number = _whole(text_of_number, {})
        if 1 <= number <= MOST_FEW:
            yield name, number


def _regions(text: str, macros: Mapping[str, str]) -> Iterator[Bounded]:
    """Where several comparisons of a text with numbers hold at once: those that `&&` joins, or none of those of `||`.

    A single one counts where its number is so large that no dimension is drawn around it.
    """
    values = _values(text, macros)
    for statement in _STATEMENT.split(_compared(text)):
        parts = [_bounds(part, values) for part in statement.split("||")]
        if len(parts) > 1 and "&&" not in statement:
            parts = [[_outside(each) for part in parts for each in part]]
        yield from (_region(part) for part in parts if len(part) > 1 or any(map(_is_far, part)))


def _pairs(text: str, macros: Mapping[str, str]) -> Iterator[Bounded]:
    """Where two comparisons of two dimensions hold that stand in different statements, as of an `if` in another."""
    values = _values(text, macros)
    found: dict[tuple[str, int, int], int] = {}
    for place, statement in enumerate(_STATEMENT.split(_compared(text))):
        for each in _bounds(statement, values):
            found.setdefault(each, place)
    for (one, place), (other, other_place) in combinations(found.items(), 2):
        if place != other_place and one[0] != other[0]:
            yield _region([one, other])


def _values(text: str, macros: Mapping[str, str]) -> dict[str, int]:
    """The constants of a text and its macros that are whole numbers, by their names."""
    code = _code(text)
    found = {name: _value(number) for name, number in [*_CONSTANT.findall(code), *_DEFINED.findall(code)]}
    chosen = {name: int(value) for name, value in macros.items() if value.isdigit()}
    return {name: value for name, value in {**found, **chosen}.items() if value is not None}


def _bounds(part: str, values: Mapping[str, int]) -> list[tuple[str, int, int]]:
    """The least and the largest size that each comparison of a dimension with a number allows."""
    found = []
    for name, sign, text in _COMPARED.findall(part):
        number = _whole(text, values)
        least, largest = _ALLOWED[sign](number)
        if 1 <= number <= LARGEST_COMPARED and largest >= 1 and (least, largest) != (1, ANY):
            found.append((name, least, largest))
    return found


def _whole(text: str, values: Mapping[str, int]) -> int:
    """The whole number that a text is or names; 0 where it is none."""
    return (_value(text) if text[0].isdigit() else values.get(text)) or 0


def _is_far(bounds: tuple[str, int, int]) -> bool:
    return any(LARGEST_NAMED < bound < ANY for bound in bounds[1:])


def _outside(bounds: tuple[str, int, int]) -> tuple[str, int, int]:
    """What a comparison does not allow; of a single size what is larger."""
    name, least, largest = bounds
    return (name, 1, least - 1) if largest == ANY else (name, largest + 1, ANY)


def _region(bounds: Iterable[tuple[str, int, int]]) -> Bounded:
    """What all bounds allow, or nothing where that is no product."""
    found: dict[str, tuple[int, int]] = {}
    for name, least, largest in bounds:
        before = found.get(name, (1, ANY))
        found[name] = max(least, before[0]), min(largest, before[1])
    if any(least > largest for least, largest in found.values()):
        return ()
    return tuple(sorted((name, *both) for name, both in found.items()))


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


def _compared(text: str) -> str:
    """A source's code in which each `case` of a `switch` of a dimension is a comparison with it."""

    def with_comparisons(switch: re.Match[str]) -> str:
        return _CASE.sub(rf"; {switch[1]} == \1 ;", switch[0])

    return _SWITCH.sub(with_comparisons, _code(text))


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
