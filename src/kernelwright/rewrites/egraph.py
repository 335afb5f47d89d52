"""An e-graph over operator calls: all equal ways to write a program, each distinct call kept once.

Equal calls share a class, so that common work is found by construction; classes that a rule proves equal are
joined, and congruence is restored by `rebuild` (Willsey et al., "egg: Fast and Extensible Equality Saturation",
POPL 2021). Graphs here have hundreds of nodes, not millions: everything is plain Python.
Not here: rules (scalars.py, reductions.py, products.py), costs (cost.py), and what is chosen (extract.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernelwright.graph import DtypeArg, ResultSpec


@dataclass(frozen=True, order=True, slots=True)
class Id:
    """A class of equal values: no int, so that it is never taken for a number of the program."""

    number: int

    def __repr__(self) -> str:
        return f"${self.number}"


EArg = Id | DtypeArg | int | float | bool | str | None | tuple["EArg", ...]


@dataclass(frozen=True)
class ENode:
    """One operator call over classes; or a leaf, whose `op` is `input` or `constant`."""

    op: str
    arguments: tuple[tuple[str, EArg], ...]
    index: int = 0
    """Which result of the operator this is."""

    @property
    def base(self) -> str:
        """The operator's name without namespace and overload."""
        return self.op.split(".")[1] if "." in self.op else self.op

    def argument(self, name: str) -> EArg:
        """Returns the argument of that schema name, None where the operator has none."""
        return next((item for key, item in self.arguments if key == name), None)

    def operands(self) -> Iterator[Id]:
        """Yields every class that the call reads."""
        pending: list[EArg] = [item for _, item in self.arguments]
        while pending:
            item = pending.pop(0)
            if isinstance(item, Id):
                yield item
            elif isinstance(item, tuple):
                pending[:0] = item


@dataclass(frozen=True)
class Origin:
    """Where a call comes from."""

    rule: str
    """Empty for the program as it was written."""
    finite: bool
    """True where it equals the others of its class for finite values only."""


class EGraph:
    """Classes of equal calls."""

    def __init__(self) -> None:
        self._parent: list[Id] = []
        self._classes: dict[Id, list[ENode]] = {}
        self._specs: dict[Id, ResultSpec] = {}
        self._known: dict[str, Id] = {}
        self._origins: dict[str, Origin] = {}
        self.origin = Origin(rule="", finite=False)
        """What new calls are noted as coming from."""
        self.unions = 0

    def find(self, item: Id) -> Id:
        """Returns the representative of a class."""
        root = item
        while self._parent[root.number] != root:
            root = self._parent[root.number]
        while self._parent[item.number] != root:
            self._parent[item.number], item = root, self._parent[item.number]
        return root

    def canonical(self, node: ENode) -> ENode:
        """Returns a call over representatives."""
        return ENode(node.op, tuple((key, self._canonical(item)) for key, item in node.arguments), node.index)

    def _canonical(self, item: EArg) -> EArg:
        if isinstance(item, Id):
            return self.find(item)
        return tuple(self._canonical(part) for part in item) if isinstance(item, tuple) else item

    def add(self, node: ENode, spec: ResultSpec) -> Id:
        """Returns the class of a call, a new one where the call is new."""
        node = self.canonical(node)
        key = key_of(node)
        if key in self._known:
            return self.find(self._known[key])
        made = Id(len(self._parent))
        self._parent.append(made)
        self._classes[made], self._specs[made] = [node], spec
        self._known[key], self._origins[key] = made, self.origin
        return made

    def union(self, one: Id, other: Id) -> bool:
        """Joins two classes; returns whether they were apart."""
        one, other = self.find(one), self.find(other)
        if one == other:
            return False
        if self._specs[one].shape != self._specs[other].shape or self._specs[one].dtype != self._specs[other].dtype:
            raise AssertionError(f"{self.origin.rule}: {self._specs[one]} joined with {self._specs[other]}")
        low, high = (one, other) if one < other else (other, one)
        self._parent[high.number] = low
        self._classes[low] += self._classes.pop(high)
        self.unions += 1
        return True

    def rebuild(self) -> None:
        """Restores congruence: calls that became equal through unions share a class again."""
        changed = True
        while changed:
            changed = False
            known: dict[str, Id] = {}
            origins: dict[str, Origin] = {}
            for item in list(self._classes):
                for node in self._classes.get(item, ()):
                    fresh = self.canonical(node)
                    key, here = key_of(fresh), self.find(item)
                    before = self._origins.get(key_of(node), self.origin)
                    # A call of the program itself, or one that always holds, is the better witness of where it is from.
                    if key not in origins or (origins[key].finite, origins[key].rule) > (before.finite, before.rule):
                        origins[key] = before
                    if key in known and self.find(known[key]) != here:
                        changed = self.union(known[key], here) or changed
                    known[key] = self.find(here)
            for item, nodes in self._classes.items():
                self._classes[item] = list({key_of(n): n for n in map(self.canonical, nodes)}.values())
            self._known, self._origins = known, origins

    def nodes(self, item: Id) -> tuple[ENode, ...]:
        """Returns the equal calls of a class."""
        return tuple(self._classes[self.find(item)])

    def classes(self) -> tuple[Id, ...]:
        """Returns every class."""
        return tuple(self._classes)

    def spec(self, item: Id) -> ResultSpec:
        """Returns shape, dtype and strides of a class's value; strides are those of the call that came first."""
        return self._specs[self.find(item)]

    def origin_of(self, node: ENode) -> Origin:
        """Returns where a call comes from."""
        return self._origins[key_of(self.canonical(node))]

    def size_now(self) -> int:
        """Returns how many calls were ever added: quick, for limits."""
        return len(self._parent)

    def known(self, node: ENode) -> Id | None:
        """Returns the class of a call, None where it is not there."""
        found = self._known.get(key_of(self.canonical(node)))
        return None if found is None else self.find(found)

    def size(self) -> int:
        """Returns the number of calls."""
        return sum(map(len, self._classes.values()))


def key_of(node: ENode) -> str:
    """Returns a text that tells calls apart where Python's equality does not (1, 1.0, True, -0.0)."""
    return f"{node.op}{node.index}{node.arguments!r}"
