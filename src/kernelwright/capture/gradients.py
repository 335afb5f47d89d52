"""Gradients: from a problem of the forward pass to one of forward and backward together.

The gradients of the outputs become further inputs (`grad_out`), those of the named tensors further outputs
(`grad_x`), and everything downstream is what it is for any problem (docs/decisions/0007).

Covers: floating inputs and parameters, several outputs, custom autograd functions (without a graph).
Does not cover: outputs that are integers (they have no gradient), buffers, sizes that vary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from kernelwright.capture import checks, names, tracing
from kernelwright.capture.purity import same_bits
from kernelwright.errors import SourceError, words_of
from kernelwright.graph import Graph
from kernelwright.reference_program import NoGradient, Reference, load_problem, state_of
from kernelwright.types import Problem, TensorSpec, replace

ALL = "*"
"""Stands for every floating input and parameter that an output depends on."""


def complete(problem: Problem, labels: Sequence[str]) -> Problem:
    """Returns the problem of forward and backward together.

    Args:
        problem: of the forward pass, complete; its `gradients` name tensors as the user did.
        labels: the inputs' names as the user wrote them, in order.

    Raises:
        SourceError: when a named tensor is not there, has no gradient, or the backward pass fails.
    """
    if problem.axes:
        raise SourceError("gradients are asked for and sizes vary", "judge one of the two at a time")
    wanted = _wanted(problem, labels)
    floats = [spec for spec in problem.outputs if "float" in spec.dtype]
    if not floats:
        raise SourceError("no output is floating, so that there is no gradient", "leave out --gradients")
    try:
        return _checked(problem, wanted, floats)
    except NoGradient as error:
        if problem.gradients != (ALL,) or len(error.places) == len(wanted):
            raise
        return _checked(problem, tuple(s for i, s in enumerate(wanted) if i not in error.places), floats)


def _checked(problem: Problem, wanted: Sequence[TensorSpec], floats: Sequence[TensorSpec]) -> Problem:
    taken = [spec.name for spec in problem.arguments]
    given = names.identifiers([f"grad_{spec.name}" for spec in floats], taken=taken)
    found = names.identifiers([f"grad_{spec.name}" for spec in wanted], taken=[*taken, *given])
    joint = replace(
        problem,
        inputs=problem.inputs
        + tuple(
            TensorSpec(name=n, shape=s.shape, dtype=s.dtype, role="input") for n, s in zip(given, floats, strict=True)
        ),
        outputs=problem.outputs
        + tuple(
            TensorSpec(name=n, shape=s.shape, dtype=s.dtype, role="output") for n, s in zip(found, wanted, strict=True)
        ),
        gradients=tuple(spec.name for spec in wanted),
    )
    _check(joint)
    return joint


def _wanted(problem: Problem, labels: Sequence[str]) -> tuple[TensorSpec, ...]:
    possible = [s for s in problem.inputs + problem.parameters if "float" in s.dtype and s.role != "buffer"]
    if problem.gradients == (ALL,):
        if not possible:
            raise SourceError("no input or parameter is floating", "leave out --gradients")
        return tuple(possible)
    by_name = {spec.name: spec for spec in possible}
    by_name |= {label: by_name[s.name] for label, s in zip(labels, problem.inputs, strict=True) if s.name in by_name}
    for name in problem.gradients:
        if name not in by_name:
            listed = ", ".join(spec.name for spec in possible)
            raise SourceError(f"there is no gradient for {name!r}", f"floating inputs and parameters are {listed}")
    return tuple(dict.fromkeys(by_name[name] for name in problem.gradients))


def _check(joint: Problem) -> None:
    """Runs the joint reference twice: gradients exist, are finite, and are the same again."""
    runs = []
    for _ in range(2):
        reference = load_problem(joint)
        module = reference.make_module(checks.SEEDS[0])
        inputs = reference.make_inputs(checks.SEEDS[0])
        kept = [t.clone() for t in inputs]
        with torch.no_grad():
            runs.append(reference.call(module, inputs))
        for spec, now, before in zip(joint.inputs, inputs, kept, strict=True):
            if not same_bits(now, before):
                raise SourceError(f"the backward pass changes {spec.name} in place", "give new tensors")
    checks.check_finite(runs[0], [spec.name for spec in joint.outputs], "output")
    for spec, one, other in zip(joint.outputs, *runs, strict=True):
        if tuple(one.shape) != spec.shape:
            raise SourceError(f"{spec.name} is {list(one.shape)}, not {list(spec.shape)}", "check the backward pass")
        if not same_bits(one, other):
            raise SourceError(f"{spec.name} differs from run to run", "make the backward pass deterministic")


def trace(problem: Problem, reference: Reference, arguments: Sequence[torch.Tensor]) -> tuple[Graph | None, str]:
    """Returns the graph of forward and backward together, or None and why there is none."""
    module = reference.make_module(checks.SEEDS[0])
    paths = [path for path, _ in state_of(module)]
    state = [tensor.detach().clone() for _, tensor in state_of(module)]
    count = len(arguments)

    def joint(*tensors: torch.Tensor) -> Any:
        given = dict(zip(paths, (t.detach() for t in tensors[count:]), strict=True))
        return reference.differentiate(
            lambda leaves: torch.func.functional_call(module, given, reference.arguments_with(leaves)),
            tensors[:count],
            list(given.values()),
        )

    try:
        with torch.no_grad():
            traced = make_fx(joint)(*arguments, *state)
        everything = [spec.name for spec in problem.inputs + problem.parameters]
        return tracing.trace(traced, (*arguments, *state), inputs=everything, state={}), ""
    except tracing.Untraceable as error:
        return None, str(error)
    except Exception as error:  # noqa: BLE001  (tracing raises whatever its many stages raise)
        lines = words_of(error).strip().splitlines() or [""]
        return None, f"the backward pass cannot be traced: {type(error).__name__}: {lines[0][:200]}"
