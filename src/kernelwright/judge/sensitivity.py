"""What outputs depend on, found by differentiating the reference once.

Two facts come from it: how many numbers an output element depends on (how long its sums are), and
how many bytes of the inputs no right kernel can leave unread.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from kernelwright.errors import SourceError
from kernelwright.judge.slots import bytes_of
from kernelwright.reference_program import Reference, state_of
from kernelwright.types import Problem

MORE_PLACES = 16
"""Elements whose dependence is looked at where three of them differ."""


class Sensitivity:
    """Gradients of one reference on one draw; every fact falls back to a safe value where there are none.

    Args:
        problem: whose tensors these are.
        reference: the loaded reference.
        inputs: a draw of ordinary values.
        seed: of the module whose own initialisation is used.
    """

    def __init__(self, problem: Problem, reference: Reference, inputs: Sequence[torch.Tensor], seed: int) -> None:
        self._problem = problem
        module = reference.make_module(seed)
        self._leaves = [t.clone().requires_grad_(t.is_floating_point()) for t in inputs]
        state = [t for _, t in state_of(module)]
        for tensor in state:
            tensor.requires_grad_(tensor.is_floating_point())
        self._floats = [t for t in (*self._leaves, *state) if t.requires_grad]
        try:
            self._outputs = reference.call(module, self._leaves)
        except SourceError:
            self._outputs = ()  # some references cannot be differentiated

    @property
    def usable(self) -> bool:
        """Tells whether the reference accepted the inputs."""
        return bool(self._outputs)

    def fan_in(self) -> tuple[float, ...]:
        """Returns for each output the largest number of elements that one of its elements depends on.

        Where gradients do not say (integers, kinks): input elements for each output element.
        """
        found = []
        for index, spec in enumerate(self._problem.outputs):
            most = max((math.prod(s.shape) for s in self._problem.inputs + self._problem.parameters), default=1)
            if self._problem.gradients:
                # Where the backward pass has no gradient itself: rows are what is usually summed over.
                most = max(most, math.prod(spec.shape) * max(max(s.shape, default=1) for s in self._problem.inputs))
            last = math.prod(spec.shape) - 1
            counts = [self._depends_on(index, place) for place in {0, (last + 1) // 2, last}]
            if len(set(counts)) > 1 or 0.0 in counts:
                # Elements differ, as behind a mask: what the first few depend on says little about the others.
                counts += [self._depends_on(index, last * step // MORE_PLACES) for step in range(MORE_PLACES)]
            found.append(max(1.0, max(counts, default=0.0) or most / max(1, math.prod(spec.shape))))
        return tuple(found)

    def must_move_bytes(self) -> int:
        """Returns bytes that no right kernel can leave unmoved.

        Every output element is written; an input element whose change changes an output is read. The
        gradient of a random mix of the outputs finds those, so that a gather's table does not count
        as read. Elements without gradient may have to be read as well: this is a lower bound.
        """
        outputs = [t for t in self._outputs if t.requires_grad]
        mixed = [(t * torch.randn_like(t)).sum() for t in outputs]
        gradients = self._gradients(torch.stack([t.to(mixed[0].dtype) for t in mixed]).sum()) if mixed else []
        read = sum(int(g.count_nonzero()) * g.element_size() for g in gradients)
        return sum(bytes_of(spec) for spec in self._problem.outputs) + read

    def _depends_on(self, index: int, place: int) -> float:
        if index >= len(self._outputs) or not self._outputs[index].requires_grad or place < 0:
            return 0.0
        picked = self._outputs[index].reshape(-1)[place]
        return float(sum(int(g.count_nonzero()) for g in self._gradients(picked)))

    def _gradients(self, number: torch.Tensor) -> list[torch.Tensor]:
        # Of one number, not of tensors with weights: for those torch imports its compiler first, which takes seconds.
        try:
            found = torch.autograd.grad(number, self._floats, retain_graph=True, allow_unused=True)
        except RuntimeError:
            return []
        return [g for g in found if g is not None]
