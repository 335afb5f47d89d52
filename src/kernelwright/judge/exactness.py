"""Whether a reference only adds, multiplies, compares and moves numbers: then small integers leave no rounding.

Sums of small integers are the same in every order and in every way of multiplying, so that a right kernel's
answer is the truth, bit for bit. Convolutions are left out: fast algorithms (Winograd, Lavin & Gray 2016)
work with fractions that are no binary ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.errors import SourceError
from kernelwright.reference_program import Reference

_NAMES = (
    "abs add addbmm addmm addmv addr alias amax amin any all arange argmax argmin argsort as_strided baddbmm bmm "
    "broadcast_tensors cat clamp clamp_max clamp_min clone constant_pad_nd copy cummax cummin cumsum detach diagonal "
    "dot embedding eq expand fill flip full full_like gather ge gt hardtanh index index_add index_select le "
    "lift_fresh logical_and logical_not logical_or lt masked_fill max max_pool2d_with_indices maximum min minimum mm "
    "mul mv narrow ne neg new_full new_ones new_zeros ones ones_like permute prod relu repeat reshape roll "
    "scalar_tensor scatter_add select sign slice sort split split_with_sizes squeeze stack sub sum t threshold topk "
    "trace transpose tril triu unbind unfold unsqueeze view where zeros zeros_like _to_copy _unsafe_view "
    "_reshape_alias"
)
OPERATORS = frozenset(_NAMES.split())
"""Names of aten operators whose results are whole numbers for whole numbers."""


class _Names(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.other: set[str] = set()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # as in truth.Widened

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__.split(".")[0].rstrip("_")
        # EmbeddingBag sums in mode 0; its other modes divide or compare.
        summed = name.startswith("_embedding_bag") and (len(args) < 5 or args[4] == 0)
        scaled = any(isinstance(item, float) and item != int(item) for item in args if _finite(item))
        if (name not in OPERATORS and not summed) or scaled:
            self.other.add(name)
        return func(*args, **(kwargs or {}))


def _finite(item: object) -> bool:
    return isinstance(item, float) and item == item and abs(item) != float("inf")


def sums_only(reference: Reference, inputs: Sequence[torch.Tensor], seed: int) -> bool:
    """Tells whether one call of the reference uses none but the operators above, and only whole constants."""
    module = reference.make_module(seed)
    try:
        with torch.no_grad(), _Names() as seen:
            reference.call(module, inputs)
    except SourceError:
        return False
    return not seen.other
