"""What a size expression of a launch plan is worth: `ceil_div(M, 128) * 2` for given axes.

A plan is data that arrives from anywhere, so an expression is parsed, never executed: whole numbers,
axis names, `+ - * // %`, parentheses, and the functions `ceil_div`, `min` and `max`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

from kernelwright.plans import Size

MOST_CHARACTERS = 200
LIMIT = 1 << 62
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[[int, int], int]] = {"ceil_div": lambda a, b: -(-a // b), "min": min, "max": max}


def evaluate(size: Size, axes: Mapping[str, int]) -> int:
    """Returns the value of a size for these axes.

    Raises:
        ValueError: for what is no size expression, an unknown axis, a division by zero, or a value beyond 2^62;
            the message says which.
    """
    if isinstance(size, int) and not isinstance(size, bool):
        return size
    if not isinstance(size, str) or len(size) > MOST_CHARACTERS:
        raise ValueError(
            f"{size!r} is no size: write a whole number or an expression of up to {MOST_CHARACTERS} characters"
        )
    try:
        tree = ast.parse(size, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"{size!r} is no size expression") from None
    return _value(tree.body, axes, size)


def _value(node: ast.expr, axes: Mapping[str, int], text: str) -> int:
    match node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            found = number
        case ast.Name(id=name):
            if name not in axes:
                raise ValueError(f"{text!r} names the axis {name!r}; there are {', '.join(axes) or 'none'}")
            found = axes[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            found = _apply(_OPERATORS[type(op)], left, right, axes, text)
        case ast.Call(func=ast.Name(id=name), args=[left, right], keywords=[]) if name in _FUNCTIONS:
            found = _apply(_FUNCTIONS[name], left, right, axes, text)
        case _:
            raise ValueError(f"{text!r} holds something other than numbers, axes, + - * // %, ceil_div, min and max")
    if abs(found) > LIMIT:
        raise ValueError(f"{text!r} is larger than 2^62")
    return found


def _apply(
    function: Callable[[int, int], int], left: ast.expr, right: ast.expr, axes: Mapping[str, int], text: str
) -> int:
    try:
        return function(_value(left, axes, text), _value(right, axes, text))
    except ZeroDivisionError:
        raise ValueError(f"{text!r} divides by zero") from None
