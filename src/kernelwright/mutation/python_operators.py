"""Mutations of Python kernels (Triton, cuTile): the same classes of bugs as in C-like code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from kernelwright.mutation.mutant import Edit, edit
from kernelwright.mutation.python_source import Module, last_name

COMPARISONS: dict[type[ast.cmpop], tuple[str, str, str]] = {
    ast.Lt: ("<", "<=", ">="), ast.LtE: ("<=", "<", ">"), ast.Gt: (">", ">=", "<="), ast.GtE: (">=", ">", "<"),
    ast.Eq: ("==", "==", "!="), ast.NotEq: ("!=", "!=", "=="),
}  # fmt: skip
"""Spelling, shifted by one, opposite."""
RANGES = ("range", "static_range")
CHOICES = {
    "max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum", "atomic_max": "atomic_min",
    "atomic_min": "atomic_max", "argmax": "argmin", "argmin": "argmax",
}  # fmt: skip
NARROWER = {"float64": "float32", "float32": "float16", "tfloat32": "float16"}
NARROWER_WHOLE = {"int64": "int32", "int32": "int16", "uint64": "uint32", "uint32": "uint16"}
OPERATIONS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.Div: ("/", "*"),
}  # fmt: skip
BARRIERS = ("debug_barrier", "barrier", "syncthreads", "wait", "fence_async_shared", "async_wait")
STRIDES = re.compile(r"stride|^ld[a-z]?$|cols?$|columns$|rows$|width|size|^[A-Z][A-Z0-9_]*$")
SMALL_CONSTANT = 1e-2


def _keyword_edit(module: Module, call: ast.Call, *names: str) -> Iterator[Edit]:
    """Yields the removal of keyword arguments, with the commas in front of them, where the first is given."""
    given: list[ast.AST] = [*call.args, *call.keywords]
    changes = []
    for position, item in enumerate(given):
        if isinstance(item, ast.keyword) and item.arg in names:
            start, stop = module.place(item)
            if position:
                start = module.place(given[position - 1])[1]
            changes.append((start, stop, ""))
    if any(isinstance(item, ast.keyword) and item.arg == names[0] for item in given):
        yield edit(*changes)


def _operator_place(module: Module, left: ast.AST, right: ast.AST, spelling: str) -> tuple[int, int] | None:
    start, stop = module.between(left, right)
    at = module.text.find(spelling, start, stop)
    return None if at < 0 else (at, at + len(spelling))


def unmasked_access(module: Module) -> Iterator[Edit]:
    """A load or store without its mask, or without what masked elements read as."""
    for call in module.calls("load", "store", "atomic_add", "gather", "scatter"):
        yield from _keyword_edit(module, call, "mask", "other")  # the one is not allowed without the other
        for name in ("other", "boundary_check", "padding_mode", "padding_value"):
            yield from _keyword_edit(module, call, name)
        if module.source(call.func) == "tl.load" and len(call.args) >= 2:
            yield edit((module.place(call.args[0])[1], module.place(call.args[-1])[1], ""))
    for node in module.of(ast.BinOp):
        assert isinstance(node, ast.BinOp)
        if isinstance(node.op, ast.BitAnd) and isinstance(node.left, ast.Compare | ast.BinOp | ast.Name):
            yield edit((*module.place(node), module.source(node.left)))
            yield edit((*module.place(node), module.source(node.right)))


def comparisons(module: Module) -> Iterator[tuple[tuple[int, int], str, str]]:
    """Yields (place, shifted, opposite) of every comparison operator."""
    for node in module.of(ast.Compare):
        assert isinstance(node, ast.Compare)
        if len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
            spelling, shifted, opposite = COMPARISONS[type(node.ops[0])]
            place = _operator_place(module, node.left, node.comparators[0], spelling)
            if place:
                yield place, shifted, opposite


def off_by_one(module: Module) -> Iterator[Edit]:
    """A mask takes one more or one less; offsets start at one."""
    for place, shifted, _ in comparisons(module):
        if module.text[place[0] : place[1]] != shifted:
            yield edit((*place, shifted))
    for call in module.calls("arange"):
        start, stop = module.place(call)
        yield edit((start, stop, f"({module.text[start:stop]} + 1)"))


def flipped_comparison(module: Module) -> Iterator[Edit]:
    """A mask or condition asks for the opposite."""
    for place, _, opposite in comparisons(module):
        yield edit((*place, opposite))


def _ranges(module: Module) -> Iterator[tuple[ast.Call, ast.expr, ast.expr | None]]:
    """Yields (call, end, step) of the ranges that loops run over."""
    for call in module.calls(*RANGES):
        if call.args:
            yield call, call.args[0 if len(call.args) == 1 else 1], call.args[2] if len(call.args) > 2 else None


def dropped_tail(module: Module) -> Iterator[Edit]:
    """The last turn of a loop is left out."""
    for _, end, step in _ranges(module):
        by = module.source(step) if step else "1"
        yield edit((*module.place(end), f"({module.source(end)}) - {by}"))


def early_exit(module: Module) -> Iterator[Edit]:
    """A loop ends halfway."""
    for _, end, _ in _ranges(module):
        yield edit((*module.place(end), f"({module.source(end)}) // 2"))


def aligned_only(module: Module) -> Iterator[Edit]:
    """What is right for whole blocks only: a rounded-up division rounds down."""
    for call in module.calls("cdiv"):
        if len(call.args) == 2:
            left, right = (module.source(a) for a in call.args)
            yield edit((*module.place(call), f"(({left}) // ({right}))"))
    for _, end, step in _ranges(module):
        if step:
            by = module.source(step)
            yield edit((*module.place(end), f"({module.source(end)}) // {by} * {by}"))
    for node in module.of(ast.BinOp):
        assert isinstance(node, ast.BinOp)
        inner = node.left
        if not isinstance(node.op, ast.FloorDiv) or not isinstance(inner, ast.BinOp):
            continue
        if isinstance(inner.op, ast.Sub) and isinstance(inner.left, ast.BinOp) and isinstance(inner.left.op, ast.Add):
            yield edit((*module.place(inner), module.source(inner.left.left)))


def missing_barrier(module: Module) -> Iterator[Edit]:
    """Threads do not wait for each other."""
    for node in module.of(ast.Expr):
        assert isinstance(node, ast.Expr)
        if isinstance(node.value, ast.Call) and last_name(node.value.func) in BARRIERS:
            yield edit((*module.place(node), "pass"))


def race(module: Module) -> Iterator[Edit]:
    """An atomic addition is a load, an addition and a store."""
    for node in module.of(ast.Expr):
        assert isinstance(node, ast.Expr)
        call = node.value
        if not isinstance(call, ast.Call) or last_name(call.func) != "atomic_add" or len(call.args) < 2:
            continue
        owner = module.source(call.func).removesuffix("atomic_add")
        place, amount = module.source(call.args[0]), module.source(call.args[1])
        mask = next((f", mask={module.source(k.value)}" for k in call.keywords if k.arg == "mask"), "")
        yield edit((*module.place(node), f"{owner}store({place}, {owner}load({place}{mask}) + ({amount}){mask})"))


def accumulator_precision(module: Module) -> Iterator[Edit]:
    """Numbers are kept in fewer bits."""
    for node in module.of(ast.Attribute):
        if isinstance(node, ast.Attribute) and node.attr in NARROWER:
            stop = module.place(node)[1]
            yield edit((stop - len(node.attr), stop, NARROWER[node.attr]))
    yield from _dropped_casts(module, tuple(NARROWER))
    for call in module.calls("dot"):
        for name in ("input_precision", "allow_tf32", "out_dtype"):
            yield from _keyword_edit(module, call, name)


def _dropped_casts(module: Module, types: tuple[str, ...]) -> Iterator[Edit]:
    for call in module.calls("to", "astype"):
        if isinstance(call.func, ast.Attribute) and len(call.args) == 1 and last_name(call.args[0]) in types:
            yield edit((*module.place(call), module.source(call.func.value)))


def int_overflow(module: Module) -> Iterator[Edit]:
    """A whole number is kept in too few bits."""
    for node in module.of(ast.Attribute):
        if isinstance(node, ast.Attribute) and node.attr in NARROWER_WHOLE:
            stop = module.place(node)[1]
            yield edit((stop - len(node.attr), stop, NARROWER_WHOLE[node.attr]))
    yield from _dropped_casts(module, ("int64", "uint64"))


def uninitialised(module: Module) -> Iterator[Edit]:
    """A sum starts from what a register happened to hold instead of from nothing."""
    for call in module.calls("zeros", "zeros_like"):
        yield edit((*module.place(call), f"({module.source(call)} + 0.035)"))
    grown = {last_name(node.target) for node in module.of(ast.AugAssign) if isinstance(node, ast.AugAssign)}
    for node in module.of(ast.Assign):
        assert isinstance(node, ast.Assign)
        if isinstance(node.value, ast.Constant) and node.value.value == 0.0 and last_name(node.targets[0]) in grown:
            yield edit((*module.place(node.value), "0.035"))


def wrong_identity(module: Module) -> Iterator[Edit]:
    """A maximum starts at zero."""
    for node in module.of(ast.UnaryOp, ast.Call):
        text = module.source(node)
        if re.fullmatch(
            r'-\s*float\(["\']inf["\']\)|float\(["\']-inf["\']\)|-\s*(math\.)?inf|-1e3\d|-3\.4\d*e38', text
        ):
            yield edit((*module.place(node), "0.0"))


def skipped_max(module: Module) -> Iterator[Edit]:
    """An exponential of a difference forgets to subtract."""
    for call in module.calls("exp", "exp2"):
        if call.args and isinstance(call.args[0], ast.BinOp) and isinstance(call.args[0].op, ast.Sub):
            yield edit((*module.place(call.args[0]), module.source(call.args[0].left)))


def min_max_swapped(module: Module) -> Iterator[Edit]:
    """The largest is taken for the smallest."""
    for call in module.calls(*CHOICES):
        stop = module.place(call.func)[1]
        name = last_name(call.func)
        yield edit((stop - len(name), stop, CHOICES[name]))


def wrong_broadcast(module: Module) -> Iterator[Edit]:
    """A value goes along the wrong axis."""
    for node in module.of(ast.Subscript):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) and len(node.slice.elts) == 2:
            one, other = (module.source(e) for e in node.slice.elts)
            if "None" in (one, other):
                yield edit((*module.place(node.slice), f"{other}, {one}"))
    for call in module.calls("sum", "max", "min", "cumsum", "argmax", "argmin", "expand_dims", "bid", "program_id"):
        axes = [k.value for k in call.keywords if k.arg == "axis"]
        axes += call.args[:1] if last_name(call.func) in ("program_id", "bid") else call.args[1:2]
        for axis in axes:
            if isinstance(axis, ast.Constant) and axis.value in (0, 1) and not isinstance(axis.value, bool):
                yield edit((*module.place(axis), str(1 - axis.value)))


def wrong_stride(module: Module) -> Iterator[Edit]:
    """Rows lie one element nearer to each other than they do, or at no distance at all."""
    for node in module.of(ast.BinOp):
        assert isinstance(node, ast.BinOp)
        if isinstance(node.op, ast.Mult) and STRIDES.search(last_name(node.right)):
            right = module.source(node.right)
            yield edit((*module.place(node.right), f"({right} - 1)"))
            yield edit((*module.place(node), module.source(node.left)))


def swapped_operands(module: Module) -> Iterator[Edit]:
    """What is subtracted or divided changes places with what it is taken from."""
    for node in module.of(ast.BinOp):
        assert isinstance(node, ast.BinOp)
        if isinstance(node.op, ast.Sub | ast.Div):
            left, right = module.source(node.left), module.source(node.right)
            if left != right:
                sign = "-" if isinstance(node.op, ast.Sub) else "/"
                yield edit((*module.place(node), f"(({right}) {sign} ({left}))"))


def swapped_arms(module: Module) -> Iterator[Edit]:
    """The two results of a choice change places."""
    for call in module.calls("where"):
        if len(call.args) == 3:
            one, other = call.args[1:]
            yield edit((*module.place(one), module.source(other)), (*module.place(other), module.source(one)))


def wrong_operation(module: Module) -> Iterator[Edit]:
    """Adds where it should subtract, multiplies where it should divide."""
    for node in module.of(ast.BinOp):
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
            spelling, other = OPERATIONS[type(node.op)]
            place = _operator_place(module, node.left, node.right, spelling)
            if place:
                yield edit((*place, other))


def lost_accumulation(module: Module) -> Iterator[Edit]:
    """Each term replaces the sum."""
    for node in module.of(ast.AugAssign):
        assert isinstance(node, ast.AugAssign)
        start, stop = module.between(node.target, node.value)
        yield edit((start, stop, " = "))


def wrong_constant(module: Module) -> Iterator[Edit]:
    """A constant such as epsilon or a factor is not what the formula says."""
    for node in module.of(ast.Constant):
        if isinstance(node, ast.Constant) and isinstance(node.value, float) and node.value and abs(node.value) < 1e30:
            factor = 100.0 if node.value < SMALL_CONSTANT else 1.125
            yield edit((*module.place(node), repr(node.value * factor)))


def lost_sign(module: Module) -> Iterator[Edit]:
    """A minus or an absolute value is gone."""
    for node in module.of(ast.UnaryOp):
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and "inf" not in module.source(node):
            yield edit((*module.place(node), module.source(node.operand)))
    for call in module.calls("abs"):
        if len(call.args) == 1:
            yield edit((*module.place(call), f"({module.source(call.args[0])})"))


def nan_blind(module: Module) -> Iterator[Edit]:
    """Nothing is done about NaN any more."""
    for call in module.calls(*CHOICES, "clamp"):
        yield from _keyword_edit(module, call, "propagate_nan")
    for node in module.of(ast.Compare):
        assert isinstance(node, ast.Compare)
        same = module.source(node.left) == module.source(node.comparators[0])
        if isinstance(node.ops[0], ast.NotEq) and same:
            yield edit((*module.place(node), f"({module.source(node.left)} < {module.source(node.left)})"))


def wrong_reduction(module: Module) -> Iterator[Edit]:
    """A scan goes the other way; a transposition is missing."""
    for call in module.calls("trans", "transpose"):
        if call.args:
            yield edit((*module.place(call), module.source(call.args[0])))
    for call in module.calls("cumsum", "cumprod", "associative_scan"):
        stop = module.place(call)[1]
        if not any(k.arg == "reverse" for k in call.keywords):
            yield edit((stop - 1, stop - 1, ", reverse=True"))
        yield from _keyword_edit(module, call, "reverse")


def dropped_write(module: Module) -> Iterator[Edit]:
    """A result is computed and not written."""
    for node in module.of(ast.Expr):
        assert isinstance(node, ast.Expr)
        if isinstance(node.value, ast.Call) and last_name(node.value.func) in ("store", "atomic_add", "scatter"):
            yield edit((*module.place(node), "pass"))


def deleted_statement(module: Module) -> Iterator[Edit]:
    """An update of a variable is missing."""
    for node in module.of(ast.AugAssign):
        yield edit((*module.place(node), "pass"))
    seen: set[str] = set()
    for node in sorted(module.of(ast.Assign), key=lambda n: module.place(n)):
        assert isinstance(node, ast.Assign)
        name = last_name(node.targets[0])
        if name in seen and len(node.targets) == 1:
            yield edit((*module.place(node), "pass"))
        seen.add(name)
