"""Python expressions that kernels.yaml may hold: restrictions on macros and on products."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from types import CodeType

_FUNCTIONS = {"min": min, "max": max}
_PARTS = (
    *(ast.Expression, ast.Constant, ast.Name, ast.Load, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call),
    *(ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.USub, ast.And, ast.Or, ast.Not),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
)
_MAY_HOLD = "whole numbers, {}s, + - * // %, comparisons, and, or, not, min and max"


def evaluate(expression: str, names: Mapping[str, float], kind: str, where: str) -> int:
    """The value of a Python expression of whole numbers, names, + - * // %, comparisons, and, or, not, min and max.

    `kind` and `where` say what the names are, as in `macro` and `with a default in the source`. Raises ValueError, with
    what to do about it, for anything else, for an unknown name and for a division by zero.
    """
    code = _compiled(expression, kind)
    for name in code.co_names:
        if name not in names and name not in _FUNCTIONS:
            known = ", ".join(names) or "none"
            raise ValueError(f"{expression!r}: {name} is no {kind} {where}; known: {known}")
    try:
        return int(eval(code, {"__builtins__": {}}, {**names, **_FUNCTIONS}))
    except ZeroDivisionError:
        values = ", ".join(f"{name}={names[name]}" for name in code.co_names if name in names)
        raise ValueError(f"{expression!r}: divides by zero where {values}; test for it first, with `and`") from None
    except TypeError as error:
        raise ValueError(f"{expression!r}: {error}; it may hold {_MAY_HOLD.format(kind)}") from None


@cache
def _compiled(expression: str, kind: str) -> CodeType:
    may_hold = _MAY_HOLD.format(kind)
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"{expression!r}: is no Python expression; it may hold {may_hold}") from None
    for node in ast.walk(tree):
        number = not isinstance(node, ast.Constant) or type(node.value) is int
        function = not isinstance(node, ast.Call) or (isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS)
        if not (isinstance(node, _PARTS) and number and function):
            part = ast.unparse(node) or type(node).__name__
            raise ValueError(f"{expression!r}: {part} has no place in it; it may hold {may_hold}")
    return compile(tree, expression, "eval")
