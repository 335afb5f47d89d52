"""A problem at other sizes of its dynamic axes.

Pure: nothing is run, since `Axis.places` says where every size stands.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelwright.types import Axis, Problem, TensorSpec, replace


def sizes_of(problem: Problem) -> dict[str, int]:
    """Returns the size of every dynamic axis, by name, as the problem stands."""
    return {axis.name: axis.size for axis in problem.axes}


def problem_at(problem: Problem, sizes: Mapping[str, int]) -> Problem:
    """Returns the problem with other sizes for some of its axes.

    Every shape has the new sizes, and so have the axes; the count of bytes is scaled with the tensors', operations
    are not known. An axis that `sizes` does not name keeps its size.

    Raises:
        ValueError: for an axis that the problem does not have, or a size beyond the axis's range.
    """
    known = {axis.name: axis for axis in problem.axes}
    for name, size in sizes.items():
        if name not in known:
            raise ValueError(f"{problem.name} has no axis {name!r}; it has {', '.join(known) or 'none'}")
        if not known[name].low <= size <= known[name].high:
            raise ValueError(f"{name}={size} is beyond {known[name].low}..{known[name].high}")
    axes = tuple(replace(axis, size=sizes.get(axis.name, axis.size)) for axis in problem.axes)
    if axes == problem.axes:
        return problem
    made = replace(
        problem,
        axes=axes,
        inputs=tuple(_at(spec, axes) for spec in problem.inputs),
        parameters=tuple(_at(spec, axes) for spec in problem.parameters),
        outputs=tuple(_at(spec, axes) for spec in problem.outputs),
        flops=None,
    )
    share = elements(made) / max(1, elements(problem))
    return replace(made, min_bytes=int(problem.min_bytes * share))


def elements(problem: Problem) -> int:
    """Returns the number of elements of all the problem's tensors."""
    return sum(count_of(spec) for spec in problem.arguments)


def count_of(spec: TensorSpec) -> int:
    """Returns how many elements a tensor has."""
    count = 1
    for size in spec.shape:
        count *= size
    return count


def _at(spec: TensorSpec, axes: tuple[Axis, ...]) -> TensorSpec:
    shape = list(spec.shape)
    for axis in axes:
        for name, dim in axis.places:
            if name == spec.name:
                shape[dim] = axis.size
    if tuple(shape) == spec.shape:
        return spec
    return replace(spec, shape=tuple(shape), strides=None)
