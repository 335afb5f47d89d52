"""How long folds are cut into parts: enough of them for all processors, each long enough to be worth a loop.

Not here: the folds of parts and over parts (schedule.py, read_folds.py).
"""

from __future__ import annotations

from collections.abc import Set
from math import prod

from kernelwright.experts.frame import Frame, size_of
from kernelwright.experts.index import strides_of

FEW_RESULTS = 64
"""Folds with fewer results than this, and much to reduce, are folded in parts."""
LONG = 1 << 14
"""Elements of a part of a fold over the innermost axes; also what makes a fold long."""
TALL = 128
"""Rows of a part of a fold over leading axes."""


def part_of(before: int, block: tuple[int, ...], after: int, frames: Set[Frame] = frozenset()) -> int:
    """Returns how many elements each part of a fold should have; all of the block's means not to split.

    Args:
        before: elements of the kept axes before the block.
        block: the extents of the reduced axes.
        after: elements of the kept axes behind it.
        frames: of other folds; a fold of everything follows one of its size, to share its loops.
    """
    count = prod(block)
    if before * after == 1:
        for frame in frames:
            if size_of(frame) == count and len(frame) == 2 and frame[1].reduced:
                return frame[1].extent
    goal = LONG if after == 1 else TALL
    if count <= 2 * goal or (after == 1 and before >= FEW_RESULTS):
        return count
    if after > 1 and before * after >= FEW_RESULTS * 1024:
        return count
    # Parts are whole inner axes and a divisor of the next one, so that no view below is cut across.
    inner = strides_of(block)
    sizes = [stride * n for stride, extent in zip(inner, block, strict=True) for n in divisors(extent)]
    fitting = [n for n in sizes if goal // 16 <= n <= goal * 4]
    return min(fitting, key=lambda n: abs(n - goal)) if fitting else count


def divisors(count: int) -> list[int]:
    """Returns all divisors."""
    low = [n for n in range(1, int(count**0.5) + 1) if count % n == 0]
    return sorted({*low, *(count // n for n in low)})
