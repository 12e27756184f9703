"""Reading and validating what the user writes: config.yaml, kernels.yaml and the GPU files.

Every error is a LadderError of one line: `FILE: KEY: what is wrong; what to do`.
"""

from __future__ import annotations

import contextlib
import copy
import difflib
import math
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ladder.system.errors import LadderError

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
from ladder.model.shape import Shape
from ladder.system.paths import ROOT, shown

SCHEMAS = ROOT / "workflow" / "schemas"


def dotted(path: Iterator[str | int] | tuple[str | int, ...]) -> str:
    """Print a path into a document the way a reader would write it: `check.shapes[3]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "(top level)"


def read_yaml(path: Path) -> Any:
    """Read one YAML file; raises LadderError where it is missing or is not YAML."""
    import yaml  # here, and below: the jobs of a run, which are handed its plan, read none

    from ladder.config.unique_keys import UniqueKeys

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


@cache
def schema(name: str) -> Any:
    """The JSON schema of one kind of config file, `config`, `kernels` or `gpu`."""
    import yaml

    from ladder.config.unique_keys import Loader

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
