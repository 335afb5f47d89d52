"""From a draft of a problem to its graph without running it: at sizes that no memory here would hold.

Runs in the capture worker only (imports torch). Inputs are tensors without contents (PyTorch's FakeTensorMode); so are
parameters, unless the constructor looks at values.
Covers: specs of inputs, parameters and outputs, the graph, counts. Does not cover: whether the reference is a function
of its inputs, finite values, DYNAMIC, gradients; who asks for an outline has looked at these on a smaller copy.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from kernelwright.capture import checks, costs, tracing
from kernelwright.capture.completing import argument_names, input_specs, parameter_specs, state_names
from kernelwright.errors import SourceError
from kernelwright.graph import Capture, Graph, Ref
from kernelwright.process import Emit
from kernelwright.reference_program import DTYPES, Reference, load_problem, state_of
from kernelwright.types import Problem, replace


def outline(problem: Problem, emit: Emit) -> Capture:
    """Returns the problem with parameters, outputs and counts, and its graph where there is one.

    Args:
        problem: a draft (capture/source.py) without axes and gradients.
        emit: called with a few words when a new step begins.

    Raises:
        SourceError: when the reference cannot be called without contents.
    """
    emit("tracing without contents")
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with mode:
            reference = load_problem(problem)
        module = _module(reference, mode)
        with mode:
            drawn = reference.make_arguments(checks.SEEDS[0])
            labels = argument_names(reference, len(drawn))
            checks.check_arguments(drawn, labels)
            shown = [label for label, item in zip(labels, drawn, strict=True) if isinstance(item, torch.Tensor)]
            problem = replace(problem, inputs=problem.inputs or input_specs(drawn, shown))
            problem = replace(problem, parameters=parameter_specs(module, problem.inputs))
            arguments = reference.make_inputs(checks.SEEDS[0])
            given = reference.arguments_with(arguments)
        graph, reason = None, ""
        try:
            graph = tracing.trace(
                module,
                given,
                inputs=[spec.name for spec in problem.inputs],
                state=state_names(module, problem.parameters),
            )
            made = _results(problem, graph)
        except tracing.Untraceable as error:
            reason = str(error)
            with mode, torch.no_grad(), tracing.whole_recurrences():
                made = reference.call(module, arguments)
        problem = replace(problem, outputs=checks.output_specs(made))
    flops = costs.count_flops(problem, graph) if graph else None
    problem = replace(problem, flops=flops, min_bytes=costs.least_bytes(problem, graph))
    return Capture(problem=problem, graph=graph, reason=reason)


def _results(problem: Problem, graph: Graph) -> tuple[torch.Tensor, ...]:
    """Returns tensors of the forms of a graph's outputs, without memory."""
    forms = {Ref(name=s.name): (s.shape, s.dtype) for s in problem.inputs + problem.parameters}
    forms |= {Ref(name=n.name, index=i): (r.shape, r.dtype) for n in graph.nodes for i, r in enumerate(n.results) if r}
    return tuple(torch.empty(s, dtype=DTYPES[d], device="meta") for s, d in map(forms.__getitem__, graph.outputs))


def _module(reference: Reference, mode: FakeTensorMode) -> torch.nn.Module:
    try:
        with mode:
            return checks.construct(reference)
    except SourceError:
        # Perhaps it looks at values; then parameters have contents for a moment.
        module = checks.construct(reference)
    for part in module.modules():
        tables: tuple[dict[str, Any], ...] = (part._parameters, part._buffers)
        for table in tables:
            for name, tensor in table.items():
                if tensor is not None:
                    table[name] = mode.from_tensor(tensor)
    for _, tensor in state_of(module):
        tensor.requires_grad_(False)
    return module
