"""Reading and validating what the user writes: config.yaml, kernels.yaml and the GPU files.

Every error is a LadderError of one line: `FILE: KEY: what is wrong; what to do`.
"""

from __future__ import annotations

import contextlib
import copy
import difflib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ladder.errors import LadderError
from ladder.precision import BOUNDS, baseline_of

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "workflow" / "schemas"


@dataclass(frozen=True, order=True)
class Shape:
    """The shape of one product: A is m x k, B is k x n, C is m x n."""

    m: int
    n: int
    k: int

    @classmethod
    def parse(cls, text: str | int) -> Shape:
        """Read `1024` (square) or `MxNxK`; raises ValueError for anything else."""
        parts = str(text).split("x")
        if len(parts) not in (1, 3) or not all(re.fullmatch(r"[0-9]+", part) for part in parts):
            raise ValueError(f"{text!r} is neither a positive integer nor MxNxK")
        numbers = [int(part) for part in parts]
        return cls(*(numbers * 3 if len(numbers) == 1 else numbers))

    def __str__(self) -> str:
        """`1024` for a square product, else `MxNxK`."""
        return str(self.m) if self.m == self.n == self.k else f"{self.m}x{self.n}x{self.k}"

    @property
    def flop(self) -> int:
        """Floating-point operations of the product, 2 m n k: a multiplication and an addition for each term."""
        return 2 * self.m * self.n * self.k


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
    baseline: str = ""  # that it is compared with: `ladder.precision.baseline_of`; empty: the ladder's first

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
    def declared(self) -> dict[str, Any]:
        """What the rung says of its results, and is held to by its check."""
        return {"deterministic": self.deterministic, "subnormals": self.subnormals, "precision": BOUNDS[self.precision]}


def dotted(path: Iterator[str | int] | tuple[str | int, ...]) -> str:
    """Print a path into a document the way a reader would write it: `check.shapes[3]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "(top level)"


def read_yaml(path: Path) -> Any:
    """Read one YAML file; raises LadderError where it is missing or is not YAML."""
    import yaml  # here, and below: the jobs of a run, which are handed its plan, read none

    from ladder.unique_keys import UniqueKeys

    try:
        return yaml.load(path.read_text(), UniqueKeys)
    except FileNotFoundError:
        raise LadderError(f"{shown(path)}: there is no such file") from None
    except UnicodeDecodeError:
        raise LadderError(f"{shown(path)}: is not UTF-8 text; save it as such") from None
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f" line {where.line + 1}:" if where else ""
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        raise LadderError(f"{shown(path)}:{line} is not YAML: {problem}") from None


def shown(path: Path) -> str:
    """The path as messages print it: relative to the project where it lies inside."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


@cache
def schema(name: str) -> Any:
    """The JSON schema of one kind of config file, `config`, `kernels` or `gpu`."""
    import yaml

    from ladder.unique_keys import Loader

    return yaml.load((SCHEMAS / f"{name}.schema.yaml").read_text(), Loader)


def with_defaults(document: Any, rules: Mapping[str, Any]) -> Any:
    """A copy of the document with the schema's `default` wherever a property is absent."""
    if isinstance(document, Mapping):
        filled = copy.deepcopy(dict(document))
        for key, rule in rules.get("properties", {}).items():
            if key not in filled and "default" in rule:
                filled[key] = copy.deepcopy(rule["default"])
            if key in filled:
                filled[key] = with_defaults(filled[key], rule)
        return filled
    return copy.deepcopy(document)


def typed(value: Any, rules: Mapping[str, Any]) -> Any:
    """The value with text turned into the number or truth value that the schema wants there.

    Snakemake hands on what stands inside brackets and braces of --config as text.
    """
    if isinstance(value, Mapping):
        return {str(key): typed(inner, rules.get("properties", {}).get(key, {})) for key, inner in value.items()}
    if isinstance(value, list):
        return [typed(inner, rules.get("items", {})) for inner in value]
    wanted = rules.get("type")
    if isinstance(value, str) and value in ("true", "false") and True in rules.get("enum", ()):
        return value == "true"
    if isinstance(value, str) and wanted in ("integer", "number", "boolean", "array"):
        import yaml

        with contextlib.suppress(yaml.YAMLError):
            return yaml.safe_load(value)
    return value


def validated(document: Any, schema_name: str, file: str, sources: Mapping[str, str] | None = None) -> Any:
    """Check the document against a schema and fill in the defaults.

    `file` is what messages call the document; `sources` names another place for top-level keys that came from there.
    Raises LadderError for the most relevant violation.
    """
    from jsonschema import Draft202012Validator  # not by the workers, which validate nothing
    from jsonschema.exceptions import best_match

    rules = schema(schema_name)
    document = typed({} if document is None else document, rules)
    error = best_match(Draft202012Validator(rules).iter_errors(document))
    if error is not None:
        extra = error.validator == "additionalProperties"
        inside = (
            *error.absolute_path,
            *(sorted(set(error.instance) - set(error.schema["properties"])) if extra else ()),
        )
        first = str(inside[0]) if inside else ""
        raise LadderError(f"{(sources or {}).get(first, file)}: {_explained(error)}")
    if (path := _not_finite(document)) is not None:
        raise LadderError(f"{(sources or {}).get(str(path[0]), file)}: {dotted(path)}: is not finite; give a number")
    return with_defaults(document, rules)


def _not_finite(value: Any, path: tuple[str | int, ...] = ()) -> tuple[str | int, ...] | None:
    """The path to the first NaN or infinity in a document, or None."""
    if isinstance(value, float):
        return None if math.isfinite(value) else path
    inside = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    return next((found for key, inner in inside if (found := _not_finite(inner, (*path, key))) is not None), None)


def _explained(error: ValidationError) -> str:
    where = dotted(tuple(error.absolute_path))
    rule = error.schema if isinstance(error.schema, Mapping) else {}
    if error.validator == "additionalProperties":
        known = sorted(rule.get("properties", {}))
        unknown = sorted(set(error.instance) - set(known))
        near = difflib.get_close_matches(unknown[0], known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known keys: {', '.join(known)}"
        return f"{dotted((*error.absolute_path, unknown[0]))}: unknown key; {hint}"
    if error.validator == "required":
        return f"{where}: {error.message}; add it"
    if isinstance(error.instance, float) and not math.isfinite(error.instance):
        return f"{where}: {error.instance} is no number to count with; give a finite one"
    remedy = rule.get("description", "see workflow/schemas").strip().split("\n")[0].rstrip(".")
    problem = {
        "type": f"is not of type {error.validator_value}",
        "minimum": f"is less than {error.validator_value}",
        "exclusiveMinimum": f"is not greater than {error.validator_value}",
        "enum": f"is none of {error.validator_value}",
        "minItems": "has too few entries",
    }.get(str(error.validator), "is not valid")
    return f"{where}: {error.instance!r} {problem}; it should be: {remedy}"


def read_shapes(values: list[str | int], file: str, key: str) -> list[Shape]:
    """Shapes in their order, without repetitions; raises LadderError for a size that is no size."""
    shapes: dict[Shape, None] = {}
    for index, value in enumerate(values):
        try:
            shape = Shape.parse(value)
        except ValueError as error:
            raise LadderError(f"{file}: {key}[{index}]: {error}; write 1024 or 512x1024x2048") from None
        if min(shape.m, shape.n, shape.k) < 1:
            raise LadderError(f"{file}: {key}[{index}]: {value} is not a positive integer; write 1 or more")
        shapes[shape] = None
    return list(shapes)


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


def read_kernels(path: Path) -> dict[str, Rung]:
    """The ladder in its order: every variant of every entry of kernels.yaml, by its name.

    Raises LadderError where the file breaks its schema, a source is missing or `before` names no rung.
    """
    file = shown(path)
    entries = validated(read_yaml(path), "kernels", file)
    item = schema("kernels")["additionalProperties"]
    rungs: dict[str, Rung] = {}
    for entry, values in entries.items():
        values = with_defaults(values, item)
        if not (ROOT / "kernels" / values["source"]).is_file():
            raise LadderError(
                f"{file}: {entry}.source: kernels/{values['source']} does not exist; write it or mend the name"
            )
        for variant in values["variants"] or [{}]:
            rung = _rung(entry, values, variant)
            rungs[rung.name] = rung
    for role in ("baseline", "rung"):
        if role not in {rung.role for rung in rungs.values()}:
            raise LadderError(f"{file}: no entry has the role {role}; the ladder needs one")
    baselines = [{"name": rung.name, "precision": rung.precision} for rung in rungs.values() if rung.role == "baseline"]
    rungs = {name: replace(rung, baseline=baseline_of(rung.precision, baselines)) for name, rung in rungs.items()}
    for rung in rungs.values():
        if rung.before is not None and rung.before not in rungs:
            raise LadderError(f"{file}: {rung.entry}.before: {rung.before!r} is no rung; {_known(rung.before, rungs)}")
    return rungs


def _rung(entry: str, values: Mapping[str, Any], macros: Mapping[str, object]) -> Rung:
    return Rung(
        name=variant_name(entry, macros),
        entry=entry,
        title=values["title"],
        source=values["source"],
        macros={key: str(value) for key, value in macros.items()},
        precision=values["precision"],
        role=values["role"],
        before=values["before"],
        compute_capability=values["compute_capability"],
        newest_compute_capability=values["newest_compute_capability"],
        tune=values["tune"],
        deterministic=values["deterministic"],
        subnormals=values["subnormals"],
    )


def _known(name: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"


def select_rungs(wanted: str | list[str], ladder: Mapping[str, Rung], file: str) -> list[Rung]:
    """The rungs that `kernels` asks for, in the ladder's order, new variants after their entry's own.

    `all`, or a list of entries (all their variants) and of variants, which need not stand in kernels.yaml.
    Raises LadderError for a name that is none.
    """
    if wanted == "all":
        return list(ladder.values())
    names = [wanted] if isinstance(wanted, str) else wanted
    chosen: dict[str, Rung] = {}
    for index, name in enumerate(names):
        try:
            entry, macros = parse_variant(str(name))
        except ValueError as error:
            raise LadderError(f"{file}: kernels[{index}]: {error}; known: {', '.join(ladder)}") from None
        of_entry = [rung for rung in ladder.values() if rung.entry == entry]
        if not of_entry:
            raise LadderError(f"{file}: kernels[{index}]: {name!r} is no kernel; {_known(str(name), ladder)}")
        if not macros:
            chosen |= {rung.name: rung for rung in of_entry}
        elif name in ladder:
            chosen[name] = ladder[name]
        else:
            template = of_entry[0]
            chosen[name] = Rung(**{**vars(template), "name": name, "macros": macros, "tuned": ()})
    order = {entry: index for index, entry in enumerate(dict.fromkeys(rung.entry for rung in ladder.values()))}
    return sorted(chosen.values(), key=lambda rung: order[rung.entry])
