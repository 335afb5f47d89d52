"""The original of a kernel: the problem's reference as a function of its tensors, in the caller's own process.

Loading it leaves the caller's import paths, modules and random state as they were.
**Does not cover**: references that import their further files only while they run.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from kernelwright.reference_program import backward_of, load_problem, outputs_of, state_of
from kernelwright.types import Problem


class Original:
    """What a call outside the envelope runs: tensors in the order of inputs, then parameters.

    Where the problem is forward and backward together, `forward` is the forward pass alone and `__call__` both.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        with _surroundings_kept():
            self._reference = load_problem(problem)
            module = self._reference.make_module(0)
            drawn = self._reference.make_arguments(0) if _draws(problem) else ()
        self._others = tuple(None if isinstance(a, torch.Tensor) else (a,) for a in drawn)
        self._paths = [path for path, _ in state_of(module)]
        # Its state is always given by the caller; what it was made with would only take memory.
        self._module = module.to("meta") if self._paths else module
        self._backward = backward_of(problem)
        given = len(self._backward.given) if self._backward else 0
        self.count = len(problem.inputs) - given
        """Inputs of the forward pass."""

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Returns the outputs of the forward pass; differentiable where the reference is."""
        leaves, state = tensors[: self.count], tensors[self.count :]
        return outputs_of(self._run(self._arguments(leaves), state))

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Returns all outputs, the wanted gradients among them."""
        if self._backward is None:
            return self.forward(*tensors)
        inputs, state = tensors[: len(self.problem.inputs)], list(tensors[len(self.problem.inputs) :])
        state = [t if t.requires_grad else t.detach() for t in state]
        return self._reference.differentiate(lambda leaves: self._run(self._arguments(leaves), state), inputs, state)

    def plain(self, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Returns the outputs as an operator promises them: contiguous, sharing memory with nothing."""
        taken = {t.untyped_storage().data_ptr() for t in tensors}
        found = []
        for output in self(*tensors):
            whole = output.contiguous()
            found.append(whole.clone() if whole.untyped_storage().data_ptr() in taken else whole)
            taken.add(found[-1].untyped_storage().data_ptr())
        return tuple(found)

    def exactly(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...] | None:
        """Returns the outputs computed in float64, None where the reference cannot be."""
        wide = [t.double() if t.is_floating_point() else t for t in tensors]
        try:
            return self(*wide)
        except Exception:  # noqa: BLE001  (a reference may insist on its own dtype in any way)
            return None

    def _arguments(self, leaves: Sequence[torch.Tensor]) -> tuple[object, ...]:
        rest = iter(leaves)
        return (
            tuple(next(rest) if other is None else other[0] for other in self._others)
            if self._others
            else tuple(leaves)
        )

    def _run(self, arguments: tuple[object, ...], state: Sequence[torch.Tensor]) -> Any:
        if not self._paths:
            return self._module(*arguments)
        return torch.func.functional_call(self._module, dict(zip(self._paths, state, strict=True)), arguments)


def _draws(problem: Problem) -> bool:
    """Whether the reference says itself what it is called with: numbers may be among its arguments."""
    return any(workload.generator == "source" for workload in problem.workloads)


@contextlib.contextmanager
def _surroundings_kept() -> Iterator[None]:
    path, finders, modules = list(sys.path), list(sys.meta_path), dict(sys.modules)
    states = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        sys.path[:], sys.meta_path[:] = path, finders
        for name, module in modules.items():
            sys.modules.setdefault(name, module)
        random.setstate(states[0])
        np.random.set_state(states[1])
