"""The parameters of a rung: the space declared for it, and which combinations are legal, decided before compiling.

A source states its own conditions: `#ifndef`-guarded macros with defaults, `constexpr` integers and `static_assert`s at
file scope. They are evaluated here as they stand there, so no second list of them can go out of date. Beside them stand
what kernels.yaml declares and the limits of the GPU.
"""

from __future__ import annotations

import ast
import itertools
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ladder.model.gpu import Gpu

THREADS_PER_BLOCK = 1024  # of every compute capability (CUDA C++ Programming Guide, technical specifications)
REGISTERS_PER_THREAD = 255  # the same
STATIC_SHARED_BYTES = 48 << 10  # what a block has without asking for more; taken where the GPU's limit is not known
REGISTERS_PER_SM = 65536
SHARED_BYTES_OF_SYSTEM = 1024  # that CUDA keeps in each block, from compute capability 8.0 on

Macros = dict[str, int]

_BINARY: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def evaluate(expression: str, names: Mapping[str, int]) -> int:
    """The value of an integral C++ expression of whole numbers, names, operators, `?:` and sizeof(float).

    Nothing else is evaluated. Raises ValueError for what is no such expression, for an unknown name and for a division
    by zero. Whole numbers are taken as non-negative, where C++ and Python divide alike.
    """
    try:
        return int(_value(_parsed(expression), names))
    except (SyntaxError, KeyError, TypeError, ZeroDivisionError, OverflowError, RecursionError) as error:
        raise ValueError(f"{expression.strip()!r} cannot be evaluated ({type(error).__name__}: {error})") from None


@cache
def _parsed(expression: str) -> ast.AST:
    return ast.parse(_as_python(expression), mode="eval").body


def _as_python(expression: str) -> str:
    text = re.sub(r"sizeof\s*\(\s*float\s*\)", "4", expression)
    text = _conditionals(" ".join(text.split()))
    text = text.replace("&&", " and ").replace("||", " or ").replace("/", "//")
    return re.sub(r"!(?!=)", " not ", text).strip()


def _conditionals(text: str) -> str:
    """The text with each `a ? b : c`, at any depth of parentheses, as Python writes it."""
    text = re.sub(r"\(([^()]*\?[^()]*)\)", lambda match: f"({_conditionals(match[1])})", text)
    depth, question = 0, -1
    for place, char in enumerate(text):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "?" and depth == 0:
            question = place
            break
    if question < 0:
        return text
    open_ones = 0
    for place in range(question + 1, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0 and text[place] == "?":
            open_ones += 1
        elif depth == 0 and text[place] == ":":
            if open_ones == 0:
                condition, yes, no = text[:question], text[question + 1 : place], text[place + 1 :]
                return f"(({_conditionals(yes)}) if ({condition}) else ({_conditionals(no)}))"
            open_ones -= 1
    raise SyntaxError("a ? without its :")


def _value(node: ast.AST, names: Mapping[str, int]) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.BinOp):
        return _BINARY[type(node.op)](_value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _BINARY[type(node.ops[0])](_value(node.left, names), _value(node.comparators[0], names))
    if isinstance(node, ast.BoolOp):
        every = isinstance(node.op, ast.And)
        for part in node.values:  # the rest is not looked at, so `b != 0 && a % b == 0` is safe as it is in C++
            if bool(_value(part, names)) is not every:
                return not every
        return every
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _value(node.operand, names)
    if isinstance(node, ast.IfExp):
        return _value(node.body if _value(node.test, names) else node.orelse, names)
    raise TypeError(f"{type(node).__name__} has no place in it")


_GUARDED = re.compile(r"^#ifndef\s+([A-Z][A-Z0-9_]*)\s*\n#define\s+\1\s+(\d+)\s*$", re.MULTILINE)
_CONSTANT = re.compile(r"\bconstexpr\s+(?:int|unsigned|size_t|int64_t)\s+(\w+)\s*=\s*([^;]+);")
_ASSERT = re.compile(r'\bstatic_assert\s*\((.*?),\s*"([^"]*)"\s*\)\s*;', re.DOTALL)
_BRACE = re.compile(r"([{}])")
_BOUNDS = re.compile(r"__launch_bounds__\(([^,()]+),([^,()]+)\)")


def defaults(source: str) -> Macros:
    """The macros that a source lets be overridden, with the values that it gives them otherwise."""
    return {name: int(value) for name, value in _GUARDED.findall(source)}


def constants(source: str, macros: Mapping[str, int]) -> tuple[Macros, list[str]]:
    """What the macros make of a source: its file-scope constants by name, and the texts of the asserts that fail.

    A constant or an assert that is no integral expression of known names is left to the compiler.
    """
    names = dict(macros)
    failed = []
    text = _file_scope(_preprocessed(source, names))
    found = sorted([*_CONSTANT.finditer(text), *_ASSERT.finditer(text)], key=lambda match: match.start())
    for match in found:
        if match.re is _CONSTANT:
            try:
                names[match[1]] = evaluate(match[2], names)
            except ValueError:
                continue
        elif _fails(match[1], names):
            failed.append(match[2])
    bounds = _BOUNDS.search(source)
    try:
        names.setdefault("MIN_BLOCKS", evaluate(bounds[2], names) if bounds else 1)
    except ValueError:
        names["MIN_BLOCKS"] = 1
    return names, failed


def _fails(expression: str, names: Mapping[str, int]) -> bool:
    try:
        return not evaluate(expression, names)
    except ValueError as error:
        return "ZeroDivisionError" in str(error)  # which is no constant expression for the compiler either


def _preprocessed(source: str, names: Mapping[str, int]) -> str:
    """The lines that the source's own #if, #ifdef and #ifndef leave, without comments and directives."""
    kept: list[str] = []
    taken: list[tuple[bool, bool]] = []  # of each open #if: whether this branch is in, whether one was
    for line, word, rest in _directives(source):
        if not word:
            if all(now for now, _ in taken):
                kept.append(line)
        elif word in ("if", "ifdef", "ifndef"):
            now = (rest in names) is (word == "ifdef") if word != "if" else _holds(rest, names)
            taken.append((now, now))
        elif word in ("elif", "else") and taken:
            _, was = taken.pop()
            now = not was and (word == "else" or _holds(rest, names))
            taken.append((now, was or now))
        elif word == "endif" and taken:
            taken.pop()
    return "\n".join(kept)


@cache
def _directives(source: str) -> list[tuple[str, str, str]]:
    """The lines of a source without comments, and of each directive its word and the rest."""
    found = []
    for line in (line.split("//")[0] for line in source.splitlines()):
        directive = re.match(r"\s*#\s*(\w+)\s*(.*)", line)
        found.append((line, directive[1], directive[2].strip()) if directive else (line, "", ""))
    return found


def _holds(condition: str, names: Mapping[str, int]) -> bool:
    try:
        return bool(evaluate(condition, names))
    except ValueError:
        return False


def _file_scope(text: str) -> str:
    """The text outside all braces."""
    depth, kept = 0, []
    for part in _BRACE.split(text):
        depth += part == "{"
        if depth == 0:
            kept.append(part)
        depth -= part == "}"
    return "".join(kept)


@dataclass(frozen=True)
class Space:
    """What kernels.yaml declares of an entry under `tune`."""

    parameters: Mapping[str, tuple[int, ...]]
    legal: tuple[str, ...]
    threads: str
    registers: str
    shared_bytes: str

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> Space:
        """From the validated mapping."""
        return cls(
            parameters={name: tuple(values) for name, values in declared["parameters"].items()},
            legal=tuple(declared["legal"]),
            threads=declared["threads"],
            registers=declared["registers"],
            shared_bytes=declared["shared_bytes"],
        )

    def check(self, source: str) -> None:
        """Raise ValueError where a parameter is no macro that the source lets be overridden."""
        known = defaults(source)
        for name in self.parameters:
            if name not in known:
                raise ValueError(
                    f"{name} is no macro with a default in the source; known: {', '.join(known) or 'none'}"
                )

    def default(self, source: str) -> Macros:
        """The source's own values of the parameters."""
        known = defaults(source)
        return {name: known[name] for name in self.parameters}

    def combinations(self, source: str) -> Iterator[Macros]:
        """Every combination of the parameters, the source's own defaults first."""
        default = self.default(source)
        yield default
        for values in itertools.product(*self.parameters.values()):
            macros = dict(zip(self.parameters, values, strict=True))
            if macros != default:
                yield macros

    def why_illegal(self, source: str, macros: Mapping[str, int], gpu: Gpu) -> str:
        """Why a combination cannot run on the GPU, or an empty string.

        Raises ValueError where one of the declared expressions cannot be evaluated.
        """
        names, failed = constants(source, defaults(source) | dict(macros))
        if failed:
            return failed[0]
        limits = gpu.limits
        per_sm = limits.get("registers_per_sm", REGISTERS_PER_SM)
        shared_block = limits.get("shared_memory_per_block_kib", STATIC_SHARED_BYTES >> 10) << 10
        shared_sm = limits.get("shared_memory_per_sm_kib", STATIC_SHARED_BYTES >> 10) << 10
        threads = evaluate(self.threads, names)
        registers = evaluate(self.registers, names)
        shared = evaluate(self.shared_bytes, names)
        blocks = names["MIN_BLOCKS"]
        for declared in self.legal:
            if not evaluate(declared, names):
                return f"not {declared}"
        if not 0 < threads <= min(THREADS_PER_BLOCK, limits.get("max_threads_per_sm", THREADS_PER_BLOCK)):
            return f"{threads} threads a block"
        if registers > REGISTERS_PER_THREAD or -(-registers // 8) * 8 * threads * blocks > per_sm:
            return f"at least {registers} registers for each of {blocks} x {threads} threads"
        if shared > shared_block or (shared + SHARED_BYTES_OF_SYSTEM) * blocks > shared_sm > shared_block:
            return f"{shared} bytes of shared memory for each of {blocks} blocks"
        return ""

    def legal_combinations(self, source: str, gpu: Gpu) -> list[Macros]:
        """The combinations that the GPU can run, by the source's asserts, the declaration and the GPU's limits."""
        return [macros for macros in self.combinations(source) if not self.why_illegal(source, macros, gpu)]
