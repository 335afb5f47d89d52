"""Loop nests: from folds and stores over one frame to atoms, segments and passes.

A frame is the index space of one kernel: axes in memory order, each either kept (parallel) or reduced. Lowering
evaluates everything that the kernel computes over variables for these axes; whenever a view needs a variable to be
split, or a concatenation needs a loop to be cut, it does so and starts over. At the end neighbouring variables
that every access treats as one are merged again. Not here: which kernel computes what (schedule.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod

from kernelwright.experts import tensors as t
from kernelwright.experts.expression import Evaluator, Expression, StoreNeeded
from kernelwright.experts.index import (
    Affine,
    CutNeeded,
    Index,
    NotAffine,
    SplitNeeded,
    Variable,
    delinearise,
    linearise,
    variable,
)

RESTARTS = 200
"""More splits and cuts than any sensible graph needs."""


@dataclass(frozen=True)
class Axis:
    """One axis of a frame."""

    extent: int
    reduced: bool


Frame = tuple[Axis, ...]


def frame_of(shape: tuple[int, ...], reduced: Iterable[int]) -> Frame:
    """Returns the frame of a shape: axes of one element dropped, neighbours of one kind merged."""
    gone = set(reduced)
    axes: list[Axis] = []
    for number, extent in enumerate(shape):
        if extent == 1:
            continue
        if axes and axes[-1].reduced == (number in gone):
            axes[-1] = Axis(axes[-1].extent * extent, axes[-1].reduced)
        else:
            axes.append(Axis(extent, number in gone))
    return tuple(axes)


def size_of(frame: Frame, *, reduced: bool | None = None) -> int:
    """Returns the number of points of a frame, or of its kept or reduced part."""
    return prod(axis.extent for axis in frame if reduced is None or axis.reduced == reduced)


@dataclass(frozen=True, eq=False)
class Store:
    """A tensor that a kernel writes to a buffer, in row-major order."""

    tensor: t.Tensor
    target: t.Source


@dataclass
class Kernel:
    """One loop nest over a frame: the folds and scans it computes and the tensors it stores."""

    frame: Frame
    folds: list[t.Fold] = field(default_factory=list)
    scans: list[t.Scan] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Write:
    """A store over loop variables."""

    target: t.Source
    place: Affine
    value: Expression
    of_row: bool
    """Whether it happens once for each row, not for each element."""


@dataclass
class Segment:
    """What happens in one stretch of the innermost loop."""

    variables: tuple[Variable, ...]
    """All variables in frame order."""
    folds: dict[t.Tensor, Expression]
    """What each fold or scan takes in."""
    writes: list[Write]


@dataclass
class Loops:
    """A lowered kernel."""

    kernel: Kernel
    variables: tuple[Variable, ...]
    """In frame order; in a segment the last one has other bounds."""
    reduced: frozenset[Variable]
    segments: list[Segment]
    tables: dict[str, t.Table]
    used: dict[t.Tensor, None]


def lower(kernel: Kernel, stored: dict[t.Tensor, t.Source]) -> list[Loops]:
    """Returns the loop nests of a kernel: one, or several where outer loops had to be cut.

    Raises:
        StoreNeeded: when a tensor has to be stored by an earlier kernel.
        NotAffine: when a store does not fit the frame.
    """
    variables = [Variable(f"i{n}", axis.extent) for n, axis in enumerate(kernel.frame)] or [Variable("i0", 1)]
    reduced = {v for v, axis in zip(variables, kernel.frame, strict=False) if axis.reduced}
    return lower_box(kernel, stored, variables, reduced)


def lower_box(
    kernel: Kernel, stored: dict[t.Tensor, t.Source], variables: list[Variable], reduced: set[Variable]
) -> list[Loops]:
    """Returns the loop nests over a box of the frame's points."""
    cuts: list[int] = []
    for _ in range(RESTARTS):
        last = variables[-1]
        try:
            return [attempt(kernel, stored, variables, frozenset(reduced), cuts)]
        except SplitNeeded as need:
            target = last if need.variable not in variables else need.variable
            if target.low or target.high != target.axis:
                raise StoreNeeded(joined_below(kernel)) from None
            halves = [Variable(target.name + "a", target.high // need.inner), Variable(target.name + "b", need.inner)]
            at = variables.index(target)
            variables[at : at + 1] = halves
            reduced |= set(halves) if target in reduced else set()
            cuts = []
        except CutNeeded as need:
            if need.variable is last or need.variable not in variables:
                cuts = sorted({*cuts, need.at})
            elif kernel.folds or kernel.scans:
                raise StoreNeeded(joined_below(kernel)) from None
            else:
                return cut_boxes(kernel, stored, variables, need)
    raise StoreNeeded(joined_below(kernel))


def cut_boxes(
    kernel: Kernel, stored: dict[t.Tensor, t.Source], variables: list[Variable], need: CutNeeded
) -> list[Loops]:
    """Returns the loop nests below and above a cut of an outer loop."""
    at = variables.index(need.variable)
    old = variables[at]
    boxes: list[Loops] = []
    for low, high in ((old.low, need.at), (need.at, old.high)):
        part = list(variables)
        part[at] = old.part(low, high)
        boxes += lower_box(kernel, stored, part, set())
    return boxes


def joined_below(kernel: Kernel) -> t.Tensor:
    """Returns a concatenation that a kernel reads, so that it can be stored instead."""
    roots = (*kernel.folds, *kernel.scans, *(store.tensor for store in kernel.stores))
    return next((x for x in t.walk(roots) if isinstance(x, t.Joined) and x not in roots), roots[0])


def attempt(
    kernel: Kernel,
    stored: dict[t.Tensor, t.Source],
    variables: list[Variable],
    reduced: frozenset[Variable],
    cuts: list[int],
) -> Loops:
    """Returns the loops over given variables, or raises what has to change."""
    last = variables[-1]
    ends = [last.low, *cuts, last.high]
    segments: list[Segment] = []
    tables: dict[str, t.Table] = {}
    used: dict[t.Tensor, None] = {}
    for low, high in pairwise(ends):
        part = variables if not cuts else [*variables[:-1], last.part(low, high)]
        marks = {v for v in reduced if v in part} | ({part[-1]} if last in reduced else set())
        segment, evaluator = evaluate(kernel, stored, part, marks, alone=not cuts)
        segments.append(segment)
        tables |= evaluator.tables
        used |= evaluator.used
    return merge(Loops(kernel, tuple(variables), reduced, segments, tables, used))


def evaluate(
    kernel: Kernel,
    stored: dict[t.Tensor, t.Source],
    variables: list[Variable],
    reduced: set[Variable],
    *,
    alone: bool,
) -> tuple[Segment, Evaluator]:
    """Returns everything that a kernel computes, as expressions over variables.

    A fold that is written twice is computed once where the segment is `alone`: in every segment folds are the same.
    """
    extents = [v.axis for v in variables]
    position = linearise(tuple(variable(v) for v in variables), extents)
    kept = [(v, e) for v, e in zip(variables, extents, strict=True) if v not in reduced]
    row = linearise(tuple(variable(v) for v, _ in kept), [e for _, e in kept])
    every: list[t.Fold | t.Scan] = [*kernel.folds, *kernel.scans]
    places: dict[t.Tensor, Index] = {f: delinearise(position, f.arg.shape) for f in every}
    inside: dict[t.Tensor, Index] = {}
    for f in kernel.folds:
        inside[f] = tuple(part for axis, part in enumerate(places[f]) if axis not in f.axes)
    inside |= {s: places[s] for s in kernel.scans}
    available = frozenset(v for v in variables if v not in reduced)
    evaluator = Evaluator(inside=inside, available=available, stored=stored)
    folds: dict[t.Tensor, Expression] = {}
    seen: dict[tuple[object, ...], t.Fold | t.Scan] = {}
    for one in every:
        value = evaluator.value(one.arg, places[one])
        first = seen.setdefault((type(one), one.kind, one.dtype, value), one)
        if first is one or not alone:
            folds[one] = value
        else:
            evaluator.equal[one] = first
    whole, rows = size_of(kernel.frame), size_of(kernel.frame, reduced=False)
    writes: list[Write] = []
    for store in kernel.stores:
        form = position if store.tensor.size == whole else row
        if store.tensor.size not in (whole, rows):
            raise NotAffine("a stored tensor has the size of the frame or of its rows")
        value = evaluator.value(store.tensor, delinearise(form, store.tensor.shape))
        writes.append(Write(store.target, form, value, form is row))
    check_scans(folds, writes)
    return Segment(tuple(variables), folds, writes), evaluator


def check_scans(folds: dict[t.Tensor, Expression], writes: list[Write]) -> None:
    """Asks for a scan to be stored when something needs its elements after the pass that makes them."""
    for e in folds.values():
        for scan in e.folds:
            if isinstance(scan, t.Scan):
                raise StoreNeeded(scan)
    levels = levels_of(folds)
    for write in writes:
        for scan in write.value.folds:
            if isinstance(scan, t.Scan) and pass_of(write.value, levels) != levels[scan]:
                raise StoreNeeded(scan)


def levels_of(folds: dict[t.Tensor, Expression]) -> dict[t.Tensor, int]:
    """Returns the pass in which each fold and scan is computed; folds are in order of their dependencies."""
    levels: dict[t.Tensor, int] = {}
    for tensor in sorted(folds, key=lambda f: isinstance(f, t.Scan)):
        levels[tensor] = pass_of(folds[tensor], levels)
    return levels


def pass_of(value: Expression, levels: dict[t.Tensor, int]) -> int:
    """Returns the first pass in which a value can be computed: after its folds, with its scans."""
    return max((levels[f] + isinstance(f, t.Fold) for f in value.folds), default=0)


# ----------------------------------------------------------------------------- merging


def merge(loops: Loops) -> Loops:
    """Returns loops whose neighbouring variables are merged where every access treats them as one."""
    changed = True
    while changed:
        changed = False
        forms = [form for segment in loops.segments for form in forms_of(segment)]
        # A cut innermost loop stays as it is: its segments have variables of their own.
        free = loops.variables if len(loops.segments) == 1 else loops.variables[:-1]
        for outer, inner in pairwise(free):
            if (outer in loops.reduced) == (inner in loops.reduced) and mergeable(outer, inner, forms):
                loops = merged(loops, outer, inner)
                changed = True
                break
    return loops


def mergeable(outer: Variable, inner: Variable, forms: list[Affine]) -> bool:
    """Returns whether two variables always occur as one row-major pair."""
    if any(v.low or v.high != v.axis for v in (outer, inner)):
        return False
    return all(form.coefficient(outer) == form.coefficient(inner) * inner.high for form in forms)


def forms_of(segment: Segment) -> Iterable[Affine]:
    """Yields every affine form of a segment."""
    seen: set[Expression] = set()
    stack = [*segment.folds.values(), *(w.value for w in segment.writes)]
    yield from (w.place for w in segment.writes)
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        stack.extend(e.args)
        if e.op == "load":
            yield e.source.place
        elif e.op == "index":
            yield e.form


def merged(loops: Loops, outer: Variable, inner: Variable) -> Loops:
    """Returns the loops with two neighbouring variables made one."""
    one = Variable(outer.name, outer.high * inner.high)
    names: dict[Variable, Variable | None] = {outer: None, inner: one}
    rewrite = rewriter(names)

    def renamed(variables: tuple[Variable, ...]) -> tuple[Variable, ...]:
        return tuple(one if v is inner else v for v in variables if v is not outer)

    segments = [
        Segment(
            renamed(segment.variables),
            {f: rewrite(e) for f, e in segment.folds.items()},
            [
                Write(w.target, rewrite_form(w.place, rewrite, names), rewrite(w.value), w.of_row)
                for w in segment.writes
            ],
        )
        for segment in loops.segments
    ]
    reduced = loops.reduced | {one} if outer in loops.reduced else loops.reduced
    return Loops(loops.kernel, renamed(loops.variables), reduced, segments, loops.tables, loops.used)


def rewriter(names: dict[Variable, Variable | None]) -> Callable[[Expression], Expression]:
    """Returns a function that renames variables in expressions; None drops one."""
    done: dict[Expression, Expression] = {}

    def rewrite(e: Expression) -> Expression:
        if e not in done:
            if not e.variables & names.keys():
                done[e] = e
            else:
                data = e.data
                if e.op == "load":
                    data = replace(e.source, place=rewrite_form(e.source.place, rewrite, names))
                elif e.op == "index":
                    data = rewrite_form(e.form, rewrite, names)
                variables = frozenset(n for v in e.variables if (n := names.get(v, v)) is not None)
                done[e] = Expression(e.op, tuple(map(rewrite, e.args)), e.ctype, data, variables, e.folds, e.span)
        return done[e]

    return rewrite


def rewrite_form(
    form: Affine, rewrite: Callable[[Expression], Expression], names: dict[Variable, Variable | None]
) -> Affine:
    """Returns an affine form under new variables."""
    terms: list[tuple[object, int]] = []
    for term, c in form.terms:
        new = names.get(term, term) if isinstance(term, Variable) else rewrite(term)  # type: ignore[arg-type]
        if new is not None:
            terms.append((new, c))
    return Affine(form.offset, tuple(terms))
