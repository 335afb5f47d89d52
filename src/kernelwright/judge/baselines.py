"""What the user could have had for free: the reference run eagerly and by every torch.compile mode.

Each baseline has a module of its own (loaded from the texts again, because compiled code is kept
for each code object) whose parameters are the very memory that the candidate reads.
"""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from kernelwright.errors import KernelwrightError, words_of
from kernelwright.reference_program import Reference, load_problem, outputs_of, state_of
from kernelwright.types import Problem

EAGER = "eager"
COMPILE = "compile:"
WARM_CALLS = 3
AGREEMENT = 0.02
"""A compiled baseline may differ from eager by this fraction of the output's scale; more is a compiler's bug."""


class Baseline:
    """One contender that runs in the judge worker itself."""

    def __init__(
        self, name: str, call: Callable[..., Any], arguments: Sequence[tuple[object, ...]], threads: int
    ) -> None:
        self.name, self._threads = name, threads
        self._call = call
        self._arguments = arguments
        self._kept: list[object] = [None] * len(arguments)
        self.estimate_us = 0.0

    def run(self, slots: Sequence[int]) -> list[int]:
        """Returns the nanoseconds of one call on each of the slots.

        Every slot keeps its output until its next call, as the candidate's outputs have a place for
        each slot: neither side writes to memory that is still warm from the call before.
        """
        clock, call, kept, arguments = time.perf_counter_ns, self._call, self._kept, self._arguments
        times = []
        with using_threads(self._threads), torch.inference_mode():
            for slot in slots:
                kept[slot] = None
                given = arguments[slot]
                start = clock()
                result = call(*given)
                end = clock()
                kept[slot] = result
                times.append(end - start)
        return times

    def outputs(self, slot: int) -> tuple[torch.Tensor, ...]:
        """Returns the outputs of a call on a slot's present contents."""
        with using_threads(self._threads), torch.inference_mode():
            return outputs_of(self._call(*self._arguments[slot]))

    def settle(self, slots: Sequence[int]) -> None:
        """Runs until the code is compiled and memory is warm; sets `estimate_us`."""
        self.run(list(slots[:WARM_CALLS]))
        # The fastest, since it decides only how many calls a block has: a disturbed one would make it too few.
        self.estimate_us = min(self.run(list(slots[: 2 * WARM_CALLS + 1]))) / 1000.0

    def release(self) -> None:
        """Drops the outputs that were kept for their addresses."""
        self._kept = [None] * len(self._arguments)


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Lets torch use that many threads inside; the judge's own arithmetic mostly uses one."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A baseline that does not work here, and why."""

    name: str
    reason: str


def make_baseline(
    name: str,
    problem: Problem,
    reference: Reference,
    *,
    inputs: Sequence[Sequence[torch.Tensor]],
    parameters: Sequence[torch.Tensor],
    threads: int,
    eager: Baseline | None = None,
) -> Baseline | Unavailable:
    """Returns a baseline ready to be timed, or why there is none.

    Args:
        name: `eager` or `compile:MODE`.
        problem: whose reference is run.
        reference: an already loaded reference, which knows the arguments that are not tensors.
        inputs: the tensor arguments for each slot.
        parameters: the memory that all contenders' parameters lie in.
        threads: how many it may use.
        eager: what a compiled baseline is compared with once.

    Raises:
        KernelwrightError: for an unknown name.
    """
    # Plain problems are called with the full arguments, prepared beforehand; gradients go through the reference.
    plain = not problem.gradients
    arguments = [reference.arguments_with(tensors) if plain else tuple(tensors) for tensors in inputs]
    if name != EAGER and not name.startswith(COMPILE):
        raise KernelwrightError(f"unknown baseline {name!r}", f"known are {EAGER} and {COMPILE}MODE")
    own = load_problem(problem)
    module = sharing_module(own, parameters)
    if not plain:
        own.make_inputs(0)  # so that it knows the arguments that are no tensors
    if name == EAGER:
        made = Baseline(name, module if plain else own.caller(module), arguments, threads)
        made.settle(range(len(arguments)))
        return made
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled: Any = torch.compile(module, mode=name.removeprefix(COMPILE), dynamic=False)
            made = Baseline(name, compiled if plain else own.caller(compiled), arguments, threads)
            made.settle(range(len(arguments)))
            reason = disagreement(made, eager) if eager else ""
    except Exception as error:  # noqa: BLE001  (a compiler may fail in any way; it is said, not hidden)
        lines = words_of(error).strip().splitlines() or [""]
        return Unavailable(name, f"{type(error).__name__}: {lines[0][:300]}")
    finally:
        gc.collect()
    return Unavailable(name, reason) if reason else made


def sharing_module(reference: Reference, parameters: Sequence[torch.Tensor]) -> torch.nn.Module:
    """Returns a new module whose parameters and buffers are the given memory."""
    module = reference.make_module(0)
    if parameters:
        module.to(parameters[0].device)
    for (path, tensor), memory in zip(state_of(module), parameters, strict=True):
        if isinstance(tensor, torch.nn.Parameter):
            tensor.data = memory
            continue
        owner, _, name = path.rpartition(".")
        module.get_submodule(owner)._buffers[name] = memory
    return module


class Answering(Protocol):
    """A baseline whose answer can be looked at.

    **Covers**: the outputs on a slot. **Does not cover**: time.
    """

    def outputs(self, slot: int) -> tuple[torch.Tensor, ...]:
        """Returns the outputs of a call on a slot's present contents."""


def disagreement(made: Answering, eager: Answering) -> str:
    """Returns how a baseline's answer differs from eager's, empty where it does not."""
    for ours, theirs in zip(made.outputs(0), eager.outputs(0), strict=True):
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return "its outputs have another shape or dtype than eager's"
        if not ours.is_floating_point():
            continue
        a, b = ours.double(), theirs.double()
        both = a.isfinite() & b.isfinite()
        scale = float(b[both].abs().max()) if bool(both.any()) else 0.0
        if float((a - b)[both].abs().max() if bool(both.any()) else 0.0) > AGREEMENT * scale + 1e-30:
            return "its outputs differ from eager's"
    return ""
