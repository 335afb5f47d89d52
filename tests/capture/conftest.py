from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelwright import capture
from kernelwright.graph import Arg, Capture, DtypeArg, Graph, Ref
from kernelwright.process import Worker
from kernelwright.reference_program import DTYPES, load_problem, state_of

Execute = Callable[[Capture, int, bool], tuple[Sequence[torch.Tensor], Sequence[torch.Tensor]]]


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    with Worker(capture.MODULE) as running:
        yield running


@pytest.fixture
def load(worker: Worker) -> Callable[..., Capture]:
    """`capture.load` in the shared worker."""

    def call(source: str | Path, **options: Any) -> Capture:
        return capture.load(str(source), worker=worker, **options)

    return call


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes files into an empty folder and returns the first one's path."""

    def call(text: str, name: str = "user.py", **others: str) -> Path:
        for other, content in others.items():
            path = tmp_path / (other.replace("__", "/") + ".py")
            path.parent.mkdir(exist_ok=True)
            path.write_text(content)
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return call


@pytest.fixture(scope="session")
def execute() -> Execute:
    """Runs reference and graph on the same draw: (captured, seed, double) -> (expected, found)."""

    def call(captured: Capture, seed: int, double: bool) -> tuple[Sequence[torch.Tensor], Sequence[torch.Tensor]]:
        problem = captured.problem
        assert captured.graph is not None, captured.reason
        reference = load_problem(problem)
        inputs = [_widen(t, double) for t in reference.make_inputs(seed)]
        module = reference.make_module(seed, torch.float64 if double else None)
        generator = torch.Generator().manual_seed(seed)
        for name, tensor in state_of(module):
            # Weights that are all one or all zero would hide a graph that ignores them.
            if tensor.is_floating_point():
                drawn = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
                tensor.copy_(drawn.abs() + 0.5 if "var" in name else drawn)
        # Literals that the reference makes on the way are then as wide as its inputs.
        torch.set_default_dtype(torch.float64 if double else torch.float32)
        try:
            with torch.no_grad():
                expected = reference.call(module, [t.clone() for t in inputs])
        finally:
            torch.set_default_dtype(torch.float32)
        state = [tensor for _, tensor in state_of(module)]
        names = [spec.name for spec in problem.inputs + problem.parameters]
        values = dict(zip(names, inputs + state, strict=True))
        return expected, _interpret(captured.graph, values, double)

    return call


def _widen(tensor: torch.Tensor, double: bool) -> torch.Tensor:
    return tensor.double() if double and tensor.is_floating_point() else tensor


def _interpret(graph: Graph, values: dict[str, torch.Tensor], double: bool) -> list[torch.Tensor]:
    """Executes a graph by calling each operator by its name, with every argument by name."""
    known: dict[str, tuple[Any, ...]] = {name: (tensor,) for name, tensor in values.items()}
    for constant in graph.constants:
        tensor = torch.tensor(constant.values, dtype=DTYPES[constant.dtype]).reshape(constant.shape)
        known[constant.name] = (_widen(tensor, double),)
    for node in graph.nodes:
        namespace, name, overload = node.op.split(".")
        operator = getattr(getattr(getattr(torch.ops, namespace), name), overload)
        schema = operator._schema.arguments
        assert [key for key, _ in node.arguments] == [parameter.name for parameter in schema]
        arguments = {
            key: _value(item, known, str(parameter.type), double)
            for (key, item), parameter in zip(node.arguments, schema, strict=True)
        }
        result = operator(**arguments)
        known[node.name] = tuple(result) if isinstance(result, tuple | list) else (result,)
        if not double:
            for found, spec in zip(known[node.name], node.results, strict=True):
                assert spec is not None
                assert (tuple(found.shape), found.dtype) == (spec.shape, DTYPES[spec.dtype]), node
    return [known[ref.name][ref.index] for ref in graph.outputs]


def _value(item: Arg, known: dict[str, tuple[Any, ...]], kind: str, double: bool) -> Any:
    if isinstance(item, Ref):
        return known[item.name][item.index]
    if isinstance(item, tuple):
        return [_value(element, known, "", double) for element in item]
    if isinstance(item, DtypeArg):
        dtype = DTYPES[item.name]
        return torch.float64 if double and dtype.is_floating_point else dtype
    if isinstance(item, str):
        return item if item in ("none", "tanh") else torch.device(item) if item == "cpu" else getattr(torch, item)
    if isinstance(item, bool | int | float) and "Tensor" in kind:
        return torch.tensor(item)
    return item
