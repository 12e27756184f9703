"""Reading and validating what the user writes: config.yaml, kernels.yaml and the GPU files.

Every error is a LadderError of one line: `FILE: KEY: what is wrong; what to do`.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ladder.system.errors import LadderError

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
from ladder.model.shape import Shape
from ladder.system.paths import ROOT, read_text, shown

SCHEMAS = ROOT / "workflow" / "schemas"
WIDEST_VALUE = 120  # characters of a value that a message shows


def dotted(path: Iterator[str | int] | tuple[str | int, ...]) -> str:
    """Print a path into a document the way a reader would write it: `check.shapes[3]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "(top level)"


def read_yaml(path: Path) -> Any:
    """Read one YAML file; raises LadderError where it cannot be read or is not YAML."""
    return parse_yaml(read_text(path), shown(path))


def parse_yaml(text: str, place: str) -> Any:
    """The value of a YAML text; raises LadderError, with the place and the line, where it is none."""
    import yaml  # here, and below: the jobs of a run, which are handed its plan, read none

    from ladder.config.unique_keys import UniqueKeys

    try:
        return yaml.load(text, UniqueKeys)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: such as a date that is none
        where = getattr(error, "problem_mark", None)
        line = f" line {where.line + 1}:" if where else ""
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        raise LadderError(f"{place}:{line} is not YAML: {problem}; mend it there") from None


def leaves(content: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """The dotted path of each value in nested mappings that is no mapping itself, such as `timing.iterations`."""
    if not isinstance(content, Mapping):
        yield ".".join(path)
        return
    for key, inner in content.items():
        yield from leaves(inner, (*path, str(key)))


def set_by(sources: Mapping[str, str], key: str, file: str) -> str:
    """The place that gave a key: that of the key itself, else of what it stands in; `file` where none is named."""
    key = key.partition("[")[0]
    while key and key not in sources:
        key = key.rpartition(".")[0]
    return sources.get(key, file)


@cache
def schema(name: str) -> Any:
    """The JSON schema of one kind of file: `config`, `kernels`, `gpu`, `tuned` or `trace`."""
    import yaml

    from ladder.config.unique_keys import Loader

    (path,) = SCHEMAS.glob(f"{name}.schema.*")  # JSON is YAML
    return yaml.load(path.read_text(), Loader)


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
    wanted = rules.get("type", ())
    if isinstance(value, str) and value in ("true", "false") and True in rules.get("enum", ()):
        return value == "true"
    if isinstance(value, str) and wanted in ("integer", "number", "boolean", "array"):
        import yaml

        with contextlib.suppress(yaml.YAMLError, ValueError):  # ValueError: a date that is none, a number without end
            value = yaml.safe_load(value)
    whole = isinstance(value, float) and value.is_integer()  # which the schema takes for an integer, too
    return int(value) if whole and (wanted == "integer" or "integer" in wanted) else value


def validated(document: Any, schema_name: str, file: str, sources: Mapping[str, str] | None = None) -> Any:
    """Check the document against a schema and fill in the defaults.

    `file` is what messages call the document; `sources` names the places of keys that came from elsewhere, by their
    dotted paths. Raises LadderError for the most relevant violation.
    """
    from jsonschema import Draft202012Validator  # not by the workers, which validate nothing
    from jsonschema.exceptions import best_match

    rules = schema(schema_name)
    try:
        document = typed({} if document is None else document, rules)
    except RecursionError:
        raise LadderError(f"{file}: a value contains itself; write it without & and *") from None
    error = best_match(Draft202012Validator(rules).iter_errors(document))
    if error is not None:
        where, problem = _explained(error)
        own = error.validator == "type" and next(leaves(error.instance), "")  # of a mapping that should be none
        place = set_by(sources or {}, f"{where}.{own}" if own else where, file)
        raise LadderError(f"{place}: {where}: {problem}")
    if (path := _not_finite(document)) is not None:
        raise LadderError(f"{set_by(sources or {}, dotted(path), file)}: {dotted(path)}: is not finite; give a number")
    return with_defaults(document, rules)


def _not_finite(value: Any, path: tuple[str | int, ...] = ()) -> tuple[str | int, ...] | None:
    """The path to the first NaN or infinity in a document, or None."""
    if isinstance(value, float):
        return None if math.isfinite(value) else path
    inside = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    return next((found for key, inner in inside if (found := _not_finite(inner, (*path, key))) is not None), None)


def _explained(error: ValidationError) -> tuple[str, str]:
    """The dotted path of what breaks a schema, and what is wrong with it."""
    where = dotted(tuple(error.absolute_path))
    rule = error.schema if isinstance(error.schema, Mapping) else {}
    if error.validator == "additionalProperties":
        known = sorted(rule.get("properties", {}))
        unknown = sorted(set(error.instance) - set(known))
        return dotted((*error.absolute_path, unknown[0])), f"unknown key; {nearest(unknown[0], known, 'known keys')}"
    if error.validator == "required":
        return where, f"{error.message}; add it"
    if isinstance(error.instance, float) and not math.isfinite(error.instance):
        return where, f"{error.instance} is no number to count with; give a finite one"
    remedy = rule.get("description", "see workflow/schemas").strip().split("\n")[0].rstrip(".")
    problem = {
        "type": f"is not of type {error.validator_value}",
        "minimum": f"is less than {error.validator_value}",
        "maximum": f"is more than {error.validator_value}",
        "exclusiveMinimum": f"is not greater than {error.validator_value}",
        "enum": f"is none of {error.validator_value}",
        "minItems": "has too few entries",
        "minProperties": "has no entries",
    }.get(str(error.validator), "is not valid")
    return where, f"{_in_short(error.instance)} {problem}; it should be: {remedy}"


def _in_short(value: Any) -> str:
    """A value as a message shows it: of a long one its beginning, and how long it is."""
    text = repr(value)
    return text if len(text) <= WIDEST_VALUE else f"{text[:WIDEST_VALUE]}... ({len(text)} characters)"


def of_fields(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the values whose keys are fields of a dataclass."""
    return {field.name: values[field.name] for field in dataclasses.fields(kind) if field.name in values}


def nearest(name: str, known: Iterable[str], title: str = "known") -> str:
    """What to write in the place of a name that is not known: what is or begins most like it, or all names."""
    choices, wanted = list(dict.fromkeys(known)), name.lower()

    def likeness(choice: str) -> float:
        begins = choice[: len(wanted)] if len(wanted) > 2 else ""
        whole, beginning = (SequenceMatcher(None, wanted, each.lower()).ratio() for each in (choice, begins))
        return max(whole, LESS_LIKELY * beginning)

    best = max(choices, key=likeness, default="")
    return f"did you mean {best}?" if best and likeness(best) >= ALIKE else f"{title}: {', '.join(choices) or 'none'}"


ALIKE, LESS_LIKELY = 0.6, 0.9  # of the letters of two names; what a name has in common with a longer one counts less


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
