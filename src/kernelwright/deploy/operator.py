"""A problem's operator: guard, kernel, original, and their registration with torch.

Calls of a program that is not being compiled go straight to the guard and the kernel; whatever changes what operators
mean (modes, subclasses, needed gradients) takes the road of every operator of torch; transforms and autocast, and all
that is outside the envelope, go to the original.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch

from kernelwright import environment
from kernelwright.deploy import Launcher, Shadow
from kernelwright.deploy.bundle import BundledKernel
from kernelwright.deploy.envelope import Envelope
from kernelwright.deploy.guard import make_guard, quiet
from kernelwright.deploy.launcher import Compiled
from kernelwright.deploy.original import Original
from kernelwright.deploy.running import Running
from kernelwright.deploy.trust import Watch
from kernelwright.errors import UserError
from kernelwright.reference_program import DTYPES
from kernelwright.search.speed import speed
from kernelwright.types import Problem, replace

NAMESPACE = "kernelwright"
Outputs = tuple[torch.Tensor, ...]
_library: Any = torch.library.Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]
_compiling = torch.compiler.is_compiling
_defining = threading.Lock()
KNOWN: list[Operator] = []
"""Every operator that was loaded in this process: what torch.compile's backend looks for."""


class Operator:
    """A kernel with its original, callable like the original: inputs first, then parameters; all tensors.

    Returns one tensor, or a tuple where the problem has several outputs.
    """

    def __init__(
        self, problem: Problem, kernels: Sequence[BundledKernel], *, backward: Operator | None = None,
        gradients: Literal["original", "error"] = "original", shadow: Shadow | None = None, launcher: Launcher = "auto",
    ) -> None:  # fmt: skip
        self.problem = problem
        self.name: str = kernels[0].name if kernels else f"{backward.name if backward else problem.name}_forward"
        self.original = Original(problem)
        self.watch = Watch(self.name, self.original, shadow or Shadow())
        self.kernels = tuple(sorted(kernels, key=lambda k: -(speed(k.record) or 0.0)))
        self._single = len(problem.outputs) == 1
        self._count = len(problem.inputs) + len(problem.parameters)
        self._gradients = gradients
        self.backward = backward
        self._running = Running(self.kernels, self.watch, launcher=launcher)
        self._guards = {kind: make_guard(envelope) for kind, envelope in self._envelopes().items()}
        compiled = self._running.fast()
        self._is_compiled = compiled is not None
        self._has_device = any(kernel.target.kind == "cuda" for kernel in kernels)
        self._fast: Callable[..., Any] = compiled.launch if compiled else self._python
        self.overload = self._register(compiled)
        if environment.disabled():
            self.watch.disable("KERNELWRIGHT_DISABLE is set", quietly=True)

    def _envelopes(self) -> dict[str, Envelope]:
        return {kernel.target.kind: kernel.envelope for kernel in reversed(self.kernels)}

    # ------------------------------------------------------------------------------ calling

    def __call__(self, *tensors: torch.Tensor) -> Any:
        """Returns the output, or a tuple of them: the kernel's inside the envelope, the original's elsewhere."""
        if not _compiling():
            found = self._launch(tensors)
            if found is not NotImplemented:
                return found
            if self._is_originals(tensors):
                return self._given(self.original(*tensors))
        return self.overload(*tensors)

    def _is_originals(self, tensors: tuple[torch.Tensor, ...]) -> bool:
        """Whether the original itself is called, rather than the operator: it is what there was without us.

        The operator is for graphs that are being made, and for gradients that are not the original's.
        """
        if torch._C._functorch.peek_interpreter_stack() is not None or torch._C._is_any_autocast_enabled():
            return True
        if torch._C._len_torch_dispatch_stack() or len(tensors) != self._count:
            return False
        if self.backward is None and self._gradients == "original":
            return True
        return not (torch.is_grad_enabled() and any(t.requires_grad for t in tensors))

    @property
    def has_backward(self) -> bool:
        """Tells whether a kernel computes its gradients."""
        return self.backward is not None

    def launched(self) -> int:
        """Returns how often a kernel ran in place of the original."""
        return self._running.launched()

    def _launch(self, tensors: tuple[torch.Tensor, ...]) -> Any:
        """Returns the kernel's outputs, NotImplemented where it cannot be called."""
        try:
            found = self._fast(*tensors)
        except RuntimeError as error:
            self.watch.disable(f"it could not be launched: {error}")
            return NotImplemented
        if found is None:  # the compiled launcher found the call inside, and due for a check
            outputs = self._run(tensors, check=True)
            return NotImplemented if outputs is None else self._given(outputs)
        if found is NotImplemented and self._is_compiled and self._has_device:
            return self._python(*tensors)  # the compiled launcher knows one device only
        return found

    def _given(self, outputs: Sequence[torch.Tensor]) -> torch.Tensor | Outputs:
        return outputs[0] if self._single else tuple(outputs)

    def _python(self, *tensors: torch.Tensor) -> Any:
        """Guard and launch in Python, where there is no compiled launcher; NotImplemented for what is not plain."""
        if self.watch.reason or not quiet():
            return NotImplemented
        if torch.is_grad_enabled() and any(isinstance(t, torch.Tensor) and t.requires_grad for t in tensors):
            return NotImplemented
        outputs = self._run(tensors)
        return NotImplemented if outputs is None else self._given(outputs)

    def _run(self, tensors: Sequence[torch.Tensor], *, check: bool = False) -> Outputs | None:
        """Returns the kernel's outputs, checked where they are due; None where the original has to be called."""
        if self.watch.reason or len(tensors) != self._count:
            return None
        guard = self._guards.get(tensors[0].device.type if isinstance(tensors[0], torch.Tensor) else "")
        axes = guard(*tensors) if guard else None
        if axes is None:
            return None
        return self._running.run(tensors, axes, check=check)

    def _below(self, *tensors: torch.Tensor) -> torch.Tensor | Outputs:
        """What the operator does on real tensors, below autograd."""
        if self._is_compiled:
            found = self._launch(tensors)
            if found is not NotImplemented:
                return found  # type: ignore[no-any-return]
        outputs = self._run(tensors)
        return self._given(self.original.plain(tensors) if outputs is None else outputs)

    def _due(self, *tensors: torch.Tensor) -> torch.Tensor | Outputs:
        """What it does where the compiled launcher found the call inside, and due for a check."""
        outputs = self._run(tensors, check=True)
        return self._given(self.original.plain(tensors) if outputs is None else outputs)

    # ------------------------------------------------------------------------------ torch

    def _register(self, compiled: Compiled | None) -> Any:
        arguments = ", ".join(f"Tensor t{i}" for i in range(self._count))
        result = "Tensor" if self._single else f"({', '.join(['Tensor'] * len(self.problem.outputs))})"
        with _defining:
            name, number = self.name, 1
            while hasattr(getattr(torch.ops, NAMESPACE), name):
                number += 1
                name = f"{self.name}_{number}"
            _library.define(f"{name}({arguments}) -> {result}", tags=(torch.Tag.pt2_compliant_tag,))
            for key, road in (("CPU", self._below), ("CUDA", self._below), ("Autograd", self._autograd)):
                if compiled:
                    compiled.attach(NAMESPACE, name, key, key == "Autograd", road, self._due)
                else:
                    _library.impl(name, road, key)
            torch.library.register_fake(f"{NAMESPACE}::{name}", self._fake, lib=_library)
        return getattr(getattr(torch.ops, NAMESPACE), name).default

    def _fake(self, *tensors: torch.Tensor) -> torch.Tensor | Outputs:
        problem = self.problem
        specs = problem.inputs + problem.parameters
        if not problem.axes and all(tuple(t.shape) == s.shape for t, s in zip(tensors, specs, strict=True)):
            return self._given([tensors[0].new_empty(s.shape, dtype=DTYPES[s.dtype]) for s in problem.outputs])
        return self._given(
            [torch.empty_like(t, memory_format=torch.contiguous_format) for t in self.original(*tensors)]
        )

    def _autograd(self, *tensors: torch.Tensor) -> torch.Tensor | Outputs:
        if not (torch.is_grad_enabled() and any(t.requires_grad for t in tensors)):
            with torch._C._AutoDispatchBelowAutograd():
                return self.overload(*tensors)  # type: ignore[no-any-return]
        if self.backward is not None:
            return _WithBackward.apply(self, *tensors)  # type: ignore[no-any-return, no-untyped-call]
        if self._gradients == "error":
            raise UserError(f"{self.name} is for inference only", "call it under torch.no_grad(), or detach its inputs")
        return self._given(self.original(*tensors))


class _WithBackward(torch.autograd.Function):
    """The forward pass by one kernel, the gradients by another that computes both."""

    @staticmethod
    def forward(ctx: Any, operator: Operator, *tensors: torch.Tensor) -> Any:
        ctx.save_for_backward(*tensors)
        ctx.operator = operator
        with torch._C._AutoDispatchBelowAutograd():
            return operator.overload(*tensors)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        operator: Operator = ctx.operator
        joint = operator.backward
        assert joint is not None
        tensors = list(ctx.saved_tensors)
        count = joint.original.count
        given = [
            torch.zeros(spec.shape, dtype=tensors[0].dtype, device=tensors[0].device) if grad is None else grad
            for grad, spec in zip(grads, operator.problem.outputs, strict=True)
            if "float" in spec.dtype
        ]
        outputs = joint(*tensors[:count], *(g.contiguous() for g in given), *tensors[count:])
        found = dict(zip(joint.problem.gradients, outputs[len(operator.problem.outputs) :], strict=True))
        names = [spec.name for spec in operator.problem.inputs + operator.problem.parameters]
        needed = ctx.needs_input_grad[1:]
        return None, *(found.get(name) if need else None for name, need in zip(names, needed, strict=True))


def forward_of(problem: Problem) -> Problem:
    """Returns the forward pass of a problem, equal for one with and one without gradients."""
    given = problem.outputs[: len(problem.outputs) - len(problem.gradients)]
    count = len(problem.inputs) - (sum("float" in s.dtype for s in given) if problem.gradients else 0)
    return replace(problem, gradients=(), inputs=problem.inputs[:count], outputs=given, flops=None, min_bytes=0)


def operators(
    kernels: Sequence[BundledKernel], *, gradients: Literal["original", "error"], shadow: Shadow, launcher: Launcher
) -> tuple[Operator, ...]:
    """Returns one operator for each forward pass among the kernels; those with gradients give it its backward pass."""
    groups: dict[Problem, list[BundledKernel]] = {}
    for kernel in kernels:
        groups.setdefault(kernel.problem, []).append(kernel)
    forward = {forward_of(problem): group for problem, group in groups.items() if not problem.gradients}
    joint = {forward_of(problem): group for problem, group in groups.items() if problem.gradients}
    made = []
    for passing in dict.fromkeys((*forward, *joint)):
        group, pair = forward.get(passing, []), joint.get(passing)
        backward = Operator(pair[0].problem, pair, shadow=shadow, launcher=launcher) if pair else None
        problem = group[0].problem if group else passing
        made.append(Operator(problem, group, backward=backward, gradients=gradients, shadow=shadow, launcher=launcher))
    KNOWN.extend(made)
    return tuple(made)
