"""Which elements are of one magnitude: binades, groups of them, and what kind of number an element is.

Not here: how wrong an element of a group may be (correctness.py).
"""

from __future__ import annotations

import math

import torch

SMALL_GROUP = 32
"""Groups with fewer elements are joined to the next binade down."""
BINADES = 2200
"""More than float64 has."""


def kinds(values: torch.Tensor) -> torch.Tensor:
    """Returns 0 for finite numbers, 1 for NaN, 2 and 3 for plus and minus infinity."""
    if bool(values.isfinite().all()):
        return torch.zeros(values.shape, dtype=torch.uint8)
    kind = values.isnan().to(torch.uint8)
    kind[values == math.inf] = 2
    kind[values == -math.inf] = 3
    return kind


def odd_kinds(
    truth: torch.Tensor, own: torch.Tensor
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """Returns what kind each element of two answers is and where either is not finite; nothing where all are."""
    if bool(truth.isfinite().all()) and bool(own.isfinite().all()):
        return None, None, None
    first, second = kinds(truth), kinds(own)
    return first, second, (first != 0) | (second != 0)


def lowest_exponent(dtype: torch.dtype) -> int:
    """Returns the binade that subnormal numbers and zero are counted in, below that of the smallest normal one."""
    return int(math.log2(torch.finfo(dtype).tiny))


def exponents(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Returns the binade of each value: e for values from 2^(e-1) up to 2^e."""
    lowest = lowest_exponent(dtype)
    # frexp gives 0 for zero, which is a binade of ordinary numbers.
    exponent = torch.frexp(values).exponent.masked_fill_(values == 0, lowest)
    return exponent.clamp_(lowest, lowest + BINADES - 1).long()


def histogram(index: torch.Tensor) -> torch.Tensor:
    """Returns how many elements lie in each binade."""
    if not index.is_cuda or not index.numel():
        return torch.bincount(index, minlength=BINADES)
    # Few bins are counted in shared memory there; all binades would not fit.
    lowest = int(index.min())
    found = torch.bincount(index - lowest)
    return torch.nn.functional.pad(found, (lowest, BINADES - lowest - len(found)))


def groups_of(counts: torch.Tensor) -> torch.Tensor:
    """Returns the group of each binade, from how many elements lie in it; binades without any join a neighbour.

    Many zeros are a group of their own: they are of no magnitude, and say nothing about numbers that are
    nearly zero because large ones cancel.
    """
    many = counts.tolist()
    lowest = 1 if many[0] >= SMALL_GROUP and any(many[1:]) else 0
    group_of, group, size, left = [0] * len(many), 0, 0, sum(many[lowest:])
    for position in range(len(many) - 1, lowest - 1, -1):
        group_of[position] = group
        size += many[position]
        left -= many[position]
        if size >= SMALL_GROUP and left:
            group, size = group + 1, 0
    if size < SMALL_GROUP and group:
        # The rest at the low end is too few: it belongs to the group above.
        group_of = [min(g, group - 1) for g in group_of]
    # Numbered from the low end, so that the last entry holds the largest number.
    last = max(group_of) + lowest
    numbers = [last - g if position >= lowest else 0 for position, g in enumerate(group_of)]
    return torch.tensor(numbers, device=counts.device)


def smallest_of(dtype: torch.dtype) -> float:
    """Returns the absolute error that always passes."""
    # Vector exponentials stop a little above the smallest normal number; in float16 that would not be little.
    return torch.finfo(dtype).tiny * (1.0 if dtype is torch.float16 else 4.0)
