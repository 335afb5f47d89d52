"""What is right: the reference evaluated in float64 on the already rounded inputs and parameters.

Conversions to narrower floating types inside the reference (`x.float()`, `dtype=torch.bfloat16`)
are widened as well: they belong to how the reference computes, not to what it means.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.reference_program import Reference, state_of

NARROW = (torch.float32, torch.float16, torch.bfloat16)
TINY, HUGE, HUGER = 1e-290, 1e300, 1e305
NUDGED_AT_ONCE = 1 << 27
"""Elements: what changes a large tensor would else take several times its memory."""
UNIT_ROUNDOFF = {torch.float64: 2.0**-53}
"""Of the arithmetic that a dtype deserves: half-precision tensors are expected to be summed in float32."""


class Widened(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While active, operators that would make or use narrow floating tensors use float64 instead.

    A narrow tensor that an operator writes into (a constant of the reference's own) gets the result back.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # torch asks: with True it imports its compiler at the first operator, which takes seconds.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        wide_args, wide_kwargs = [_wide(item) for item in args], {key: _wide(item) for key, item in kwargs.items()}
        result = func(*wide_args, **wide_kwargs)
        for position, argument in enumerate(func._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            by_name = argument.kwarg_only or position >= len(args)
            old = kwargs.get(argument.name) if by_name else args[position]
            new = wide_kwargs.get(argument.name) if by_name else wide_args[position]
            if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor) and old is not new:
                old.copy_(new)
                result = old if result is new else result
        return result


@contextmanager
def wide_by_default() -> Iterator[None]:
    """Lets `torch.zeros(n)` and the like make float64 tensors."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class Jittered(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While active, every result is changed by a relative amount at random, as rounding would.

    A backward pass subtracts numbers that are equal in exact arithmetic (a softmax whose row is one-hot): what a
    right kernel leaves of them depends on its roundings, and no change of the inputs shows it.
    """

    def __init__(self, relative: float, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._relative, self._seed = relative, seed
        self._generators: dict[torch.device, torch.Generator] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # as in Widened

    def _moved(self, item: Any) -> Any:
        if not _is_wide(item):
            return item
        if item.device not in self._generators:
            self._generators[item.device] = torch.Generator(item.device).manual_seed(self._seed)
        return nudge(item, self._relative, self._generators[item.device])

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if any(returned.alias_info is not None for returned in func._schema.returns):
            return result  # a view, or written in place: no new numbers
        if isinstance(result, tuple | list):
            return type(result)(map(self._moved, result))
        return self._moved(result)


def _is_wide(item: object) -> bool:
    return isinstance(item, torch.Tensor) and item.dtype is torch.float64


def _wide(item: Any) -> Any:
    if isinstance(item, torch.dtype):
        return torch.float64 if item in NARROW else item
    if isinstance(item, torch.Tensor):
        return item.double() if item.dtype in NARROW else item
    if isinstance(item, list | tuple):
        made = [_wide(element) for element in item]
        return made if isinstance(item, list) else tuple(made)
    return item


def arithmetic_roundoff(dtype: torch.dtype) -> float:
    """Returns the unit round-off of the arithmetic expected for a dtype."""
    return UNIT_ROUNDOFF.get(dtype, 2.0**-24)


def set_state(module: torch.nn.Module, values: Iterable[torch.Tensor]) -> None:
    """Copies values into a module's parameters and buffers, in the order of `state_of`."""
    for (_, tensor), value in zip(state_of(module), values, strict=True):
        tensor.copy_(value)


class Truth:
    """Evaluates one reference in float64 and in its own precision."""

    def __init__(self, reference: Reference, seed: int) -> None:
        self._reference = reference
        self._wide = reference.make_module(seed, torch.float64)
        self._own = reference.make_module(seed)

    def to(self, device: torch.device) -> Truth:
        """Moves both modules to a device; returns itself."""
        self._wide.to(device)
        self._own.to(device)
        return self

    @torch.no_grad()
    def exact(
        self, inputs: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor], *, given_away: bool = False
    ) -> tuple[torch.Tensor, ...]:
        """Returns the outputs in float64 (integers and booleans as they are); inputs `given_away` are not copied."""
        set_state(self._wide, parameters)
        with wide_by_default(), Widened():  # type: ignore[no-untyped-call]
            outputs = self._reference.call(self._wide, inputs if given_away else [_fresh_wide(t) for t in inputs])
        return tuple(t.detach().contiguous() for t in outputs)

    @torch.no_grad()
    def own(self, inputs: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Returns the outputs in the reference's own precision."""
        set_state(self._own, parameters)
        outputs = self._reference.call(self._own, [t.clone() for t in inputs])
        return tuple(t.detach().clone(memory_format=torch.contiguous_format) for t in outputs)

    def nearby(
        self,
        inputs: Sequence[torch.Tensor],
        parameters: Sequence[torch.Tensor],
        *,
        relative: float,
        seed: int,
        untied: bool = False,
    ) -> tuple[torch.Tensor, ...]:
        """Returns the truth for inputs and parameters each changed by about one rounding.

        Of a backward pass the results in between as well (see Jittered).

        Args:
            inputs: of the reference.
            parameters: of the reference.
            relative: the size of a rounding; of the other sign, every change is the opposite one.
            seed: of the changes.
            untied: also tell zeros apart, infinities and NaN, which no relative change does.
        """
        device = next((t.device for t in (*inputs, *parameters)), torch.device("cpu"))
        generator = torch.Generator(device).manual_seed(seed)
        move = untie if untied else nudge
        moved = [move(t, relative, generator) for t in inputs]
        state = [move(t, relative, generator) for t in parameters]
        if not self._reference.has_backward:
            # Integers come back as they are: only what was made here may be written to.
            moved = [t.clone() if t is given else t for t, given in zip(moved, inputs, strict=True)]
            return self.exact(moved, state, given_away=True)
        with Jittered(relative, seed):
            return self.exact(moved, state)


def untie(tensor: torch.Tensor, relative: float, generator: torch.Generator) -> torch.Tensor:
    """Returns what `nudge` does, with zeros next to zero and infinities merely huge, all of them different.

    NaN become numbers above infinities, where every order of PyTorch has them.
    """
    moved = nudge(tensor, relative, generator)
    if not tensor.is_floating_point() or bool((tensor.isfinite() & (tensor != 0)).all()):
        return moved
    apart = nudge(torch.ones_like(moved), math.copysign(2.0**-10, relative), generator)
    moved = torch.where(tensor == 0, TINY * (apart - 1.0), moved)
    moved = torch.where(tensor.isnan(), HUGER * apart, moved)
    return torch.where(tensor.isinf(), HUGE * tensor.sign().double() * apart, moved)


def nudge(tensor: torch.Tensor, relative: float, generator: torch.Generator) -> torch.Tensor:
    """Returns a float64 copy with every element changed by `relative` of itself, in the root mean square.

    The changes are uniform, not all of one size: two equal and opposite changes would hide that two
    numbers cancel. Other dtypes come back as they are.
    """
    if not tensor.is_floating_point():
        return tensor
    made = tensor.to(torch.float64, copy=True, memory_format=torch.contiguous_format)
    for part in torch.split(made.view(-1), NUDGED_AT_ONCE):
        changes = torch.rand(part.shape, generator=generator, device=generator.device).mul_(2.0).sub_(1.0)
        part *= 1.0 + math.sqrt(3.0) * relative * changes.double()
    return made


def _fresh_wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float64, copy=True) if tensor.is_floating_point() else tensor.clone()
