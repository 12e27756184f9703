"""Mutants: what they are, how they are drawn, and how one is put together again from its record."""

from __future__ import annotations

import contextlib
import io
import random
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ladder.config.cpp import tokens
from ladder.config.sources import sources
from ladder.model.rung import Rung
from ladder.records.store import digest
from ladder.system.errors import LadderError
from mutation_operators import OPERATORS, Code, Edit

RULES = ["universal.rules", "c_like.rules", "cpp.rules"]  # universalmutator's own for C++
NO_CODE = [r"^\s*#", r"static_assert"]  # lines that it leaves alone: what compiles of them is the same code
# What universalmutator's rules do, by the first of these that is in a rule.
KINDS = {
    r"(\S+.*)": "a jump inserted",
    r"(\S+[^{}]": "a line left out",
    "if": "a condition changed",
    "while": "a condition changed",
    "else": "a condition changed",
    r"(\d+)": "a number changed",
    "&&": "a logical operator changed",
    r"\|\|": "a logical operator changed",
    "!=": "a comparison changed",
    "==": "a comparison changed",
    "<": "a comparison changed",
    ">": "a comparison changed",
    "min": "a function changed",
    "max": "a function changed",
    "begin": "a function changed",
    r"[,\(": "arguments swapped",
    "&": "a bit operator changed",
    r"([^|])\|": "a bit operator changed",
    "!": "a negation left out",
}


@dataclass(frozen=True)
class Mutant:
    """A file of a rung with one place changed: the lines `old`, the nth such lines of the file, become `new`.

    `line` is where they stood when the mutant was made; comments may have moved them since.
    """

    file: str
    line: int
    nth: int
    operator: str
    old: str
    new: str

    @property
    def id(self) -> str:
        """What the record, the explanations and the page call it, in the rung whose record has it."""
        return digest(self.file, str(self.nth), self.old, self.new)[:8]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Mutant:
        """The mutant of a record, of which it takes its own keys."""
        return cls(**{key: record[key] for key in cls.__annotations__})

    def as_record(self) -> dict[str, Any]:
        """The mutant as records have it."""
        return {"id": self.id, **asdict(self)}

    def apply(self, text: str) -> str:
        """The text of its file with the change; raises LadderError where the file has no such lines."""
        starts = _starts(text, self.old)
        if self.nth >= len(starts):
            raise LadderError(f"{self.file}:{self.line}: is not what mutant {self.id} changes; record mutants anew")
        start = starts[self.nth]
        return text[:start] + self.new + text[start + len(self.old) :]


def _starts(text: str, lines: str) -> list[int]:
    """Where some lines begin in a text."""
    return [found.start() for found in re.finditer(rf"^{re.escape(lines)}", text, re.MULTILINE)]


def mutant(code: Code, file: str, operator: str, edit: Edit) -> Mutant:
    """An edit as the whole lines that it changes."""
    first = code.text.rfind("\n", 0, edit.start) + 1
    last = code.text.find("\n", edit.end - (edit.end > edit.start)) + 1 or len(code.text)
    old = code.text[first:last]
    new = code.text[first : edit.start] + edit.new + code.text[edit.end : last]
    line = code.text.count("\n", 0, first) + 1
    return Mutant(file, line, _starts(code.text, old).index(first), operator, old, new)


def by_universalmutator(code: Code) -> Iterator[tuple[str, Edit]]:
    """What universalmutator's rules for C++ make of a source: what each does, and the line that it changes.

    Raises LadderError where universalmutator is not installed.
    """
    try:
        from universalmutator.mutator import mutants_regexp
    except ModuleNotFoundError as error:
        raise LadderError("universalmutator is missing; install envs/mutants.txt, as make dev does") from error

    lines = code.text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    with contextlib.redirect_stdout(io.StringIO()):  # it names its rules
        found = mutants_regexp(lines, RULES, ignorePatterns=NO_CODE)
    for number, text, (rule, _), _ in found:
        kind = next((kind for mark, kind in KINDS.items() if mark in rule.partition(" ==> ")[0]), "arithmetic changed")
        yield kind, Edit(starts[number - 1], starts[number], text)


@cache
def mutants_of(path: Path) -> dict[str, list[Mutant]]:
    """Every mutant of a file by its operator, those of CUDA's own first; one that two operators make counts once."""
    code = Code(path.read_text())
    edits = [(name, edit) for name, rule in OPERATORS.items() for edit in rule(code)]
    seen, found = set(), {}
    for name, edit in [*edits, *by_universalmutator(code)]:
        one = mutant(code, path.name, name, edit)
        change = (one.line, *_tokens(one.new))
        if change not in seen and _tokens(one.old) != _tokens(one.new):
            found.setdefault(name, []).append(one)
        seen.add(change)
    return found


def _tokens(text: str) -> list[str]:
    """What a compiler sees of some lines."""
    return [token for kind, token in tokens(text) if kind not in ("space", "end", "nothing")]


def drawn(rung: Rung, seed: int) -> list[Mutant]:
    """Every mutant of a rung's files in the order of a seed.

    One of CUDA's operators and one of universalmutator's take turns, and so do the operators of each; of an operator a
    file comes with the number of mutants that it has of it.
    """
    random_order = random.Random(f"{seed} {rung.entry}")
    found: dict[str, list[Mutant]] = {}
    for path in sources(rung):
        for name, some in mutants_of(path).items():
            found.setdefault(name, []).extend(some)
    for name in sorted(found):
        random_order.shuffle(found[name])
    names = sorted(found)
    random_order.shuffle(names)
    own = _in_turn([found[name] for name in names if name in OPERATORS])
    others = _in_turn([found[name] for name in names if name not in OPERATORS])
    return _in_turn([own, others])


def _in_turn(lists: Sequence[Sequence[Mutant]]) -> list[Mutant]:
    """The first of each, then the second of each, and so on."""
    return [each for row in zip_longest(*lists) for each in row if each is not None]


def written(rung: Rung, one: Mutant | None, folder: Path) -> Path:
    """Write all files of a rung into a folder, with the change of a mutant or without; the path of its source."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = sources(rung)
    for path in paths:
        copy = Path(shutil.copy2(path, folder))  # with its time: g++ then knows it for the file that is precompiled
        if one and one.file == path.name:
            copy.write_text(one.apply(path.read_text()))
    return folder / paths[0].name
