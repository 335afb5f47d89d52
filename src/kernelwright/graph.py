"""The operator graph of a reference, free of any framework: what experts read.

Nodes carry core ATen names with every argument named after the operator's schema and every default
filled in, so that a reader never needs the framework to know what a call means. Complex tensors between FFTs are pairs
of real numbers, in a last dimension of two.
Not here: how a graph is captured (capture/worker.py) and what is made of it (experts/).
"""

from __future__ import annotations

from kernelwright.types import Dtype, Problem, value


@value
class Ref:
    """A use of a tensor: an input or parameter of the problem, or a node's result."""

    name: str
    """A TensorSpec's name (inputs, parameters) or a node's name."""
    index: int = 0
    """Which result, for operators that return several."""


@value
class DtypeArg:
    """A dtype given as an argument, kept apart from strings."""

    name: Dtype


Arg = Ref | DtypeArg | int | float | bool | str | None | tuple["Arg", ...]


@value
class ResultSpec:
    """Shape, dtype and strides of one result of a node; strides in elements."""

    shape: tuple[int, ...]
    dtype: Dtype
    strides: tuple[int, ...]


@value
class Node:
    """One operator call."""

    name: str
    op: str
    """Namespace, name and overload: `aten.add.Tensor`."""
    arguments: tuple[tuple[str, Arg], ...]
    """(schema name, argument), in the schema's order, defaults included."""
    results: tuple[ResultSpec | None, ...]
    """One for each returned tensor; None for a result that is not a tensor."""

    def argument(self, name: str) -> Arg:
        """Returns the argument of that schema name.

        Raises:
            KeyError: when the operator has no such argument.
        """
        for key, item in self.arguments:
            if key == name:
                return item
        raise KeyError(f"{self.op} has no argument {name!r}")


@value
class Constant:
    """A tensor that the reference holds as a literal, with its elements flat in row-major order."""

    name: str
    shape: tuple[int, ...]
    dtype: Dtype
    values: tuple[float | int | bool, ...]


@value
class Graph:
    """A reference as operator calls in an order that can be executed."""

    nodes: tuple[Node, ...]
    outputs: tuple[Ref, ...]
    """In the order of the problem's outputs."""
    constants: tuple[Constant, ...] = ()
    """Small literals; a reference with larger ones has no graph."""


@value
class Capture:
    """What became of a source: the problem, and its graph where one could be made."""

    problem: Problem
    graph: Graph | None
    reason: str = ""
    """Why there is no graph, in one line that names the operator or construct."""
    notes: tuple[str, ...] = ()
    """Things the user should know, such as families that do not apply."""
