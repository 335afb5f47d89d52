"""Sizes that may vary: how users declare them, and which dimensions of the outputs follow.

A file with the class contract says it as for `torch.export`, by argument and dimension:

    DYNAMIC = {"x": {0: ("B", 1, 8192)}, "mask": {0: "B"}}      # or torch.export.Dim("B", min=1, max=8192)

On the command line, for functions, built-ins and files without DYNAMIC: `--dynamic "B=x[0],mask[0]:1..8192"`.

Covers: inputs whose dimensions are the axis itself, outputs whose dimensions are; the range is run at its ends.
Does not cover: dimensions derived from an axis (2*B, B+1), parameters that depend on one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from kernelwright.axes import elements, problem_at
from kernelwright.errors import SourceError
from kernelwright.languages.plan import is_identifier
from kernelwright.reference_program import Reference, load_problem
from kernelwright.types import Axis, Problem, replace

MOST_AXES = 8
MOST_ELEMENTS = 1 << 24
"""The upper end of a range is run at capture up to this size; beyond, the judge meets it as far as memory allows."""
DECLARATION = 'DYNAMIC = {"x": {0: ("B", 1, 8192)}}'


def declared(reference: Reference) -> tuple[Axis, ...]:
    """Returns the axes that a file's DYNAMIC declares, with places as it names them and sizes still 0.

    Raises:
        SourceError: for anything but argument names, dimensions, and names with ranges.
    """
    given = getattr(reference.namespace, "DYNAMIC", None)
    if not given:
        return ()
    if not isinstance(given, Mapping):
        raise SourceError("DYNAMIC is no dictionary", f"write {DECLARATION}")
    ranges: dict[str, tuple[int, int]] = {}
    places: dict[str, list[tuple[str, int]]] = {}
    for argument, dims in given.items():
        for dim, item in _dims(argument, dims):
            name, low, high = _named(argument, item)
            if low is not None and high is not None and ranges.setdefault(name, (low, high)) != (low, high):
                raise SourceError(f"DYNAMIC gives {name} two ranges", "give its range once, then its name alone")
            places.setdefault(name, []).append((argument, dim))
    if missing := [name for name in places if name not in ranges]:
        raise SourceError(f"DYNAMIC gives {missing[0]} no range", f"write {DECLARATION}")
    return tuple(_axis(name, *ranges[name], tuple(found)) for name, found in places.items())


def _dims(argument: object, dims: object) -> list[tuple[int, object]]:
    if isinstance(argument, str) and isinstance(dims, Mapping) and all(isinstance(d, int) for d in dims):
        return list(dims.items())
    raise SourceError(f"DYNAMIC[{argument!r}] is no dictionary of dimensions", f"write {DECLARATION}")


def _named(argument: str, item: Any) -> tuple[str, int | None, int | None]:
    if isinstance(item, str):
        return item, None, None
    if isinstance(item, tuple | list) and len(item) == 3:
        name, low, high = item
        if isinstance(name, str) and isinstance(low, int) and isinstance(high, int):
            return name, low, high
    # torch.export.Dim("B", min=1, max=8192); a derived one has a root.
    if hasattr(item, "min") and hasattr(item, "max") and hasattr(item, "__name__") and not hasattr(item, "root"):
        return str(item.__name__), int(item.min), int(item.max)
    raise SourceError(f"DYNAMIC[{argument!r}] holds {item!r}", 'a dimension is ("B", 1, 8192) or a name used before')


def _axis(name: str, low: int, high: int, places: tuple[tuple[str, int], ...]) -> Axis:
    return Axis(name=name, size=0, low=low, high=high, places=places)


def complete(problem: Problem, labels: Sequence[str]) -> Problem:
    """Returns the problem with its axes checked, their sizes taken from the inputs, and their places in the outputs.

    Args:
        problem: with inputs, parameters and outputs at the declared sizes; its axes name places by argument.
        labels: the inputs' names as the user wrote them, in order.

    Raises:
        SourceError: when an axis does not fit the inputs, or the reference does not hold for its range.
    """
    if not problem.axes:
        return problem
    if len(problem.axes) > MOST_AXES:
        raise SourceError(f"{len(problem.axes)} sizes vary; {MOST_AXES} can", "declare fewer")
    names = dict(zip(labels, (spec.name for spec in problem.inputs), strict=True))
    axes = tuple(_sized(axis, problem, names) for axis in problem.axes)
    if twice := [p for i, axis in enumerate(axes) for p in axis.places if any(p in a.places for a in axes[:i])]:
        raise SourceError(f"dimension {twice[0][1]} of {twice[0][0]} is declared twice", "give it one name")
    problem = replace(problem, axes=axes)
    followed = tuple(replace(axis, places=axis.places + _followers(problem, axis)) for axis in axes)
    problem = replace(problem, axes=followed)
    for axis in followed:
        for size in {axis.low, axis.high}:
            at = problem_at(problem, {axis.name: size})
            if elements(at) <= max(MOST_ELEMENTS, 2 * elements(problem)):
                _check_run(problem, at, f"{axis.name}={size}")
    return problem


def _sized(axis: Axis, problem: Problem, names: Mapping[str, str]) -> Axis:
    taken = [spec.name for spec in problem.arguments]
    if not is_identifier(axis.name) or axis.name in taken:
        what = "is a tensor's name" if axis.name in taken else "is no identifier"
        raise SourceError(f"the axis {axis.name!r} {what}", "name it with another word, such as B")
    shapes = {spec.name: spec.shape for spec in problem.inputs}
    places, sizes = [], set()
    for label, dim in axis.places:
        name = names.get(label)
        if name is None:
            raise SourceError(f"axis {axis.name}: there is no input {label!r}", f"inputs are {', '.join(names)}")
        rank = len(shapes[name])
        if not -rank <= dim < rank:
            raise SourceError(f"axis {axis.name}: {label} has no dimension {dim}", f"its shape is {list(shapes[name])}")
        places.append((name, dim % rank))
        sizes.add(shapes[name][dim])
    if len(sizes) != 1:
        found = ", ".join(f"{label}[{dim}]" for label, dim in axis.places)
        raise SourceError(f"axis {axis.name}: {found} have the sizes {sorted(sizes)}", "use two axes")
    size = sizes.pop()
    if not 1 <= axis.low <= size <= axis.high:
        message = f"axis {axis.name}: the inputs have the size {size}, which is not in {axis.low}..{axis.high}"
        raise SourceError(message, "widen the range, or draw other inputs")
    return replace(axis, size=size, places=tuple(places))


def _followers(problem: Problem, axis: Axis) -> tuple[tuple[str, int], ...]:
    """Returns the dimensions of outputs that have the axis's size, by running the reference at another size."""
    if axis.low == axis.high:
        raise SourceError(f"axis {axis.name} has one size only, {axis.low}", "give a range of sizes")
    other = axis.size - 1 if axis.size > axis.low else axis.size + 1
    outputs = _run(problem_at(problem, {axis.name: other}), f"{axis.name}={other}")
    found = []
    for spec, tensor in zip(problem.outputs, outputs, strict=True):
        if tensor.dim() != len(spec.shape):
            raise SourceError(f"{spec.name} has another number of dimensions for {axis.name}={other}", "fix its rank")
        for dim, (before, after) in enumerate(zip(spec.shape, tensor.shape, strict=True)):
            if before == after:
                continue
            if (before, after) != (axis.size, other):
                message = f"dimension {dim} of {spec.name} is {before} for {axis.name}={axis.size}, {after} for {other}"
                raise SourceError(message, f"only dimensions that are {axis.name} itself can vary; reshape outside")
            found.append((spec.name, dim))
    return tuple(found)


def _check_run(problem: Problem, at: Problem, where: str) -> None:
    outputs = _run(at, where)
    for spec, tensor in zip(at.outputs, outputs, strict=True):
        if tuple(tensor.shape) != spec.shape:
            raise SourceError(f"{spec.name} is {list(tensor.shape)} for {where}, not {list(spec.shape)}", "fix it")
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise SourceError(f"{spec.name} is not finite for {where}", "narrow the range of sizes")


def _run(at: Problem, where: str) -> tuple[torch.Tensor, ...]:
    reference = load_problem(at)
    try:
        with torch.no_grad():
            return reference.call(reference.make_module(0), reference.make_inputs(1))
    except SourceError as error:
        message = f"the reference does not hold for {where}: {error.message}"
        raise SourceError(message, "narrow the range, or take sizes from the inputs' shapes") from error
