"""Inline PTX of a preprocessed source, rewritten as C++ for the emulator (kernels/emulator/ptx.h).

Each `asm` statement becomes a block of its own: registers are variables, an instruction is a call of the function that
does what the PTX ISA says of its opcode, its modifiers are template arguments. What is not known is an error that names
the line and the instruction; nothing is skipped.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ladder.config.cpp import tokens

ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b")


class UnknownPtxError(Exception):
    """What of inline PTX the emulator does not know: the file and line, and what it is."""

    def __init__(self, place: str, what: str) -> None:
        super().__init__(f"{place}: {what}")
        self.place, self.what = place, what


def clusters_in_cpp(text: str) -> str:
    """A preprocessed text in which each kernel with `__cluster_dims__` begins by asking for its cluster."""
    parts, end = [], 0
    for found in re.finditer(r"\b__cluster_dims__\s*\(", text):
        stop = _closing(text, found.end() - 1)
        body = re.compile(r"[{;]").search(text, stop)
        parts += [text[end : found.start()], text[stop + 1 : body.end()] if body else ""]
        if body and body[0] == "{":
            parts.append(f" emulator::require_cluster({text[found.end() : stop]});")
        end = body.end() if body else stop + 1
    return "".join([*parts, text[end:]])


def ptx_in_cpp(text: str) -> str:
    """A preprocessed text in which each `asm` statement is C++; its lines stay where they are.

    Raises UnknownPtxError for the first statement that cannot be rewritten.
    """
    parts, end = [], 0
    places = _Places(text)
    for found in _STATEMENT.finditer(text):
        if found.start() < end or places.in_system_header(found.start()):
            continue
        stop = _closing(text, found.end() - 1)
        place = places.of(found.start())
        statement = _MARKER.sub("", text[found.end() : stop])
        try:
            cpp = _Statement(statement, len(parts)).in_cpp()
        except _UnknownError as unknown:
            raise UnknownPtxError(place, str(unknown)) from None
        parts += [text[end : found.start()], cpp, "\n" * text.count("\n", found.start(), stop)]
        if "\n" in text[found.start() : stop]:
            parts.append(places.marker(stop))
        end = stop + 1
    return "".join([*parts, text[end:]])


_STATEMENT = re.compile(r"\b(?:asm|__asm__|__asm)(?:\s+(?:volatile|__volatile__|__volatile))*\s*\(")
_STRING = re.compile(r'R"([^()\\\s]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
_MARKER = re.compile(r'^# (\d+) "([^"]*)"([ \d]*)$', re.MULTILINE)


def _closing(text: str, opening: int) -> int:
    """Where the parenthesis is that closes the one at `opening`."""
    depth, at = 0, opening
    while at < len(text):
        if string := _STRING.match(text, at):
            at = string.end()
            continue
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0:
            return at
        at += 1
    return at


class _Places:
    """Files and lines of a preprocessed text, by its line markers (GCC manual, Preprocessor Output)."""

    def __init__(self, text: str) -> None:
        self.text, self.markers = text, list(_MARKER.finditer(text))

    def _last(self, at: int) -> re.Match[str] | None:
        return next((marker for marker in reversed(self.markers) if marker.end() <= at), None)

    def _line(self, at: int) -> tuple[str, int]:
        marker = self._last(at)
        if marker is None:
            return "source", self.text.count("\n", 0, at) + 1
        return marker[2], int(marker[1]) + self.text.count("\n", marker.end() + 1, at)

    def of(self, at: int) -> str:
        file, line = self._line(at)
        return f"{file}:{line}"

    def marker(self, at: int) -> str:
        file, line = self._line(at)
        return f'\n# {line} "{file}"\n'

    def in_system_header(self, at: int) -> bool:
        marker = self._last(at)
        return marker is not None and "3" in marker[3].split()


class _UnknownError(Exception):
    """What of a statement is not known."""


# Operands


@dataclass
class _Value:
    """A number: C++ that gives the bits of a register, an argument or a literal; a name where it can be set."""

    cpp: str
    settable: bool = False
    literal: str = ""
    argument: _Argument | None = None

    def get(self, kind: str) -> str:
        """Its value as one of `_TYPES`."""
        if self.literal:
            return f"emulator_ptx::get<{_TYPES[kind]}>({_literal(self.literal, kind)})"
        return f"emulator_ptx::get<{_TYPES[kind]}>({self.cpp})"

    def set(self, kind: str, value: str) -> str:
        if self.cpp == "_":
            return f"(void)({value});"
        if not self.settable:
            raise _UnknownError(f"a result for {self.cpp or self.literal}, which is no register")
        return f"emulator_ptx::set<{_TYPES[kind]}>({self.cpp}, {value});"


@dataclass
class _Vector:
    items: list[_Value]


@dataclass
class _Address:
    base: _Value
    offset: str
    coordinates: list[_Value] = field(default_factory=list)

    def cpp(self, space: str = "") -> str:
        """A host pointer."""
        address = f"emulator_ptx::{space or 'generic'}({self.base.cpp if not self.base.literal else self.base.literal})"
        return f"({address} + ({self.offset}))" if self.offset else address


@dataclass
class _Pair:
    first: _Value
    second: _Value


_Operand = _Value | _Vector | _Address | _Pair


@dataclass
class _Argument:
    """An operand of the asm statement: constraint and C++ expression."""

    constraint: str
    expression: str
    name: str

    @property
    def written(self) -> bool:
        return self.constraint[0] in "=+"

    @property
    def read(self) -> bool:
        return self.constraint[0] != "="

    @property
    def kind(self) -> str:
        return self.constraint.strip("=+&")


_ARGUMENTS = {"r": "uint32_t", "l": "uint64_t", "f": "uint32_t", "d": "uint64_t", "h": "uint16_t", "b": "bool"}
_ARGUMENTS["q"] = "emulator_ptx::Bits128"
_TYPES = {
    **{f"{sign}{bits}": f"uint{bits}_t" for sign in "bu" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
    **{"b128": "emulator_ptx::Bits128", "pred": "bool", "f32": "float", "f64": "double", "tf32": "emulator_ptx::Tf32"},
    **{"f16": "emulator_ptx::Half", "f16x2": "emulator_ptx::Half2"},
    **{"bf16": "emulator_ptx::Bfloat", "bf16x2": "emulator_ptx::Bfloat2"},
}
_REGISTERS = {  # how a register of a type is kept
    **{kind: _TYPES[f"b{bits}"] for bits in (8, 16, 32, 64, 128) for kind in (f"b{bits}",)},
    **{f"{sign}{bits}": f"uint{bits}_t" for sign in "us" for bits in (8, 16, 32, 64)},
    **{"pred": "bool", "f16": "uint16_t", "bf16": "uint16_t", "f32": "uint32_t", "f64": "uint64_t"},
    **{"f16x2": "uint32_t", "bf16x2": "uint32_t"},
}


def _literal(text: str, kind: str) -> str:
    """The bits of a literal as a type has them; PTX ISA, "Constants"."""
    if match := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", text):
        return f"uint32_t{{0x{match[1]}u}}"
    if match := re.fullmatch(r"0[dD]([0-9a-fA-F]{16})", text):
        return f"uint64_t{{0x{match[1]}u}}"
    if kind in ("f32", "f64") and re.fullmatch(r"-?[\d.]+(?:[eE][-+]?\d+)?", text):
        packed = struct.pack("<f" if kind == "f32" else "<d", float(text))
        return f"uint{8 * len(packed)}_t{{0x{int.from_bytes(packed, 'little'):x}u}}"
    return f"static_cast<uint64_t>({text.rstrip('U')}{'' if text.endswith(')') else 'll'})"


_SPECIAL = {
    **{f"%tid.{d}": f"emulator::unpack(emulator::thread_index()).{d}" for d in "xyz"},
    **{f"%ntid.{d}": f"emulator::unpack(emulator::block_extent()).{d}" for d in "xyz"},
    **{f"%ctaid.{d}": f"emulator::unpack(emulator::block_index()).{d}" for d in "xyz"},
    **{f"%nctaid.{d}": f"emulator::unpack(emulator::grid_extent()).{d}" for d in "xyz"},
    **{f"%cluster_ctaid.{d}": f"emulator::cluster_block().{d}" for d in "xyz"},
    **{f"%cluster_nctaid.{d}": f"emulator::cluster_extent().{d}" for d in "xyz"},
    **{f"%clusterid.{d}": f"emulator::cluster_index().{d}" for d in "xyz"},
    **{f"%nclusterid.{d}": f"emulator::cluster_grid().{d}" for d in "xyz"},
    **{"%cluster_ctarank": "emulator::cluster_rank()", "%cluster_nctarank": "emulator::cluster_size()"},
    **{"%is_explicit_cluster": "(emulator::cluster_size() > 1)", "%gridid": "uint64_t{0}"},
    **{"%laneid": "static_cast<uint32_t>(emulator_lane())"},
    **{"%warpid": "emulator_ptx::warp()", "%nwarpid": "emulator_ptx::warps()"},
    **{"%smid": "emulator::sm_of_block()", "%nsmid": "static_cast<uint32_t>(emulator::sms)"},
    **{"%clock": "static_cast<uint32_t>(emulator::clock())", "%clock64": "emulator::clock()"},
    **{"%clock_hi": "static_cast<uint32_t>(emulator::clock() >> 32)", "%globaltimer": "emulator::clock()"},
    **{"%globaltimer_lo": "static_cast<uint32_t>(emulator::clock())"},
    **{"%lanemask_eq": "(1u << emulator_lane())", "%lanemask_lt": "((1u << emulator_lane()) - 1)"},
    **{"%lanemask_le": "(~0u >> (31 - emulator_lane()))", "%lanemask_gt": "~(~0u >> (31 - emulator_lane()))"},
    **{"%lanemask_ge": "(~0u << emulator_lane())"},
    **{"%dynamic_smem_size": "emulator::dynamic_shared_bytes()"},
    **{"WARP_SZ": "32u"},
}


# A statement


@dataclass
class _Instruction:
    opcode: str
    modifiers: list[str]
    operands: list[_Operand]
    text: str

    def take(self, *choices: str, default: str = "") -> str:
        """The one of its modifiers that is among the choices, which then no longer counts as unknown."""
        for each in self.modifiers:
            if each in choices:
                self.modifiers.remove(each)
                return each
        return default

    def must(self, *choices: str) -> str:
        return self.take(*choices) or self.unknown(f"without one of .{', .'.join(choices)}")

    def kind(self, *kinds: str) -> str:
        """Its type: the last modifier."""
        if self.modifiers and self.modifiers[-1] in (kinds or _TYPES):
            return self.modifiers.pop()
        return self.unknown("of this type")

    def unknown(self, why: str = "") -> str:
        raise _UnknownError(f"the PTX instruction `{self.text}`{f' {why}' if why else ''}")

    def done(self) -> None:
        if self.modifiers:
            self.unknown(f"with .{self.modifiers[0]}")

    def value(self, number: int) -> _Value:
        operand = self.operands[number] if number < len(self.operands) else None
        if not isinstance(operand, _Value):
            self.unknown(f"whose operand {number + 1} is no number")
        return operand

    def vector(self, number: int, *counts: int) -> list[_Value]:
        operand = self.operands[number] if number < len(self.operands) else None
        items = operand.items if isinstance(operand, _Vector) else [operand] if isinstance(operand, _Value) else []
        if not items or (counts and len(items) not in counts):
            self.unknown(f"whose operand {number + 1} has {len(items)} registers")
        return items

    def address(self, number: int) -> _Address:
        operand = self.operands[number] if number < len(self.operands) else None
        if not isinstance(operand, _Address):
            self.unknown(f"whose operand {number + 1} is no address")
        return operand

    def expect(self, *counts: int) -> int:
        if len(self.operands) not in counts:
            self.unknown(f"with {len(self.operands)} operands")
        return len(self.operands)


class _Statement:
    """What stands between the parentheses of an asm statement."""

    def __init__(self, text: str, number: int) -> None:
        self.number, self.count = number, 0
        sections: list[list[str]] = [[]]
        depth = 0
        for kind, token in tokens(text):
            depth += (token in "([{" and kind == "operator") - (token in ")]}" and kind == "operator")
            if depth == 0 and kind == "operator" and token in (":", "::"):
                sections += [[] for _ in token]
            elif kind != "end" and not (kind == "space" and not sections[-1]):
                sections[-1].append(token)
            elif kind == "end":
                sections[-1].append(" ")
        self.template = "".join(map(_content, filter(str.strip, sections[0])))
        self.outputs = _arguments(sections[1]) if len(sections) > 1 else []
        self.arguments = self.outputs + (_arguments(sections[2]) if len(sections) > 2 else [])
        self.scopes: list[dict[str, _Value]] = [{}]
        self.labels: list[dict[str, str]] = [{}]
        self.declared: list[str] = []
        self.by_reference: set[int] = set()

    def in_cpp(self) -> str:
        body = self._instructions()
        if not body:
            return "do { } while (0)"
        before, after = [], []
        for number, each in enumerate(self.arguments):
            if each.kind == "n" or number in self.by_reference:
                continue
            name = f"emulator_a{number}"
            initial = f"emulator_ptx::in<{_ARGUMENTS[each.kind]}>({each.expression})" if each.read else "0"
            before.append(f"{_ARGUMENTS[each.kind]} {name} = {initial};")
            if each.written:
                after.append(f"emulator_ptx::out({each.expression}, {name});")
        return f"do {{ {' '.join([*before, *self.declared, *body, *after])} }} while (0)"

    def _instructions(self) -> list[str]:
        text = self.template.replace("%%", "\1").replace("%=", f"_{self.number}_")
        text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
        body: list[str] = []
        pieces = list(_pieces(text))
        self._find_labels(pieces)
        depth = 0
        for piece in pieces:
            if piece == "{":
                depth += 1
                self.scopes.append({})
                self.labels.append(self.scope_labels.pop(0))
            elif piece == "}":
                if depth == 0:
                    raise _UnknownError("a brace of PTX without its other one")
                depth -= 1
                self.scopes.pop()
                self.labels.pop()
            elif piece.endswith(":"):
                body.append(f"{self._label(piece[:-1].strip())}:;")
            elif piece.startswith("."):
                self._declare(piece)
            else:
                body.append(self._instruction(piece))
        return body

    def _find_labels(self, pieces: list[str]) -> None:
        """The labels of each scope, the scopes in the order in which they begin."""
        found: list[dict[str, str]] = [{}]
        open_scopes = [found[0]]
        for piece in pieces:
            if piece == "{":
                found.append({})
                open_scopes.append(found[-1])
            elif piece == "}" and len(open_scopes) > 1:
                open_scopes.pop()
            elif piece.endswith(":"):
                self.count += 1
                open_scopes[-1][piece[:-1].strip()] = f"emulator_label_{self.number}_{self.count}"
        self.labels, self.scope_labels = [found[0]], found[1:]

    def _label(self, name: str) -> str:
        for scope in reversed(self.labels):
            if name in scope:
                return scope[name]
        raise _UnknownError(f"the label {name}, which its asm statement lacks")

    def _declare(self, text: str) -> None:
        match = re.fullmatch(r"\.reg\s+(?:\.(v[24])\s+)?\.(\w+)\s+(.*)", text, re.DOTALL)
        if text.startswith(".pragma"):
            return
        if match is None or match[1] or match[2] not in _REGISTERS:
            raise _UnknownError(f"the PTX directive `{' '.join(text.split())}`")
        for each in match[3].split(","):
            name = each.strip().replace("\1", "%")
            if many := re.fullmatch(r"(.+)<(\d+)>", name):
                names = [f"{many[1]}{i}" for i in range(int(many[2]))]
            else:
                names = [name]
            for one in names:
                if not re.fullmatch(r"[%\w$]+", one):
                    raise _UnknownError(f"the PTX directive `{' '.join(text.split())}`")
                self.count += 1
                cpp = f"emulator_r{self.count}"
                self.scopes[-1][one] = _Value(cpp, settable=True)
                self.declared.append(f"{_REGISTERS[match[2]]} {cpp}{{}}; (void){cpp};")

    def _instruction(self, text: str) -> str:
        shown = " ".join(text.replace("\1", "%").split())
        guard = re.match(r"@\s*(!?)\s*([%\1\w$\[\]]+)\s+", text)
        if guard:
            text = text[guard.end() :]
        match = re.match(r"([a-z]\w*)((?:\.[\w:]+)*)\s*(.*)$", text, re.DOTALL)
        if match is None:
            raise _UnknownError(f"the PTX `{shown}`")
        short = f"{match[1]}{match[2]}"
        if match[1] not in _FAMILIES and match[1] != "bra":
            raise _UnknownError(f"the PTX instruction `{short}`")
        operands = [self._operand(each) for each in _split(match[3])] if match[1] != "bra" else []
        instruction = _Instruction(match[1], match[2].split(".")[1:], operands, short)
        if match[1] == "bra":
            cpp = f"goto {self._label(match[3].strip())};"
        else:
            if match[1] == "wgmma":
                self._keep_references(instruction)
            cpp = _FAMILIES[match[1]](instruction)
            if match[1] not in _LENIENT:
                instruction.done()
        if guard:
            return f"if ({guard[1]}{self._value(guard[2]).get('pred')}) {{ {cpp} }}"
        return f"{{ {cpp} }}"

    def _keep_references(self, instruction: _Instruction) -> None:
        """The sums of wgmma are written later: by their addresses, not by copies."""
        if "mma_async" in instruction.modifiers and isinstance(instruction.operands[0], _Vector):
            for each in instruction.operands[0].items:
                if each.argument is None:
                    raise _UnknownError(f"the sums of `{instruction.text}` in registers of the asm statement")
                self.by_reference.add(self.arguments.index(each.argument))

    def _operand(self, text: str) -> _Operand:
        text = text.strip()
        if text.startswith("{"):
            return _Vector([self._value(each) for each in _split(text[1:-1])])
        if text.startswith("["):
            first, *rest = _split(text[1:-1])
            coordinates = [item for each in rest for item in _split(each.strip().strip("{}"))]
            base, sign, offset = re.fullmatch(r"\s*([^+\s]+?)\s*(?:(\+|-(?=\s*[\d%]))\s*(.+?))?\s*", first).groups()
            shift = "".join(
                self._value(each).cpp or self._value(each).literal if each.startswith("%") else each
                for each in re.split(r"(%\d+|%\[\w+\])", offset or "")
            )
            value = self._value(base)
            return _Address(value, f"{sign if sign == '-' else ''}{shift}", [self._value(c) for c in coordinates])
        if "|" in text:
            first, second = text.split("|")
            return _Pair(self._value(first), self._value(second))
        return self._value(text)

    def _value(self, text: str) -> _Value:
        text = text.strip()
        if text == "_":
            return _Value("_")
        if text.startswith("!"):
            return _Value(f"(!{self._value(text[1:]).cpp})")
        if text.startswith("-") and not text[1:2].isdigit():
            return _Value(f"(0 - {self._value(text[1:]).cpp})")
        if match := re.fullmatch(r"%(?:(\d+)|\[(\w+)\])", text):
            return self._argument(match)
        name = text.replace("\1", "%")
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        if name in _SPECIAL:
            return _Value(f"({_SPECIAL[name]})")
        if re.fullmatch(
            r"-?(0[xX][0-9a-fA-F]+|0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|[\d.]+(?:[eE][-+]?\d+)?)U?", name
        ):
            return _Value("", literal=name)
        if "::" not in name and re.fullmatch(r"[%A-Za-z_$][\w.$]*", name):
            what = "special register" if name.startswith("%") else "register"
            raise _UnknownError(f"the PTX {what} {name}, which its asm statement does not declare")
        raise _UnknownError(f"the PTX operand `{name}`")

    def _argument(self, match: re.Match[str]) -> _Value:
        if match[1]:
            number = int(match[1])
        else:
            number = next((i for i, each in enumerate(self.arguments) if each.name == match[2]), len(self.arguments))
        if number >= len(self.arguments):
            raise _UnknownError(f"the operand {match[0]}, which its asm statement lacks")
        argument = self.arguments[number]
        if argument.kind == "n":
            return _Value("", literal=f"({argument.expression})")
        if argument.kind not in _ARGUMENTS:
            raise _UnknownError(f'the constraint "{argument.constraint}" of inline PTX')
        return _Value(f"emulator_a{number}", settable=argument.written, argument=argument)


def _content(literal: str) -> str:
    """What a string literal says."""
    if literal.startswith("R"):
        return literal[literal.index("(") + 1 : literal.rindex(")")]
    if not literal.startswith('"'):
        raise _UnknownError("inline PTX that is no string literal")
    escapes = {"n": "\n", "t": "\t", "r": "\r", "\n": ""}
    return re.sub(r"\\(.)", lambda match: escapes.get(match[1], match[1]), literal[1:-1], flags=re.DOTALL)


def _arguments(section: list[str]) -> list[_Argument]:
    found = []
    for text in _split("".join(section)):
        match = re.fullmatch(r'\s*(?:\[\s*(\w+)\s*\]\s*)?"([^"]*)"((?:\s*"[^"]*")*)\s*(\(.*\))\s*', text, re.DOTALL)
        if match is None:
            raise _UnknownError(f"the operand `{text.strip()}` of inline PTX")
        found.append(_Argument(match[2], match[4], match[1] or ""))
    return found


def _split(text: str) -> list[str]:
    """At the commas outside of brackets and strings."""
    found, depth, begin, at = [], 0, 0, 0
    while at < len(text):
        if string := _STRING.match(text, at):
            at = string.end()
            continue
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if text[at] == "," and depth == 0:
            found.append(text[begin:at])
            begin = at + 1
        at += 1
    found.append(text[begin:])
    return found if len(found) > 1 or found[0].strip() else []


def _pieces(text: str) -> Iterator[str]:
    """The statements of PTX: instructions and directives without their semicolons, labels with colons, braces."""
    at = 0
    text = text.strip()
    while at < len(text):
        if match := re.compile(r"\s*([{}]|[%\1\w$]+\s*:(?!:))").match(text, at):
            yield match[1]
            at = match.end()
            continue
        end = text.find(";", at)
        end = len(text) if end < 0 else end
        if text[at:end].strip():
            yield text[at:end].strip()
        at = end + 1


# Families of instructions; each function is named after the section of the PTX ISA that describes it

_ROUNDINGS = ("rn", "rz", "rm", "rp")
_SCOPES = ("cta", "cluster", "gpu", "sys", "gl")
_FLOATS = ("f32", "f64", "f16", "f16x2", "bf16", "bf16x2")
_INTEGERS = ("u16", "u32", "u64", "s16", "s32", "s64")
_BITS = ("b16", "b32", "b64")
_WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}


def _call(name: str, kind: str, arguments: list[str], *more: str) -> str:
    return f"emulator_ptx::{name}<{', '.join([_TYPES[kind], *more])}>({', '.join(arguments)})"


def _arithmetic(name: str, count: int, *kinds: str) -> Callable[[_Instruction], str]:
    """Floating Point, Half Precision and Integer Arithmetic Instructions: a result of `count` operands of its type."""

    def family(i: _Instruction) -> str:
        kind = i.kind(*kinds)
        i.expect(count + 1)
        if kind in _FLOATS:
            rounding = i.take(*_ROUNDINGS, default="rn")[1]
            i.take("approx", "full")
            ftz, sat, relu = (str(bool(i.take(word))).lower() for word in ("ftz", "sat", "relu"))
            nan = str(bool(i.take("NaN"))).lower()
            more = [f"'{rounding}'", ftz, sat, relu, nan]
        else:
            more = ["'h'" if i.take("hi") else "'n'"]
            wide = i.take("wide")
            i.take("lo")
            if wide and kind in _WIDE and name in ("mul", "mad"):
                result = _WIDE[kind]
                factors = [_call("get", result, [i.value(n).get(kind)]) for n in (1, 2)]
                rest = [i.value(3).get(result)] if count == 3 else []
                return i.value(0).set(result, _call(name, result, [*factors, *rest], "'n'"))
            if i.take("sat"):
                more.append("false, true")
        return i.value(0).set(kind, _call(name, kind, [i.value(n).get(kind) for n in range(1, count + 1)], *more))

    return family


def _logic(name: str, count: int) -> Callable[[_Instruction], str]:
    """Logic and Shift Instructions."""

    def family(i: _Instruction) -> str:
        kind = i.kind(*_BITS, *_INTEGERS, "pred")
        i.expect(count + 1)
        values = [i.value(n + 1).get("u32" if name in ("shl", "shr") and n == 1 else kind) for n in range(count)]
        return i.value(0).set(kind, _call(name, kind, values))

    return family


def _lop3(i: _Instruction) -> str:
    kind = i.kind("b32")
    i.expect(5)
    return i.value(0).set(kind, f"emulator_ptx::lop3({', '.join(i.value(n).get(kind) for n in range(1, 5))})")


def _shf(i: _Instruction) -> str:
    side, mode = i.must("l", "r"), i.must("clamp", "wrap")
    i.kind("b32")
    values = ", ".join(i.value(n).get("b32") for n in (1, 2, 3))
    return i.value(0).set("b32", f"emulator_ptx::funnel_shift({values}, {_bool(side == 'l')}, {_bool(mode == 'wrap')})")


def _prmt(i: _Instruction) -> str:
    mode = i.take("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
    i.kind("b32")
    if mode:
        i.unknown(f"with .{mode}")
    return i.value(0).set("b32", f"emulator_ptx::prmt({', '.join(i.value(n).get('b32') for n in (1, 2, 3))})")


def _bit_field(i: _Instruction) -> str:
    kind = i.kind()
    kinds = [kind, kind, "u32", "u32"] if i.opcode == "bfi" else [kind, "u32", "u32"]
    values = [i.value(n + 1).get(each) for n, each in enumerate(kinds)]
    return i.value(0).set(kind, _call(i.opcode, kind, values))


def _fns(i: _Instruction) -> str:
    i.kind("b32")
    i.expect(4)
    values = ", ".join(i.value(n).get(kind) for n, kind in ((1, "b32"), (2, "u32"), (3, "s32")))
    return i.value(0).set("b32", f"__fns({values})")


def _counts(i: _Instruction) -> str:
    shift = i.take("shiftamt")
    kind = i.kind()
    name = "bfind_shift" if shift else i.opcode
    return i.value(0).set("u32", _call(name, kind, [i.value(1).get(kind)]))


def _dot(i: _Instruction) -> str:
    first, second = i.modifiers[:2]
    del i.modifiers[:2]
    if {first, second} - {"u32", "s32"}:
        i.unknown()
    signs = ", ".join(_bool(each == "s32") for each in (first, second))
    values = ", ".join(i.value(n).get("b32") for n in (1, 2, 3))
    return i.value(0).set("b32", f"emulator_ptx::dot4({values}, {signs})")


def _bool(value: object) -> str:
    return "true" if value else "false"


def _compared(i: _Instruction) -> tuple[str, str]:
    """The comparison of set or setp, and its type."""
    comparison = i.must(
        *("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"),
        *("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"),
    )
    return comparison, i.take("and", "or", "xor")


def _setp(i: _Instruction) -> str:
    comparison, joined = _compared(i)
    ftz = i.take("ftz")
    kind = i.kind()
    values = [i.value(1).get(kind), i.value(2).get(kind)]
    test = _call(f"compare_{comparison}", kind, values, _bool(ftz))
    result = i.operands[0]
    joining = {"and": "&", "or": "|", "xor": "^", "": ""}[joined]
    rest = f" {joining} {i.value(3).get('pred')}" if joined else ""
    i.expect(4 if joined else 3)
    if isinstance(result, _Pair):
        cpp = f"bool emulator_t = {test}; bool emulator_p = emulator_t{rest}, emulator_q = !emulator_t{rest};"
        return f"{cpp} {result.first.set('pred', 'emulator_p')} {result.second.set('pred', 'emulator_q')}"
    return i.value(0).set("pred", f"static_cast<bool>({test}{rest})")


def _set(i: _Instruction) -> str:
    comparison, joined = _compared(i)
    ftz = i.take("ftz")
    kind = i.kind()
    result = i.kind("u32", "s32", "f32")
    if joined:
        i.unknown(f"with .{joined}")
    test = _call(f"compare_{comparison}", kind, [i.value(1).get(kind), i.value(2).get(kind)], _bool(ftz))
    return i.value(0).set(result, f"{test} ? {'1.0f' if result == 'f32' else '~0u'} : 0")


def _selp(i: _Instruction) -> str:
    kind = i.kind()
    i.expect(4)
    return i.value(0).set(kind, f"({i.value(3).get('pred')} ? {i.value(1).get(kind)} : {i.value(2).get(kind)})")


def _cvt(i: _Instruction) -> str:
    if i.take("pack"):
        i.unknown()
    source = i.kind()
    kind = i.kind()
    rounding = i.take(*_ROUNDINGS, "rna", "rni", "rzi", "rmi", "rpi")
    ftz, sat, relu = (_bool(i.take(word)) for word in ("ftz", "sat", "relu"))
    if i.take("satfinite"):
        i.unknown("with .satfinite")
    more = [_TYPES[source], f"'{rounding.removesuffix('i')[-1:] or 'x'}'", ftz, sat, relu]
    if kind in ("f16x2", "bf16x2") and source == "f32":
        i.expect(3)
        return i.value(0).set(kind, _call("pack_floats", kind, [i.value(n).get(source) for n in (1, 2)], *more))
    i.expect(2)
    return i.value(0).set(kind, _call("convert", kind, [i.value(1).get(source)], *more))


def _mov(i: _Instruction) -> str:
    kind = i.kind()
    i.expect(2)
    to, source = i.operands
    if isinstance(source, _Vector):
        values = ", ".join(each.get(_part(kind, len(source.items), i)) for each in source.items)
        return i.value(0).set(kind, _call("pack", kind, [values]))
    if isinstance(to, _Vector):
        part = _part(kind, len(to.items), i)
        first = f"auto emulator_v = emulator_ptx::unpack<{_TYPES[kind]}, {_TYPES[part]}>({i.value(1).get(kind)});"
        return " ".join([first, *(each.set(part, f"emulator_v.of[{n}]") for n, each in enumerate(to.items))])
    return i.value(0).set(kind, i.value(1).get(kind))


def _part(kind: str, count: int, i: _Instruction) -> str:
    bits = int(kind[1:]) // count if kind[0] == "b" else 0
    return f"b{bits}" if bits in (8, 16, 32, 64) else i.unknown("of this type")


def _cvta(i: _Instruction) -> str:
    to = i.take("to")
    space = i.must("shared", "shared::cta", "shared::cluster", "global", "local", "const", "param")
    kind = i.kind("u32", "u64")
    value = i.value(1).get(kind)
    if not space.startswith("shared"):
        return i.value(0).set(kind, value)
    convert = "generic_to_shared" if to else "shared_to_generic"
    return i.value(0).set(kind, _call(convert, kind, [value]))


def _isspacep(i: _Instruction) -> str:
    space = i.must("shared", "shared::cta", "shared::cluster", "global", "local", "const", "param")
    test = "emulator::is_shared" if space.startswith("shared") else "!emulator::is_shared"
    return i.value(0).set("pred", f"{test}({i.value(1).get('u64')})")


# Data Movement and Conversion Instructions


def _space(i: _Instruction, *others: str) -> str:
    space = i.take("global", "shared", "shared::cta", "shared::cluster", "local", "const", *others)
    return "shared" if space.startswith("shared") else "generic"


def _ignore_hints(i: _Instruction) -> int:
    """Takes cache operators and hints away; how many operands a hint has."""
    i.take("ca", "cg", "cs", "lu", "cv", "wb", "wt")
    i.take("nc")
    for level in ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate"):
        i.take(f"L1::{level}")
    for level in ("evict_first", "evict_last", "evict_normal"):
        i.take(f"L2::{level}")
    i.take("L2::64B", "L2::128B", "L2::256B")
    return 1 if i.take("L2::cache_hint") else 0


def _order(i: _Instruction) -> str:
    """How an access is ordered, and for whom, as an emulator_ptx::Ordered."""
    order = i.take("weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "mmio")
    scope = i.take(*_SCOPES)
    if not scope and order not in ("", "weak", "volatile"):
        i.unknown("without a scope")
    return _ordered(order or "weak", scope)


def _ordered(order: str, scope: str) -> str:
    return f"{{emulator_ptx::{order.upper()}, {_bool(scope == 'cta')}}}"


def _ld(i: _Instruction) -> str:
    order = _order(i)
    space = _space(i)
    if i.take("nc"):
        order = _ordered("read_only", "")
    hints = _ignore_hints(i)
    count = int(i.take("v2", "v4", "v8", default="v1")[1:])
    kind = i.kind()
    i.expect(2 + hints)
    values = i.vector(0, count)
    first = f"auto emulator_v = emulator_ptx::load<{_TYPES[kind]}, {count}>({i.address(1).cpp(space)}, {order});"
    return " ".join([first, *(each.set(kind, f"emulator_v.of[{n}]") for n, each in enumerate(values))])


def _st(i: _Instruction) -> str:
    if i.take("async"):
        i.unknown()
    order = _order(i)
    space = _space(i)
    hints = _ignore_hints(i)
    count = int(i.take("v2", "v4", "v8", default="v1")[1:])
    kind = i.kind()
    i.expect(2 + hints)
    values = ", ".join(each.get(kind) for each in i.vector(1, count))
    return f"emulator_ptx::store<{_TYPES[kind]}, {count}>({i.address(0).cpp(space)}, {order}, {{{{{values}}}}});"


def _atom(i: _Instruction) -> str:
    if i.take("async"):
        i.unknown()
    order = i.take("relaxed", "acquire", "release", "acq_rel", default="relaxed")
    order = _ordered(order, i.take(*_SCOPES))
    space = _space(i)
    what = i.must("and", "or", "xor", "exch", "cas", "add", "inc", "dec", "min", "max")
    i.take("noftz")
    hints = _ignore_hints(i)
    count = int(i.take("v2", "v4", "v8", default="v1")[1:])
    kind = i.kind()
    at = 0 if i.opcode == "red" else 1
    pointer = i.address(at).cpp(space)
    i.expect(at + 2 + (what == "cas") + hints)
    if count > 1:
        values = [each.get(kind) for each in i.vector(at + 1, count)]
        size = f"sizeof({_TYPES[kind]})"
        calls = [
            _call(f"atomic_{what}", kind, [f"{pointer} + {n} * {size}", order, each]) for n, each in enumerate(values)
        ]
        if i.opcode == "red":
            return " ".join(f"{each};" for each in calls)
        return " ".join(each.set(kind, call) for each, call in zip(i.vector(0, count), calls, strict=True))
    values = [i.value(n).get(kind) for n in range(at + 1, at + 2 + (what == "cas"))]
    call = _call(f"atomic_{what}", kind, [pointer, order, *values])
    return f"{call};" if i.opcode == "red" else i.value(0).set(kind, call)


def _prefetch(i: _Instruction) -> str:
    """What only moves data between caches: no value depends on it."""
    i.expect(1, 2)
    return ""


def _createpolicy(i: _Instruction) -> str:
    i.modifiers.clear()
    return i.value(0).set("b64", "uint64_t{0}")


def _cp(i: _Instruction) -> str:
    i.must("async")
    if i.take("bulk"):
        return _bulk(i)
    if i.take("commit_group"):
        return "emulator::commit_copies();"
    if i.take("wait_group"):
        return f"emulator::wait_for_copies({i.value(0).get('u32')});"
    if i.take("wait_all"):
        return "emulator::commit_copies(); emulator::wait_for_copies(0);"
    if i.take("mbarrier"):
        i.must("arrive")
        noinc = i.take("noinc")
        space = _space(i)
        i.must("b64")
        return f"emulator::mbarrier_arrive_after_copies({i.address(0).cpp(space)}, {_bool(noinc)});"
    i.must("shared", "shared::cta")
    i.must("global")
    cached = i.must("ca", "cg")
    hints = _ignore_hints(i)
    count = i.expect(3 + hints, 4 + hints)
    size = i.value(2).get("u32")
    rest = "0u"
    if count == 4 + hints:
        last = i.value(3)
        ignored = last.cpp.startswith("(!") or "emulator_r" in last.cpp
        kept = f"({last.get('pred')} ? 0u : {size})" if ignored else last.get("u32")
        rest = f"{size} - {kept}"
    to, source = i.address(0).cpp("shared"), i.address(1).cpp()
    return f"emulator_ptx::copy_async<{_bool(cached == 'cg')}>({to}, {source}, {size}, {rest});"


def _bulk(i: _Instruction) -> str:
    """Asynchronous Bulk Copy and Bulk Tensor Copy."""
    if i.take("commit_group"):
        return "emulator::bulk_commit();"
    if i.take("wait_group"):
        read = i.take("read")
        return f"emulator::bulk_wait({i.value(0).get('u32')}, {_bool(read)});"
    prefetch = i.take("prefetch")
    tensor = i.take("tensor")
    dimensions = int(i.take("1d", "2d", "3d", "4d", "5d", default="0d")[0])
    spaces = [each for each in i.modifiers if each in ("global", "shared", "shared::cta", "shared::cluster")]
    i.modifiers = [each for each in i.modifiers if each not in spaces]
    i.take("tile")
    reduce = i.take("add", "min", "max", "inc", "dec", "and", "or", "xor") if i.opcode == "cp_reduce" else ""
    group = i.take("bulk_group")
    arrives = i.take("mbarrier::complete_tx::bytes")
    multicast = i.take("multicast::cluster")
    hint = _ignore_hints(i)
    if prefetch or spaces[:1] == ["L2"]:
        i.take("L2")
        return ""
    if i.opcode == "cp_reduce" and not tensor:
        i.take("noftz")
        kind = i.kind()
    else:
        kind = ""
    if len(spaces) != 2 or bool(group) == bool(arrives):
        i.unknown()
    loads = spaces[1] == "global"
    operation = f"emulator::{reduce.upper()}" if reduce else "emulator::COPY"
    if tensor:
        if not dimensions:
            i.unknown("without its dimensions")
        if loads:
            i.expect(3 + bool(multicast) + hint)
            to, map_, barrier = i.address(0).cpp("shared"), i.address(1), i.address(2).cpp("shared")
            mask = i.value(3).get("u16") if multicast else "0u"
        else:
            i.expect(2 + hint)
            to, map_, barrier, mask = i.address(1).cpp("shared"), i.address(0), "", ""
        if len(map_.coordinates) != dimensions:
            i.unknown(f"with {len(map_.coordinates)} coordinates")
        coordinates = ", ".join(each.get("s32") for each in map_.coordinates)
        at = f"const int32_t emulator_at[] = {{{coordinates}}};"
        if loads:
            return f"{at} emulator::tensor_load({to}, {map_.cpp()}, {dimensions}, emulator_at, {barrier}, {mask});"
        return f"{at} emulator::tensor_store({map_.cpp()}, {dimensions}, emulator_at, {to}, {operation});"
    if loads:
        i.expect(4 + bool(multicast) + hint)
        mask = i.value(4).get("u16") if multicast else "0u"
        places = f"{i.address(0).cpp('shared')}, {i.address(1).cpp()}, {i.value(2).get('u32')}"
        return f"emulator::bulk_load({places}, {i.address(3).cpp('shared')}, {mask});"
    if spaces[0] == "global":
        i.expect(3 + hint)
        places = f"{i.address(0).cpp()}, {i.address(1).cpp('shared')}, {i.value(2).get('u32')}"
        if reduce:
            reducer = f"emulator_ptx::reduce_bulk<{_TYPES[kind]}, {operation}>"
            return f"emulator::bulk_store({places}, {reducer}, sizeof({_TYPES[kind]}));"
        return f"emulator::bulk_store({places});"
    if reduce:
        i.unknown()
    i.expect(4 + hint)
    places = f"{i.address(0).cpp('shared')}, {i.address(1).cpp('shared')}, {i.value(2).get('u32')}"
    return f"emulator::bulk_load({places}, {i.address(3).cpp('shared')}, 0u);"


def _cp_reduce(i: _Instruction) -> str:
    i.opcode = "cp_reduce"
    i.must("reduce")
    return _cp(i)


def _cp_family(i: _Instruction) -> str:
    return _cp_reduce(i) if "reduce" in i.modifiers else _cp(i)


# Parallel Synchronization and Communication Instructions


def _bar(i: _Instruction) -> str:
    i.take("cta")
    if i.take("cluster"):
        return _barrier_cluster(i)
    if i.take("warp"):
        i.must("sync")
        return f"__syncwarp({i.value(0).get('u32')});"
    what = i.must("sync", "arrive", "red")
    i.take("aligned")
    if what == "red":
        how = i.must("popc", "and", "or")
        kind = i.kind("u32", "pred")
        count = i.expect(3, 4)
        predicate = i.value(count - 1).get("pred")
        threads = i.value(2).get("u32") if count == 4 else "0u"
        barrier = i.value(1).get("u32")
        offered = f"!{predicate}" if how == "and" else predicate
        result = f"emulator_ptx::bar({barrier}, {threads}, false, {offered})"
        meaning = {"popc": result, "and": f"{result} == 0", "or": f"{result} != 0"}[how]
        return i.value(0).set(kind, meaning)
    count = i.expect(1, 2) if what == "sync" else i.expect(2)
    threads = i.value(1).get("u32") if count == 2 else "0u"
    return f"emulator_ptx::bar({i.value(0).get('u32')}, {threads}, {_bool(what == 'arrive')}, 0);"


def _barrier_cluster(i: _Instruction) -> str:
    what = i.must("arrive", "wait")
    order = i.take("release", "relaxed", "acquire", default="release")
    i.take("aligned")
    return f"emulator::cluster_{what}({_bool(order != 'relaxed') if what == 'arrive' else ''});"


def _membar(i: _Instruction) -> str:
    scope = i.must("cta", "gl", "sys", "gpu")
    return "emulator::fence_block();" if scope == "cta" else "emulator::fence();"


def _fence(i: _Instruction) -> str:
    if i.take("mbarrier_init"):
        i.must("release")
        i.must("cluster")
        return "emulator::fence_mbarrier_init();"
    if i.take("proxy"):
        kind = i.must("async", "alias", "async::generic", "tensormap::generic")
        for each in ("global", "shared::cta", "shared::cluster", "acquire", "release", *_SCOPES):
            i.take(each)
        for each in ("sync_restrict::shared::cta", "sync_restrict::shared::cluster"):
            i.take(each)
        return "emulator::fence_proxy_async();" if kind.startswith("async") else ""
    i.take("sc", "acq_rel", "acquire", "release")
    scope = i.take(*_SCOPES)
    for each in ("sync_restrict::shared::cta", "sync_restrict::shared::cluster"):
        i.take(each)
    return "emulator::fence_block();" if scope == "cta" else "emulator::fence();"


def _mbarrier(i: _Instruction) -> str:
    what = i.must(
        *("init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "test_wait", "try_wait"),
        "pending_count",
    )
    if what == "pending_count":
        i.must("b64")
        return i.value(0).set("u32", f"emulator::mbarrier_pending({i.value(1).get('b64')})")
    expects = what in ("arrive", "arrive_drop") and i.take("expect_tx")
    i.take("noComplete")
    parity = i.take("parity")
    i.take("relaxed", "release", "acquire")
    i.take("cta", "cluster")
    space = _space(i)
    i.must("b64")
    if what in ("init", "inval"):
        count = f", {i.value(1).get('u32')}" if what == "init" else ""
        return f"emulator::mbarrier_{what}({i.address(0).cpp(space)}{count});"
    if what in ("expect_tx", "complete_tx"):
        return f"emulator::mbarrier_{what}({i.address(0).cpp(space)}, {i.value(1).get('u32')});"
    if what in ("arrive", "arrive_drop"):
        first = 0 if isinstance(i.operands[0], _Address) else 1
        barrier = i.address(first).cpp(space)
        count = i.value(first + 1).get("u32") if len(i.operands) > first + 1 and not expects else "1u"
        expected = i.value(first + 1).get("u32") if expects else "0u"
        call = f"emulator::mbarrier_arrive({barrier}, {count}, {expected}, {_bool(what == 'arrive_drop')})"
        return i.value(0).set("b64", call) if first else f"{call};"
    i.expect(3, 4)
    phase = i.value(2).get("u32" if parity else "b64")
    call = f"emulator::mbarrier_test({i.address(1).cpp(space)}, {phase}, {_bool(parity)}, {_bool(what == 'try_wait')})"
    return i.value(0).set("pred", call)


def _shfl(i: _Instruction) -> str:
    i.must("sync")
    mode = i.must("up", "down", "bfly", "idx")
    i.kind("b32")
    i.expect(5)
    values = ", ".join(i.value(n).get("b32") for n in (1, 2, 3, 4))
    first = f"bool emulator_p; uint32_t emulator_v = emulator_ptx::shuffle<'{mode[0]}'>({values}, emulator_p);"
    result = i.operands[0]
    if isinstance(result, _Pair):
        return f"{first} {result.first.set('b32', 'emulator_v')} {result.second.set('pred', 'emulator_p')}"
    return f"{first} {i.value(0).set('b32', 'emulator_v')}"


def _vote(i: _Instruction) -> str:
    i.must("sync")
    mode = i.must("all", "any", "uni", "ballot")
    kind = i.kind("pred", "b32")
    values = f"{i.value(2).get('u32')}, {i.value(1).get('pred')}"
    calls = {"all": "__all_sync", "any": "__any_sync", "ballot": "__ballot_sync", "uni": "emulator_ptx::vote_uniform"}
    return i.value(0).set(kind, f"{calls[mode]}({values})")


def _match(i: _Instruction) -> str:
    mode = i.must("any", "all")
    i.must("sync")
    kind = i.kind("b32", "b64")
    values = f"{i.value(1).get(kind)}, {i.value(2).get('u32')}"
    first = f"bool emulator_p; uint32_t emulator_v = emulator_ptx::match({values}, {_bool(mode == 'all')}, emulator_p);"
    result = i.operands[0]
    if isinstance(result, _Pair):
        return f"{first} {result.first.set('b32', 'emulator_v')} {result.second.set('pred', 'emulator_p')}"
    return f"{first} {i.value(0).set('b32', 'emulator_v')}"


def _redux(i: _Instruction) -> str:
    i.must("sync")
    what = i.must("add", "min", "max", "and", "or", "xor")
    kind = i.kind("u32", "s32", "b32")
    function = {"xor": "__reduce_xor_sync"}.get(what, f"__reduce_{what}_sync")
    return i.value(0).set(kind, f"{function}({i.value(2).get('u32')}, {i.value(1).get(kind)})")


def _elect(i: _Instruction) -> str:
    i.must("sync")
    result = i.operands[0]
    if not isinstance(result, _Pair):
        i.unknown()
    mask = i.value(1).get("u32")
    first = f"uint32_t emulator_v = emulator_ptx::elect({mask});"
    first += " bool emulator_p = emulator_v == static_cast<uint32_t>(emulator_lane());"
    return f"{first} {result.first.set('b32', 'emulator_v')} {result.second.set('pred', 'emulator_p')}"


def _activemask(i: _Instruction) -> str:
    return i.value(0).set(i.kind("b32"), "__activemask()")


def _mapa(i: _Instruction) -> str:
    space = i.take("shared::cluster")
    kind = i.kind("u32", "u64")
    values = f"{i.value(1).get(kind)}, {i.value(2).get('u32')}"
    return i.value(0).set(kind, f"emulator::map_{'shared' if space else 'generic'}({values})")


def _getctarank(i: _Instruction) -> str:
    space = i.take("shared::cluster")
    kind = i.kind("u32", "u64")
    address = f"emulator_ptx::{'shared' if space else 'generic'}({i.value(1).get(kind)})"
    return i.value(0).set("u32", f"emulator::rank_of({address})")


# Matrix instructions


def _ldmatrix(i: _Instruction) -> str:
    for word in ("sync", "aligned", "m8n8", "b16"):
        i.must(word)
    count = int(i.must("x1", "x2", "x4")[1:])
    transposed = i.take("trans")
    space = _space(i)
    loads = i.opcode == "ldmatrix"
    registers = i.vector(0 if loads else 1, count)
    address = i.address(1 if loads else 0).cpp(space)
    if loads:
        loaded = f"emulator::load_matrices({address}, {count}, {_bool(transposed)}, emulator_v);"
        first = f"uint32_t emulator_v[{count}]; {loaded}"
        return " ".join([first, *(each.set("b32", f"emulator_v[{n}]") for n, each in enumerate(registers))])
    values = ", ".join(each.get("b32") for each in registers)
    stored = f"emulator::store_matrices({address}, {count}, {_bool(transposed)}, emulator_v);"
    return f"const uint32_t emulator_v[] = {{{values}}}; {stored}"


_MMA_SHAPES = {  # of the types of A and B: the shapes, PTX ISA, "Matrix Shape"
    **dict.fromkeys(("f16", "bf16"), ("m16n8k8", "m16n8k16")),
    "tf32": ("m16n8k4", "m16n8k8"),
    "f64": ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"),
    **dict.fromkeys(("s8", "u8"), ("m8n8k16", "m16n8k16", "m16n8k32")),
}
_ELEMENT_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "u8": 8, "f32": 32, "s32": 32}


def _mma(i: _Instruction) -> str:
    for word in ("sync", "aligned"):
        i.must(word)
    shape = next((each for each in i.modifiers if re.fullmatch(r"m\d+n\d+k\d+", each)), "")
    if not shape:
        i.unknown("without its shape")
    i.modifiers.remove(shape)
    i.must("row")
    i.must("col")
    saturate = i.take("satfinite")
    kinds = i.modifiers[-4:]
    i.modifiers = i.modifiers[:-4]
    if len(kinds) != 4 or shape not in _MMA_SHAPES.get(kinds[1], ()):
        i.unknown("of this shape and type")
    d, a, b, c = kinds
    sums = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",)}.get(a, ("s32",))
    if d not in sums or c not in sums or (a != b and not {a, b} <= {"s8", "u8"}) or (d != c):
        i.unknown("of these types")
    m, n, k = map(int, re.findall(r"\d+", shape))
    word = "b64" if a == "f64" else "b32"

    def words(rows: int, columns: int, kind: str) -> int:
        return max(1, rows * columns * _ELEMENT_BITS[kind] // 32 // (64 if a == "f64" else 32))

    counts = [words(m, n, d), words(m, k, a), words(k, n, b), words(m, n, c)]
    registers = [i.vector(position, count) for position, count in enumerate(counts)]
    i.expect(4)
    arrays = [
        f"const {_TYPES[word]} emulator_{name}[] = {{{', '.join(each.get(word) for each in items)}}};"
        for name, items in zip("abc", registers[1:], strict=True)
    ]
    kind = f"{{{m}, {n}, {k}, emulator::{a.upper()}, emulator::{b.upper()}, emulator::{d.upper()}, {_bool(saturate)}}}"
    product = f"emulator::mma({kind}, emulator_d, emulator_a, emulator_b, emulator_c);"
    arrays.append(f"{_TYPES[word]} emulator_d[{counts[0]}]; {product}")
    return " ".join([*arrays, *(each.set(word, f"emulator_d[{n}]") for n, each in enumerate(registers[0]))])


def _wgmma(i: _Instruction) -> str:
    if i.take("fence", "commit_group", "wait_group") and (what := i.text.split(".")[1]):
        i.must("sync")
        i.must("aligned")
        return f"emulator::wgmma_{what}({i.value(0).get('u32') if what == 'wait_group' else ''});"
    i.must("mma_async")
    i.must("sync")
    i.must("aligned")
    shape = next((each for each in i.modifiers if re.fullmatch(r"m64n\d+k\d+", each)), "")
    if not shape:
        i.unknown("of this shape")
    i.modifiers.remove(shape)
    kinds = i.modifiers[-3:]
    i.modifiers = i.modifiers[:-3]
    n, k = map(int, re.findall(r"\d+", shape)[1:])
    depth = {"f16": 16, "bf16": 16, "tf32": 8}
    if len(kinds) != 3 or kinds[1] != kinds[2] or depth.get(kinds[1]) != k or n % 8 or not 8 <= n <= 256:
        i.unknown("of this shape and type")
    if kinds[0] != "f32" and kinds != ["f16", "f16", "f16"]:
        i.unknown("of these types")
    count = n // 2 if kinds[0] == "f32" else n // 4
    sums = [each.argument for each in i.vector(0, count)]
    from_registers = isinstance(i.operands[1], _Vector)
    transposes = kinds[1] != "tf32"
    i.expect(6 + (0 if not transposes else 1 if from_registers else 2))
    if from_registers:
        values = ", ".join(each.get("b32") for each in i.vector(1, 4))
        a = f"const uint32_t emulator_a[] = {{{values}}};"
        of_a = "emulator_a, 0"
    else:
        a = ""
        of_a = f"nullptr, {i.value(1).get('b64')}"
    adds = i.value(3)
    scale = adds.get("pred") if not adds.literal else adds.get("s32") + " != 0"
    signs = ", ".join(i.value(position).get("s32") for position in (4, 5))
    turned = [i.value(position).get("s32") for position in range(6, len(i.operands))]
    turns = ", ".join(turned if len(turned) == 2 else ["0", *turned] if turned else ["0", "0"])
    places = ", ".join(f"emulator_ptx::place({each.expression})" for each in sums)
    kind = f"{n}, {k}, emulator::{kinds[1].upper()}, {_bool(kinds[0] == 'f32')}"
    call = f"emulator::wgmma({{{kind}, {signs}, {turns}}}, emulator_d, {of_a}, {i.value(2).get('b64')}, {scale});"
    return f"void* const emulator_d[] = {{{places}}}; {a} {call}"


# Miscellaneous


def _setmaxnreg(i: _Instruction) -> str:
    what = i.must("inc", "dec")
    for word in ("sync", "aligned", "u32"):
        i.must(word)
    return f"emulator::set_registers({i.value(0).get('u32')}, {_bool(what == 'inc')});"


def _griddepcontrol(i: _Instruction) -> str:
    return f"emulator::grid_{i.must('launch_dependents', 'wait')}();"


def _nanosleep(i: _Instruction) -> str:
    i.kind("u32")
    return "__nanosleep(0);"


def _trap(i: _Instruction) -> str:
    return "emulator::trap();"


_FAMILIES: dict[str, Callable[[_Instruction], str]] = {
    **{name: _arithmetic(name, 2) for name in ("add", "sub", "mul", "min", "max", "div", "rem", "copysign")},
    **{name: _arithmetic(name, 3) for name in ("fma", "mad")},
    **{
        name: _arithmetic(name, 1)
        for name in ("neg", "abs", "rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh")
    },
    **{name: _logic(f"bit_{name}", 2) for name in ("and", "or", "xor")},
    **{"not": _logic("bit_not", 1), "shl": _logic("shl", 2), "shr": _logic("shr", 2), "brev": _logic("brev", 1)},
    **{"lop3": _lop3, "shf": _shf, "prmt": _prmt, "bfe": _bit_field, "bfi": _bit_field, "dp4a": _dot, "fns": _fns},
    **{name: _counts for name in ("popc", "clz", "bfind")},
    **{"setp": _setp, "set": _set, "selp": _selp, "cvt": _cvt, "mov": _mov, "cvta": _cvta, "isspacep": _isspacep},
    **{"ld": _ld, "ldu": _ld, "st": _st, "atom": _atom, "red": _atom, "cp": _cp_family, "createpolicy": _createpolicy},
    **{name: _prefetch for name in ("prefetch", "prefetchu", "applypriority")},
    **{"bar": _bar, "barrier": _bar, "membar": _membar, "fence": _fence, "mbarrier": _mbarrier},
    **{"shfl": _shfl, "vote": _vote, "match": _match, "redux": _redux, "elect": _elect, "activemask": _activemask},
    **{"mapa": _mapa, "getctarank": _getctarank},
    **{"ldmatrix": _ldmatrix, "stmatrix": _ldmatrix, "mma": _mma, "wgmma": _wgmma},
    **{"setmaxnreg": _setmaxnreg, "griddepcontrol": _griddepcontrol, "nanosleep": _nanosleep, "trap": _trap},
}
_LENIENT = ("prefetch", "prefetchu", "applypriority")  # whose modifiers say nothing of values
