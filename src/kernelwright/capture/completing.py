"""From the draft of a problem to the whole of it: run the reference, check it, trace it.

Runs in the capture worker only (imports torch). The steps are: load, draw, run under the checks of
checks.py, trace (tracing.py), count (costs.py).
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Sequence

import torch
from torch.utils.flop_counter import FlopCounterMode

from kernelwright import environment
from kernelwright.capture import axes, checks, costs, faults, gradients, memory, names, purity, tracing
from kernelwright.errors import SourceError
from kernelwright.graph import Capture, Graph
from kernelwright.process import Emit
from kernelwright.reference_program import NAMES, Reference, draw, load_problem, seed_everything, state_of
from kernelwright.types import Axis, Problem, TensorSpec, replace

LARGE_ELEMENTS = 1 << 24
"""Of all inputs together. From here on our own draws are changed in part instead of being made again: drawing takes
longer than most references do, and only the user's `get_inputs` can give another form each time."""
CHANGED_ELEMENTS = 1 << 20


def complete(problem: Problem, emit: Emit, *, traced: bool = True) -> Capture:
    """Returns the problem with parameters, outputs and counts, and its graph where there is one.

    Args:
        problem: a draft (capture/source.py).
        emit: called with a few words when a new step begins.
        traced: False for the checks alone: then there is no graph.

    Raises:
        SourceError: when the reference cannot be used.
    """
    torch.set_num_threads(environment.threads())
    free = memory.limit()
    memory.check(problem.inputs, free)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _complete(problem, emit, free, traced=traced)
    except SourceError as error:
        raise faults.explain(error, free, problem) from error.__cause__
    except (MemoryError, RuntimeError) as error:
        if short := memory.shortage(error, free):
            raise short from error
        raise


def _complete(problem: Problem, emit: Emit, free: int, *, traced: bool) -> Capture:
    emit("running the reference")
    first, second = checks.SEEDS
    seed_everything(first)
    asked, problem = problem.gradients, replace(problem, gradients=())
    reference = load_problem(problem)
    module = checks.construct(reference)
    drawn = reference.make_arguments(first)
    labels = argument_names(reference, len(drawn))
    checks.check_arguments(drawn, labels)
    shown = [label for label, item in zip(labels, drawn, strict=True) if isinstance(item, torch.Tensor)]
    once = sum(math.prod(spec.shape) for spec in problem.inputs) >= LARGE_ELEMENTS  # inputs of a draft draw ours
    problem = replace(problem, inputs=problem.inputs or input_specs(drawn, shown), axes=_axes(problem, reference))
    problem = replace(problem, parameters=parameter_specs(module, problem.inputs))
    memory.check(problem.arguments, free)
    if not once:
        checks.check_redraw(drawn, reference.make_arguments(second), labels)
    notes = _notes(problem, drawn, labels)
    # The same draw again, now as the tensors that kernels get.
    arguments = _tensors(drawn) if once else reference.make_inputs(first)
    del drawn
    checks.check_finite(arguments, shown, "input")
    outputs = purity.run_checked(reference, module, arguments, names=shown, evaluation=problem.evaluation)
    problem = replace(problem, outputs=checks.output_specs(outputs))
    checks.check_finite(outputs, [spec.name for spec in problem.outputs], "output")
    memory.check(problem.arguments, free)
    seed_everything(second)
    again = load_problem(problem)
    other_draw = _changed(problem.inputs, arguments, second) if once else again.make_inputs(second)
    purity.check_reload(reference, again, module, arguments=arguments, outputs=outputs)
    fresh = again if once else load_problem(problem)  # one that was never called; it learns its plain arguments here
    if not once:
        fresh.make_inputs(second)
    purity.check_other_draw(reference, fresh, module, outputs=outputs, arguments=other_draw)
    del other_draw
    if problem.axes:
        emit("running the reference at other sizes")
    problem = axes.complete(problem, shown)
    if asked:
        emit("running the backward pass")
        problem = gradients.complete(replace(problem, gradients=asked), shown)
        memory.check(problem.arguments, free)
        reference = load_problem(problem)
        module, arguments = reference.make_module(first), reference.make_inputs(first)
    if not traced:
        return Capture(problem=problem, graph=None, reason="it was not traced", notes=notes)
    emit("tracing")
    graph, reason = _trace(problem, reference, module, arguments)
    problem = replace(
        problem,
        flops=costs.count_flops(problem, graph) if graph else _eager_flops(reference, module, arguments),
        min_bytes=costs.least_bytes(problem, graph),
    )
    return Capture(problem=problem, graph=graph, reason=reason, notes=notes)


def _axes(problem: Problem, reference: Reference) -> tuple[Axis, ...]:
    own = axes.declared(reference)
    if own and problem.axes:
        raise SourceError("the file declares DYNAMIC itself", "leave out --dynamic")
    return problem.axes or own


def _tensors(drawn: Sequence[object]) -> tuple[torch.Tensor, ...]:
    return tuple(item for item in drawn if isinstance(item, torch.Tensor))


def _changed(specs: Sequence[TensorSpec], drawn: Sequence[torch.Tensor], seed: int) -> tuple[torch.Tensor, ...]:
    """Returns a draw of which the first part is new: enough for shapes that depend on values to be others."""
    generator, made = torch.Generator().manual_seed(seed), []
    for spec, tensor in zip(specs, drawn, strict=True):
        tensor, count = tensor.clone(), min(CHANGED_ELEMENTS, tensor.numel())
        tensor.view(-1)[:count] = draw(replace(spec, shape=(count,), strides=None), generator)
        made.append(tensor)
    return tuple(made)


def argument_names(reference: Reference, count: int) -> list[str]:
    """Returns the names of the first `count` arguments, as the forward's signature has them."""
    found: list[str] = []
    for parameter in inspect.signature(reference.function).parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            found.append(parameter.name)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            found += [f"{parameter.name}{i}" for i in range(count)]
    if reference.is_class:
        found = found[1:]
    return (found + [f"x{i}" for i in range(len(found), count)])[:count]


def input_specs(drawn: Sequence[object], labels: Sequence[str]) -> tuple[TensorSpec, ...]:
    """Returns the specs of the tensors among some arguments."""
    tensors = [item for item in drawn if isinstance(item, torch.Tensor)]
    return tuple(
        TensorSpec(name=name, shape=tuple(t.shape), dtype=NAMES[t.dtype], role="input")
        for name, t in zip(names.identifiers(labels), tensors, strict=True)
    )


def parameter_specs(module: torch.nn.Module, inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """Returns the specs of a module's parameters and buffers, each once, in the order of its state."""
    state = state_of(module)
    safe = names.identifiers([name for name, _ in state], taken=[spec.name for spec in inputs])
    return tuple(
        TensorSpec(
            name=name,
            shape=tuple(tensor.shape),
            dtype=NAMES[tensor.dtype],
            role="parameter" if isinstance(tensor, torch.nn.Parameter) else "buffer",
        )
        for name, (_, tensor) in zip(safe, state, strict=True)
    )


def state_names(module: torch.nn.Module, specs: Sequence[TensorSpec]) -> dict[str, str]:
    """Returns the identifier of each parameter and buffer by its qualified name; a tied tensor has several names."""
    of_tensor = {id(t): spec.name for (_, t), spec in zip(state_of(module), specs, strict=True)}
    every = (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False))
    return {name: of_tensor[id(tensor)] for name, tensor in every}


def _trace(
    problem: Problem, reference: Reference, module: torch.nn.Module, arguments: Sequence[torch.Tensor]
) -> tuple[Graph | None, str]:
    """Returns the graph, or None and why there is none."""
    if problem.gradients:
        return gradients.trace(problem, reference, arguments)
    state = state_names(module, problem.parameters)
    try:
        graph = tracing.trace(
            module,
            reference.arguments_with(tuple(arguments)),
            inputs=[spec.name for spec in problem.inputs],
            state=state,
        )
    except tracing.Untraceable as error:
        return None, str(error)
    return graph, ""


def _eager_flops(reference: Reference, module: torch.nn.Module, arguments: Sequence[torch.Tensor]) -> int | None:
    """Returns the operations of products and convolutions in an eager run, None where there are none."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        reference.call(module, tuple(arguments))
    return counter.get_total_flops() or None


def _notes(problem: Problem, drawn: Sequence[object], labels: Sequence[str]) -> tuple[str, ...]:
    notes = []
    for label, item in zip(labels, drawn, strict=True):
        if not isinstance(item, torch.Tensor):
            notes.append(f"{label}={item!r} is built into the kernel")
        elif not item.is_contiguous():
            notes.append(f"{label} is given to kernels contiguous; get_inputs returns strides {list(item.stride())}")
    for spec in problem.inputs:
        integer = "int" in spec.dtype
        if problem.workloads[0].generator == "spec" and integer and spec.low is None:
            notes.append(f'{spec.name} is drawn from 0..9; give a range with --input "{spec.dtype}[...]=0..N"')
    return tuple(notes)
