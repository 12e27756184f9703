"""Python expressions that kernels.yaml may hold: restrictions on macros and on products."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from types import CodeType

_FUNCTIONS = {"min": min, "max": max, "ceil_div": lambda a, b: -(-a // b)}
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


_IN_CPP = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/", ast.Mod: "%", ast.And: "&&", ast.Or: "||"},
    **{ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="},
    **{ast.USub: "-", ast.Not: "!"},
}


def in_cpp(expression: str, names: Mapping[str, str], functions: Mapping[str, str], kind: str, where: str) -> str:
    """Such an expression in C++, of whose numbers none is negative: there // and % are / and %.

    `names` and `functions` have the C++ of each that it may hold. Raises ValueError as `evaluate` does.
    """

    def text(node: ast.AST) -> str:
        match node:
            case ast.Expression(body):
                return text(body)
            case ast.Constant(value):
                return str(int(value))
            case ast.Name(name) if name in names:
                return names[name]
            case ast.Name(name):
                raise ValueError(f"{expression!r}: {name} is no {kind} {where}; known: {', '.join(names)}")
            case ast.BinOp(left, operator, right):
                return f"({text(left)} {_IN_CPP[type(operator)]} {text(right)})"
            case ast.UnaryOp(operator, operand):
                return f"({_IN_CPP[type(operator)]}{text(operand)})"
            case ast.BoolOp(operator, values):
                return f"({f' {_IN_CPP[type(operator)]} '.join(map(text, values))})"
            case ast.Compare(left, [operator], [right]):
                return f"({text(left)} {_IN_CPP[type(operator)]} {text(right)})"
            case ast.Call(ast.Name(name), arguments, []) if len(arguments) == 2:
                return f"{functions[name]}({', '.join(map(text, arguments))})"
        raise ValueError(f"{expression!r}: {ast.unparse(node)} has no place in it; write it with two operands")

    return text(_parsed(expression, kind, tuple(functions)))


@cache
def _compiled(expression: str, kind: str) -> CodeType:
    return compile(_parsed(expression, kind, tuple(_FUNCTIONS)), expression, "eval")


def _parsed(expression: str, kind: str, functions: tuple[str, ...]) -> ast.Expression:
    may_hold = _MAY_HOLD.format(kind)
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"{expression!r}: is no Python expression; it may hold {may_hold}") from None
    for node in ast.walk(tree):
        number = not isinstance(node, ast.Constant) or type(node.value) is int
        function = not isinstance(node, ast.Call) or (isinstance(node.func, ast.Name) and node.func.id in functions)
        if not (isinstance(node, _PARTS) and number and function):
            part = ast.unparse(node) or type(node).__name__
            raise ValueError(f"{expression!r}: {part} has no place in it; it may hold {may_hold}")
    return tree
