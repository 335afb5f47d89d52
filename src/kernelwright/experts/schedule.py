"""Which kernel computes what: folds over one frame share a kernel, everything else is stored in between.

First the tensors are rewritten so that every fold reduces one block of neighbouring axes, with enough parallel
work: a long fold with few results becomes a fold of parts and a fold over the parts, whose order is fixed, so that
results do not depend on the number of threads. Then folds are placed greedily, in order of their dependencies, in
the first kernel of their frame that can hold them. Outputs go to a kernel of their size, or to one of their own.
Not here: loops (frame.py) and C++ (emit*.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from kernelwright.experts import tensors as t
from kernelwright.experts.expression import StoreNeeded
from kernelwright.experts.fold_parts import part_of
from kernelwright.experts.frame import Frame, Kernel, Loops, Store, frame_of, lower, size_of
from kernelwright.experts.index import NotAffine
from kernelwright.experts.read import Unreadable
from kernelwright.experts.read_views import reshape

RETRIES = 20
"""Attempts to place everything; each stores one more tensor."""


@dataclass
class Schedule:
    """Kernels in an order that can be executed, and the buffers between them."""

    forced: set[t.Tensor] = field(default_factory=set)
    """Tensors that must be stored, because no loop nest can compute them where they are used."""
    kernels: list[Kernel] = field(default_factory=list)
    owner: dict[t.Tensor, int] = field(default_factory=dict)
    """The kernel that computes a fold, a scan or a stored tensor."""
    buffers: dict[t.Tensor, t.Source] = field(default_factory=dict)

    def workspace(self, tensor: t.Tensor) -> t.Source:
        """Returns the buffer that holds a tensor between kernels, if it is needed there."""
        if tensor not in self.buffers:
            name = f"work_{len(self.buffers)}"
            self.buffers[tensor] = t.Source(shape=tensor.shape, dtype=tensor.dtype, name=name)
        return self.buffers[tensor]

    def elsewhere(self, kernel: Kernel) -> dict[t.Tensor, t.Source]:
        """Returns the buffers of everything known that a kernel does not compute itself."""
        stored = [x.tensor for x in kernel.stores if x.target is self.buffers.get(x.tensor)]
        own = {*kernel.folds, *kernel.scans, *stored}
        return {tensor: self.workspace(tensor) for tensor in self.owner if tensor not in own}


# ---------------------------------------------------------------------------- rewriting


def rebuild(roots: tuple[t.Tensor, ...], *, split: bool) -> tuple[t.Tensor, ...]:
    """Returns the roots with every fold reduced to blocks of neighbouring axes, and split where it is long."""
    new: dict[t.Tensor, t.Tensor] = {}
    whole = {frame_of(x.arg.shape, x.axes) for x in t.walk(roots) if isinstance(x, t.Fold) and x.shape != ()}
    for tensor in t.walk(roots):
        match tensor:
            case t.Pointwise() | t.Joined():
                args = tuple(new[a] for a in tensor.args)
                new[tensor] = tensor if args == tensor.args else replace(tensor, args=args)
            case t.Reindexed() | t.Scan():
                new[tensor] = replace(tensor, arg=new[tensor.arg]) if new[tensor.arg] is not tensor.arg else tensor
            case t.Taken():
                new[tensor] = replace(tensor, arg=new[tensor.arg], where=new[tensor.where])
            case t.Fold():
                new[tensor] = simplified(replace(tensor, arg=new[tensor.arg]), whole if split else None)
            case _:
                new[tensor] = tensor
    return tuple(new[root] for root in roots)


def simplified(fold: t.Fold, frames: set[Frame] | None) -> t.Tensor:
    """Returns an equal tensor made of folds of one block of axes each.

    Args:
        frames: the frames of other folds; a fold of everything follows one of its size, to share its loops. None:
            nothing is split.
    """
    axes = [axis for axis in fold.axes if fold.arg.shape[axis] != 1]
    if not axes:
        if fold.kind in ("argmax", "argmin"):
            return t.expand(t.number(0, "int64"), fold.shape)
        return reshape(t.cast(fold.arg, fold.dtype), fold.shape)
    if fold.kind in ("argmax", "argmin"):
        return fold
    last = axes[-1]
    first = last
    while first - 1 in axes or (first > 0 and fold.arg.shape[first - 1] == 1):
        first -= 1
    before, block = prod(fold.arg.shape[:first]), fold.arg.shape[first : last + 1]
    count, after = prod(block), prod(fold.arg.shape[last + 1 :])
    part = count if frames is None else part_of(before, block, after, frames)
    parts = reshape(fold.arg, (before, count // part, part, after))
    # One number stands for everything: there is no second one whose error would put its own in proportion.
    precise = before * after == 1 and fold.kind == "sum" and fold.dtype in ("float16", "bfloat16", "float32")
    done = t.fold(fold.kind, parts, (2,), dtype="float64" if precise else fold.dtype)
    if part != count:
        done = t.fold(fold.kind, done, (1,))
    done = t.cast(done, fold.dtype)
    rest = tuple(axis for axis in axes if axis < first)
    shape = tuple(n for axis, n in enumerate(fold.arg.shape) if not first <= axis <= last)
    done = reshape(done, shape)
    return simplified(replace(fold, arg=done, axes=rest), frames) if rest else reshape(done, fold.shape)


# ----------------------------------------------------------------------------- placing


def schedule(outputs: tuple[t.Tensor, ...], targets: tuple[t.Source, ...]) -> tuple[Schedule, list[list[Loops]]]:
    """Returns the kernels for some outputs, and the loops of each.

    Raises:
        Unreadable: when a tensor cannot be computed by loops of this kind.
    """
    try:
        return placed(rebuild(outputs, split=True), targets)
    except Unreadable:
        # The parts of a long fold may not fit views below it; whole folds always do.
        return placed(rebuild(outputs, split=False), targets)


def placed(roots: tuple[t.Tensor, ...], targets: tuple[t.Source, ...]) -> tuple[Schedule, list[list[Loops]]]:
    """Returns the kernels that compute and store the roots."""
    forced: set[t.Tensor] = set()
    for _ in range(RETRIES):
        plan = Schedule(forced=forced)
        try:
            for tensor in t.walk(roots):
                if isinstance(tensor, t.Fold | t.Scan):
                    place_fold(plan, tensor)
                elif tensor in forced:
                    plan.owner[tensor] = place_store(plan, tensor, plan.workspace(tensor))
            for root, target in zip(roots, targets, strict=True):
                place_store(plan, root, target)
            return plan, finish(plan)
        except StoreNeeded as need:
            if isinstance(need.tensor, t.Source) or need.tensor in forced:
                break
            forced = {*forced, need.tensor}
    raise Unreadable("views", "no expert for views that no loop nest can follow")


def barriers(plan: Schedule, roots: tuple[t.Tensor, ...]) -> set[t.Tensor]:
    """Returns the folds, scans and stored tensors that some tensors directly depend on."""
    found: set[t.Tensor] = set()
    stack = list(roots)
    seen: set[t.Tensor] = set()
    while stack:
        tensor = stack.pop()
        if tensor in seen:
            continue
        seen.add(tensor)
        if isinstance(tensor, t.Fold | t.Scan) or tensor in plan.owner:
            found.add(tensor)
        else:
            stack.extend(tensor.operands())
    return found


def earliest(plan: Schedule, tensor: t.Tensor) -> int:
    """Returns the first kernel in which all barriers below a tensor can be known."""
    first = 0
    for below in barriers(plan, (tensor,)):
        apart = below in plan.forced or not isinstance(below, t.Fold | t.Scan)
        first = max(first, plan.owner[below] + apart)
    return first


def fits(plan: Schedule, kernel: Kernel) -> bool:
    """Returns whether a kernel can be lowered as it is."""
    try:
        lower(kernel, plan.elsewhere(kernel))
    except (StoreNeeded, NotAffine):
        return False
    return True


def place_fold(plan: Schedule, tensor: t.Fold | t.Scan) -> None:
    """Puts a fold or scan into the first kernel that can hold it, or into a new one."""
    frame = frame_of(tensor.arg.shape, tensor.axes if isinstance(tensor, t.Fold) else (tensor.axis,))
    for number in range(earliest(plan, tensor.arg), len(plan.kernels)):
        kernel = plan.kernels[number]
        if kernel.frame == frame:
            wider = with_fold(kernel, tensor)
            if fits(plan, wider):
                plan.kernels[number] = wider
                plan.owner[tensor] = number
                return
    store_argument(plan, tensor)
    plan.kernels.append(with_fold(Kernel(frame), tensor))
    plan.owner[tensor] = len(plan.kernels) - 1


def with_fold(kernel: Kernel, tensor: t.Fold | t.Scan) -> Kernel:
    """Returns a kernel with one more fold or scan."""
    if isinstance(tensor, t.Fold):
        return Kernel(kernel.frame, [*kernel.folds, tensor], kernel.scans, kernel.stores)
    return Kernel(kernel.frame, kernel.folds, [*kernel.scans, tensor], kernel.stores)


def store_argument(plan: Schedule, tensor: t.Fold | t.Scan) -> None:
    """Stores what a fold takes in where an earlier kernel has it for each row: it is small, and known there."""
    arg = tensor.arg
    owners = [plan.owner[b] for b in barriers(plan, (arg,)) if isinstance(b, t.Fold)]
    if not owners or isinstance(arg, t.Fold | t.Source) or arg in plan.owner:
        return
    number = max(owners)
    kernel = plan.kernels[number]
    if size_of(kernel.frame, reduced=False) != arg.size:
        return
    wider = with_store(kernel, arg, plan.workspace(arg))
    if fits(plan, wider):
        plan.owner[arg] = number
        plan.kernels[number] = wider


def with_store(kernel: Kernel, tensor: t.Tensor, target: t.Source) -> Kernel:
    """Returns a kernel with one more store."""
    return Kernel(kernel.frame, kernel.folds, kernel.scans, [*kernel.stores, Store(tensor, target)])


def place_store(plan: Schedule, tensor: t.Tensor, target: t.Source) -> int:
    """Puts a store into the first kernel that can hold it, or into a new one; returns its number."""
    below = barriers(plan, (tensor,))
    for number in range(earliest(plan, tensor), len(plan.kernels)):
        kernel = plan.kernels[number]
        rows = size_of(kernel.frame, reduced=False)
        of_rows = tensor.size == rows and any(f in below for f in kernel.folds)
        if tensor.size == size_of(kernel.frame) or of_rows:
            wider = with_store(kernel, tensor, target)
            if fits(plan, wider):
                plan.kernels[number] = wider
                return number
    plan.kernels.append(with_store(Kernel(frame_of(tensor.shape, ())), tensor, target))
    return len(plan.kernels) - 1


def finish(plan: Schedule) -> list[list[Loops]]:
    """Returns the loops of all kernels, after adding the stores that later kernels turn out to need."""
    lowered: list[list[Loops]] = [[] for _ in plan.kernels]
    for number in range(len(plan.kernels) - 1, -1, -1):
        lowered[number] = lower(plan.kernels[number], plan.elsewhere(plan.kernels[number]))
        for tensor in dict.fromkeys(tensor for loops in lowered[number] for tensor in loops.used):
            owner, target = plan.owner[tensor], plan.workspace(tensor)
            if owner >= number:
                raise StoreNeeded(tensor)
            if all(store.target is not target for store in plan.kernels[owner].stores):
                plan.kernels[owner] = with_store(plan.kernels[owner], tensor, target)
    return lowered
