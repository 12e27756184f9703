"""The operators of CUDA's own that `make mutants` applies: each changes one place of a source as a person may slip.

An operator is a function that finds its places among the tokens of a source and gives an `Edit` for each; its name is
what the record and the page call it. To add one, write it here under `@operator`, and a line for it in
tests/test_mutants.py. What is of C++ and not of CUDA comes from universalmutator's rules (mutants.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ladder.config.cpp import tokens


class Token(NamedTuple):
    """A token: its kind (a group of `ladder.config.cpp`), its text, and where in the source it begins and ends."""

    kind: str
    text: str
    start: int
    end: int


class Edit(NamedTuple):
    """What stands from start to end of a source becomes `new`."""

    start: int
    end: int
    new: str


class Call(NamedTuple):
    """A call: its name without qualifiers, where it begins and ends, and its arguments as spans of the source."""

    name: str
    start: int
    end: int
    arguments: list[tuple[int, int]]
    is_statement: bool


OPENING, CLOSING = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}
NO_CALL = {"if", "for", "while", "switch", "return", "static_assert", "sizeof", "asm", "alignas", "defined", "volatile"}


@dataclass(frozen=True)
class Code:
    """A source as the operators see it."""

    text: str

    @cached_property
    def tokens(self) -> list[Token]:
        """The tokens without white space, comments, preprocessor directives and what is asserted at compile time."""
        found, start, directive, asserted = [], 0, False, False
        for kind, text in tokens(self.text):
            token = Token(kind, text, start, start + len(text))
            start = token.end
            first = not found or "\n" in self.text[found[-1].end : token.start]
            directive = kind != "end" and (directive or (text == "#" and first))
            asserted = text == "static_assert" or (asserted and text != ";")
            if not directive and not asserted and kind not in ("space", "end", "nothing"):
                found.append(token)
        return found

    def find(self, pattern: str) -> Iterator[re.Match[str]]:
        """Where a pattern stands in the source, comments and directives being white space."""
        return re.finditer(pattern, self.plain)

    @cached_property
    def plain(self) -> str:
        """The source with spaces in place of comments and directives."""
        parts, end = [], 0
        for token in self.tokens:
            parts += [re.sub(r"\S", " ", self.text[end : token.start]), token.text]
            end = token.end
        return "".join(parts)

    @cached_property
    def partner(self) -> dict[int, int]:
        """For the number of each opening bracket that of its closing one."""
        opened: list[int] = []
        pairs = {}
        for number, token in enumerate(self.tokens):
            if token.text in OPENING:
                opened.append(number)
            elif token.text in CLOSING and opened:
                pairs[opened.pop()] = number
        return pairs

    @cached_property
    def calls(self) -> list[Call]:
        """Every call of a function by its name, declarations of functions among them."""
        found = []
        for opening, closing in self.partner.items():
            name = self._name_before(opening)
            if name is None or self.tokens[name].text in NO_CALL:
                continue
            first = name
            while first > 1 and self.tokens[first - 1].text in ("::", ".", "->"):
                first -= 2
            before = self.tokens[first - 1].text if first else ";"
            after = self.tokens[closing + 1].text if closing + 1 < len(self.tokens) else ""
            arguments = self._parts(opening, closing)
            ends = (self.tokens[first].start, self.tokens[closing].end)
            found.append(
                Call(self.tokens[name].text, *ends, arguments, before in (";", "{", "}", ")", "else") and after == ";")
            )
        return sorted(found, key=lambda call: call.start)

    def _name_before(self, opening: int) -> int | None:
        """The number of the name that is called by a bracket, behind which template arguments may stand."""
        number = opening - 1
        if number >= 0 and self.tokens[number].text == ">":
            while number >= 0 and self.tokens[number].text not in ("<", ";", "{", "}"):
                number -= 1
            number -= 1
        is_call = number >= 0 and self.tokens[opening].text == "(" and self.tokens[number].kind == "word"
        return number if is_call else None

    def _parts(self, opening: int, closing: int) -> list[tuple[int, int]]:
        """What stands between two brackets, cut at its commas."""
        parts, first, number = [], opening + 1, opening + 1
        while number <= closing:
            if number == closing or self.tokens[number].text == ",":
                if number > first:
                    parts.append((self.tokens[first].start, self.tokens[number - 1].end))
                first = number + 1
            number = self.partner.get(number, number) + 1
        return parts

    def words(self, *texts: str) -> Iterator[Token]:
        """The tokens with one of these texts."""
        return (token for token in self.tokens if token.text in texts)

    def around(self, token: Token) -> str:
        """A token with the characters before and behind it."""
        return self.text[token.start - 1 : token.end + 1]

    def of(self, span: tuple[int, int]) -> str:
        """The source of a span."""
        return self.text[slice(*span)]

    def conditions(self) -> Iterator[tuple[int, int, bool]]:
        """What stands in the brackets of each `if`, and whether nothing but a return follows."""
        for number, token in enumerate(self.tokens):
            opening = number + 1 + (token.text == "if" and self.tokens[number + 1].text == "constexpr")
            if token.text != "if" or opening not in self.partner:
                continue
            closing = self.partner[opening]
            body = [each.text for each in self.tokens[closing + 1 : closing + 3]]
            leaves = "return" in body[:2] if body[:1] == ["{"] else body[:1] == ["return"]
            yield self.tokens[opening].end, self.tokens[closing].start, leaves


Rule = Callable[[Code], Iterator[Edit]]
OPERATORS: dict[str, Rule] = {}


def operator(rule: Rule) -> Rule:
    """Make a rule an operator under its own name."""
    OPERATORS[rule.__name__.replace("_", " ")] = rule
    return rule


def _dropped(code: Code, name: str) -> Iterator[Edit]:
    """Every statement that is a call of a function whose name has this pattern in it, left out."""
    for call in code.calls:
        if call.is_statement and re.search(name, call.name):
            yield Edit(call.start, call.end, "")


def _swapped(code: Code, *pairs: tuple[str, str]) -> Iterator[Edit]:
    """Every one of these names, or of those that end with it, as the other of its pair."""
    other = dict(pairs) | {b: a for a, b in pairs}
    for token in code.tokens:
        if token.kind == "word":
            stem, line, ending = token.text.rpartition("_")
            swapped = other.get(token.text) or (stem + line + other[ending] if stem and ending in other else "")
            if swapped:
                yield Edit(token.start, token.end, swapped)


# Threads that wait for each other


@operator
def barrier_dropped(code: Code) -> Iterator[Edit]:
    """A barrier of a block, a warp, a cluster or in memory: `__syncthreads()`, `__syncwarp()`, `x.sync()`."""
    yield from _dropped(code, r"sync(threads|warp)$|^sync$|barrier(_of)?$")


@operator
def arrival_dropped(code: Code) -> Iterator[Edit]:
    """The arrival at a barrier that others wait for."""
    yield from _dropped(code, r"arrive")


@operator
def fence_dropped(code: Code) -> Iterator[Edit]:
    """A fence: `__threadfence()`, those of barriers in memory, of bulk copies and of wgmma."""
    yield from _dropped(code, r"fence|^hold$")


@operator
def wait_dropped(code: Code) -> Iterator[Edit]:
    """The wait for copies, for tensor cores or for the kernel before."""
    yield from _dropped(code, r"wait")


@operator
def commit_dropped(code: Code) -> Iterator[Edit]:
    """The commit that makes a group of what was begun, and the word that lets a second kernel begin."""
    yield from _dropped(code, r"commit|let_second")


@operator
def wait_leaves_one_more(code: Code) -> Iterator[Edit]:
    """A wait that leaves one group more in flight than it should: `__pipeline_wait_prior(n + 1)`, `wgmma_wait<1>`."""
    for call in code.calls:
        if re.search(r"wait_prior", call.name) and len(call.arguments) == 1:
            yield Edit(*call.arguments[0], f"{code.of(call.arguments[0])} + 1")
        if call.name == "wgmma_wait" and (found := re.match(r"wgmma_wait<(\d+)>", code.text[call.start :])):
            yield Edit(call.start + found.start(1), call.start + found.end(1), str(int(found[1]) + 1))


@operator
def mask_narrowed(code: Code) -> Iterator[Edit]:
    """The mask of 32 lanes without the last, or the first half of them."""
    for token in code.tokens:
        if re.fullmatch(r"0x[fF]{8}[uU]?", token.text):
            yield Edit(token.start, token.end, "0x7FFFFFFF")
            yield Edit(token.start, token.end, "0x0000FFFF")


@operator
def atomic_dropped(code: Code) -> Iterator[Edit]:
    """An atomic operation whose result nobody reads."""
    yield from _dropped(code, r"^atomic")


@operator
def volatile_dropped(code: Code) -> Iterator[Edit]:
    """`volatile`, of a variable or of PTX."""
    for token in code.words("volatile"):
        yield Edit(token.start, token.end, "")


# Bounds, guards, tails


@operator
def end_included(code: Code) -> Iterator[Edit]:
    """`<` as `<=` and `>` as `>=`, and the other way round."""
    other = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
    for token in code.tokens:
        if token.text in other and code.text[token.start - 1] == " " == code.text[token.end]:
            if code.text[: token.start].endswith("template "):
                continue
            yield Edit(token.start, token.end, other[token.text])


@operator
def guard_left_out(code: Code) -> Iterator[Edit]:
    """An `if` whose only effect is to return: an argument's check, an error that is passed on, a thread outside C."""
    for start, end, leaves in code.conditions():
        if leaves:
            yield Edit(start, end, "false")


@operator
def condition_always_true(code: Code) -> Iterator[Edit]:
    """An `if` that asks for nothing."""
    for start, end, leaves in code.conditions():
        if not leaves:
            yield Edit(start, end, "true")


@operator
def condition_never_true(code: Code) -> Iterator[Edit]:
    """An `if` that is never taken."""
    for start, end, leaves in code.conditions():
        if not leaves:
            yield Edit(start, end, "false")


@operator
def part_of_condition_forgotten(code: Code) -> Iterator[Edit]:
    """Of `a && b` or `a || b` one part does not count."""
    ends = {"&&", "||", "?", ":", ",", ";", "=", "return"}
    for number, token in enumerate(code.tokens):
        if token.text not in ("&&", "||") or code.text[token.end] not in " \n":
            continue
        last = number + 1
        while code.tokens[last].text not in ends | CLOSING:
            last = code.partner.get(last, last) + 1
        yield Edit(token.start, code.tokens[last - 1].end, "")
        closed = {closing: opening for opening, closing in code.partner.items()}
        first = number - 1
        while code.tokens[first].text not in ends | set(OPENING):
            first = closed.get(first, first) - 1
        yield Edit(code.tokens[first + 1].start, token.end, "")


@operator
def choice_forgotten(code: Code) -> Iterator[Edit]:
    """`c ? a : b` is a whatever c is: no zeros where nothing is to be loaded, vectors for any alignment."""
    for token in code.words("?"):
        yield Edit(token.start, token.end, "|| true ?")


@operator
def tail_forgotten(code: Code) -> Iterator[Edit]:
    """A division that rounds down where it rounded up, so that what is left after whole tiles is not computed."""
    for call in code.calls:
        if call.name == "ceil_div" and len(call.arguments) == 2 and not code.of(call.arguments[0]).startswith("int "):
            a, b = map(code.of, call.arguments)
            yield Edit(call.start, call.end, f"(({a}) / ({b}))")
    for found in code.find(r"\(([^()]+(?:\([^()]*\))?[^()]*) \+ (\w+) - 1\) / \2|\(([^()]+) \+ 255\) / 256"):
        yield Edit(found.start(), found.end(), f"({found[1] or found[3]}) / {found[2] or 256}")


@operator
def limit_forgotten(code: Code) -> Iterator[Edit]:
    """`min(a, b)` and `max(a, b)` as a, and as b."""
    for call in code.calls:
        if call.name in ("min", "max") and len(call.arguments) == 2:
            for argument in call.arguments:
                yield Edit(call.start, call.end, f"({code.of(argument)})")


# Indices


@operator
def index_one_off(code: Code) -> Iterator[Edit]:
    """An index one higher or lower than it should be; not the size of an array."""
    opened = {closing: opening for opening, closing in code.partner.items()}
    for opening, closing in code.partner.items():
        name = opening - 1
        while code.tokens[name].text == "]" and name in opened:
            name = opened[name] - 1
        declared = code.tokens[name - 1].kind == "word" and code.tokens[name - 1].text != "return"
        if code.tokens[opening].text != "[" or code.tokens[name].kind != "word" or declared or closing == opening + 1:
            continue
        span = (code.tokens[opening + 1].start, code.tokens[closing - 1].end)
        yield Edit(*span, f"{code.of(span)} + 1")
        yield Edit(*span, f"{code.of(span)} - 1")


@operator
def leading_dimension_swapped(code: Code) -> Iterator[Edit]:
    """The leading dimension of another matrix, or the number of columns in its place."""
    others = {"lda": ("ldb", "k"), "ldb": ("ldc", "n"), "ldc": ("lda", "n")}
    for number, token in enumerate(code.tokens):
        if token.text in others and code.tokens[number - 1].text in (".", "->"):
            for other in others[token.text]:
                yield Edit(token.start, token.end, other)


@operator
def index_swapped(code: Code) -> Iterator[Edit]:
    """Rows for columns, m for n, x for y, A for B: of a pair of names, or of names that end so, the other."""
    pairs = [("row", "col"), ("rows", "cols"), ("m", "n"), ("i", "j"), ("tx", "ty"), ("x", "y"), ("BM", "BN")]
    pairs += [("TM", "TN"), ("WM", "WN"), ("A", "B"), ("M", "N"), ("ROWS", "COLS"), ("warp", "lane")]
    yield from _swapped(code, *pairs)


@operator
def stage_swapped(code: Code) -> Iterator[Edit]:
    """The stage before or behind: `now` for `next`, `x % 2` for `(x + 1) % 2`, one stage more or fewer in the ring."""
    yield from _swapped(code, ("now", "next"), ("stage", "before"), ("first", "last"))
    for found in code.find(r"\((\w+) \+ 1\) % 2\b|\b(\w+) % 2\]"):
        new = f"{found[1]} % 2" if found[1] else f"({found[2]} + 1) % 2]"
        yield Edit(found.start(), found.end(), new)
    for token in code.words("STAGES", "DEPTH"):
        yield Edit(token.start, token.end, f"({token.text} - 1)")


# The end of the product


@operator
def alpha_forgotten(code: Code) -> Iterator[Edit]:
    """A factor alpha left out, or beta in its place."""
    for found in code.find(r"\bg\.alpha \* |\balpha \* "):
        yield Edit(found.start(), found.end(), "")
    yield from _scalar_for(code, "alpha", "beta")


@operator
def beta_forgotten(code: Code) -> Iterator[Edit]:
    """A factor beta left out, alpha in its place, or C read where beta is 0."""
    for found in code.find(r"\bg\.beta \* |\bbeta \* "):
        yield Edit(found.start(), found.end(), "")
    for found in code.find(r"\w+\.beta [!=]= 0\.0f"):
        yield Edit(found.start(), found.end(), "false")
        yield Edit(found.start(), found.end(), "true")
    yield from _scalar_for(code, "beta", "alpha")


def _scalar_for(code: Code, scalar: str, other: str) -> Iterator[Edit]:
    for number, token in enumerate(code.tokens):
        if token.text == scalar and code.tokens[number - 1].text == ".":
            yield Edit(token.start, token.end, other)


# Types


@operator
def narrowed_to_32_bits(code: Code) -> Iterator[Edit]:
    """An index of 64 bits in 32."""
    for token in code.words("int64_t", "size_t"):
        yield Edit(token.start, token.end, "int")


@operator
def narrowed_to_16_bits(code: Code) -> Iterator[Edit]:
    """An index of 32 bits in 16."""
    for number, token in enumerate(code.tokens[:-1]):
        if token.text in ("int", "unsigned") and code.tokens[number + 1].kind == "word":
            yield Edit(token.start, token.end, "short" if token.text == "int" else "unsigned short")


@operator
def factor_rounded_to_tf32(code: Code) -> Iterator[Edit]:
    """A factor with the 10 bits behind the point that TF32 has."""
    yield from _rounded(code, "__uint_as_float(__float_as_uint({}) + 0x1000u & 0xFFFFE000u)")


@operator
def factor_rounded_to_bf16(code: Code) -> Iterator[Edit]:
    """A factor with the 7 bits behind the point that BF16 has."""
    yield from _rounded(code, "__uint_as_float(__float_as_uint({}) + 0x8000u & 0xFFFF0000u)")


@operator
def factor_rounded_to_half(code: Code) -> Iterator[Edit]:
    """A factor with the bits and the range of half precision; below 2^-14 it is in steps of 2^-24."""
    half = "__uint_as_float(__float_as_uint({0}) + 0x1000u & 0xFFFFE000u)"
    small = "rintf({0} * 16777216.0f) / 16777216.0f"
    yield from _rounded(code, f"(fabsf({{0}}) < 6.103515625e-5f ? {small} : fminf(fmaxf({half}, -65504.0f), 65504.0f))")


def _rounded(code: Code, how: str) -> Iterator[Edit]:
    """The first factor of each product that is added to a float: a of `sum += a * b` and of `fmaf(a, b, c)`."""
    for found in code.find(r"\bsum\S* \+= ([^;*]+?) \* [^;*]+;"):
        yield Edit(found.start(1), found.end(1), how.format(found[1]))
    for call in code.calls:
        if call.name in ("fmaf", "__fmaf_rn") and len(call.arguments) == 3:
            yield Edit(*call.arguments[0], how.format(code.of(call.arguments[0])))


# Memory


@operator
def shared_array_one_smaller(code: Code) -> Iterator[Edit]:
    """A `__shared__` array with one element fewer in its first or last dimension, or a launch with 4 bytes fewer."""
    for number, token in enumerate(code.tokens):
        if token.text != "__shared__":
            continue
        while number < len(code.tokens) and code.tokens[number].text not in ("[", ";"):
            number += 1
        dimensions = []
        while code.tokens[number].text == "[" and code.partner[number] > number + 1:
            dimensions.append((code.tokens[number + 1].start, code.tokens[code.partner[number] - 1].end))
            number = code.partner[number] + 1
        for span in dict.fromkeys(dimensions[:1] + dimensions[-1:]):
            yield Edit(*span, f"{code.of(span)} - 1")
    for token in code.words("SHARED_BYTES"):
        if code.text[token.end] == ",":
            yield Edit(token.start, token.end, f"{token.text} - 4")


@operator
def alignment_left_out(code: Code) -> Iterator[Edit]:
    """`alignas(16)` and `__align__(16)` left out."""
    for number, token in enumerate(code.tokens[:-1]):
        if token.text in ("alignas", "__align__") and number + 1 in code.partner:
            yield Edit(token.start, code.tokens[code.partner[number + 1]].end, "")


@operator
def initialisation_left_out(code: Code) -> Iterator[Edit]:
    """A variable that begins as whatever was there: ` = 0`, ` = {}` left out."""
    for found in code.find(r"(?<=[\w\]]) = (?:0(?:\.0f)?|\{[\s0.f,]*\}|false|nullptr|1)(?=[;,])"):
        yield Edit(found.start(), found.end(), "")


@operator
def memset_left_out(code: Code) -> Iterator[Edit]:
    """Memory that is not set before it is added to."""
    for call in code.calls:
        if re.search(r"memset|Memset", call.name):
            yield Edit(call.start, call.end, "cudaSuccess")


# The host function


@operator
def stream_left_out(code: Code) -> Iterator[Edit]:
    """Work on the default stream, whatever stream is given."""
    for number, token in enumerate(code.tokens):
        if token.text == "stream" and code.tokens[number - 1].text == ",":
            yield Edit(token.start, token.end, "nullptr")


@operator
def error_swallowed(code: Code) -> Iterator[Edit]:
    """The error of a launch is not told."""
    for found in code.find(r"return (launch\w*\([^;]*\)|cudaGetLastError\(\)|error);"):
        yield Edit(found.start(), found.end(), f"{found[1]}; return cudaSuccess;")


@operator
def workspace_one_smaller(code: Code) -> Iterator[Edit]:
    """A workspace of 4 bytes fewer than is used."""
    for found in code.find(r"sizeof\(float\) \*"):
        yield Edit(found.start(), found.end(), "-4 + sizeof(float) *")


# PTX


@operator
def ptx_instruction_dropped(code: Code) -> Iterator[Edit]:
    """An instruction of PTX that waits, arrives, commits, orders or repeats a wait."""
    what = re.compile(r'[^;"{}\n]*\b(?:wait|arrive|fence|commit|bar|barrier|membar|bra|launch_dependents)\w*\b[^;"]*;')
    for token in code.tokens:
        if token.kind == "text":
            for found in what.finditer(token.text):
                yield Edit(token.start + found.start(), token.start + found.end(), "")


@operator
def parity_flipped(code: Code) -> Iterator[Edit]:
    """A wait for the phase before or after: the last argument of a function that waits at or tests a barrier."""
    for call in code.calls:
        if re.search(r"barrier_(wait|test)", call.name) and not code.of(call.arguments[-1]).startswith("int "):
            yield Edit(*call.arguments[-1], f"({code.of(call.arguments[-1])}) ^ 1")


@operator
def count_changed(code: Code) -> Iterator[Edit]:
    """A barrier that expects 16 bytes more or fewer, or one arrival more or fewer."""
    for call in code.calls:
        step = 16 if "expect" in call.name else 1 if re.search(r"barrier_init$", call.name) else 0
        if step and len(call.arguments) == 2 and not code.of(call.arguments[1]).startswith("int "):
            for sign in "+-":
                yield Edit(*call.arguments[1], f"({code.of(call.arguments[1])}) {sign} {step}")


@operator
def clobber_dropped(code: Code) -> Iterator[Edit]:
    """PTX that does not tell the compiler that it reads or writes memory."""
    for found in code.find(r'\s*:\s*"memory"'):
        yield Edit(found.start(), found.end(), "")
