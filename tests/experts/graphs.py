"""Graphs of small PyTorch functions and modules, and running candidates without the rest of the tool."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kernelwright.graph import Arg, Constant, DtypeArg, Graph, Node, Ref, ResultSpec
from kernelwright.types import Candidate, Problem, SourceFile, Target, TensorSpec

from .conftest import compile_library

TARGET = Target(
    kind="cpu", architecture="test", features=("avx2", "avx512f", "fma"), threads=2, toolchain=(), cache_bytes=32 << 20
)


@dataclass
class Traced:
    """A problem with its graph, example arguments (inputs then parameters) and what PyTorch makes of them."""

    problem: Problem
    graph: Graph
    arguments: list[torch.Tensor]
    call: Callable[..., list[torch.Tensor]]
    """call(dtype, arguments): runs the reference, with floats in another dtype unless None, and other arguments."""


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def traced(reference: Callable[..., Any], *inputs: torch.Tensor) -> Traced:
    """Returns the graph that torch.export makes of a function or module."""
    module = reference if isinstance(reference, torch.nn.Module) else Wrapped(reference)
    module.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(module, inputs).run_decompositions()
    signature = program.graph_signature
    names: dict[str, str] = {}
    state = {**program.state_dict, **program.constants}
    parameters, arguments, constants = [], list(inputs), []
    for number, name in enumerate(signature.user_inputs):
        names[name] = f"in{number}"
    for placeholder, target in {**signature.inputs_to_parameters, **signature.inputs_to_buffers}.items():
        if any(node.name == placeholder and node.users for node in program.graph.nodes):
            names[placeholder] = target.replace(".", "_")
            parameters.append(spec(names[placeholder], state[target], "parameter"))
            arguments.append(state[target])
    for placeholder, target in signature.inputs_to_lifted_tensor_constants.items():
        item = program.constants[target]
        names[placeholder] = placeholder
        values = tuple(item.flatten().tolist())
        constants.append(
            Constant(name=placeholder, shape=tuple(item.shape), dtype=dtype_name(item.dtype), values=values)
        )
    graph, outputs = nodes_of(program, names)

    def call(dtype: torch.dtype | None, given: list[torch.Tensor] | None = None) -> list[torch.Tensor]:
        def cast(x: torch.Tensor) -> torch.Tensor:
            return x.to(dtype) if dtype and x.is_floating_point() else x

        with torch.no_grad():
            changed = {name: cast(x) for name, x in module.state_dict().items()}
            result = torch.func.functional_call(module, changed, tuple(map(cast, (given or arguments)[: len(inputs)])))
        return list(result) if isinstance(result, tuple | list) else [result]

    inputs_spec = tuple(spec(f"in{n}", x, "input") for n, x in enumerate(inputs))
    problem = Problem(
        name="test", inputs=inputs_spec, parameters=tuple(parameters), outputs=outputs,
        reference=(SourceFile(path="r.py", text=""),), entry="f", workloads=(), min_bytes=0,
    )  # fmt: skip
    return Traced(problem, Graph(nodes=graph.nodes, outputs=graph.outputs, constants=tuple(constants)), arguments, call)


class Wrapped(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def spec(name: str, x: torch.Tensor, role: Any) -> TensorSpec:
    return TensorSpec(name=name, shape=tuple(x.shape), dtype=dtype_name(x.dtype), role=role)


def nodes_of(program: Any, names: dict[str, str]) -> tuple[Graph, tuple[TensorSpec, ...]]:
    refs: dict[str, Ref] = {name: Ref(name=new) for name, new in names.items()}
    nodes: list[Node] = []

    def convert(item: Any) -> Arg:
        if isinstance(item, torch.fx.Node):
            return refs[item.name]
        if isinstance(item, list | tuple):
            return tuple(convert(i) for i in item)
        if isinstance(item, torch.dtype):
            return DtypeArg(name=dtype_name(item))
        if item is None or isinstance(item, bool | int | float | str):
            return item
        return str(item)

    outputs: tuple[TensorSpec, ...] = ()
    roots: tuple[Ref, ...] = ()
    for node in program.graph.nodes:
        if node.op == "output":
            roots = tuple(refs[n.name] for n in node.args[0])
            values = [n.meta["val"] for n in node.args[0]]
            stems = ["out"] if len(values) == 1 else [f"out{i}" for i in range(len(values))]
            outputs = tuple(spec(stem, v, "output") for stem, v in zip(stems, values, strict=True))
        if node.op != "call_function":
            continue
        if "getitem" in str(node.target):
            refs[node.name] = Ref(name=node.args[0].name, index=node.args[1])
            continue
        if "_assert" in str(node.target):
            continue
        schema = node.target._schema.arguments
        given = {a.name: v for a, v in zip(schema, node.args, strict=False)} | dict(node.kwargs)
        arguments = tuple((a.name, convert(given.get(a.name, a.default_value))) for a in schema)
        value = node.meta["val"]
        results = tuple(
            ResultSpec(shape=tuple(v.shape), dtype=dtype_name(v.dtype), strides=tuple(v.stride()))
            for v in (value if isinstance(value, tuple | list) else [value])
        )
        refs[node.name] = Ref(name=node.name)
        nodes.append(Node(name=node.name, op=str(node.target), arguments=arguments, results=results))
    return Graph(nodes=tuple(nodes), outputs=roots), outputs


# ------------------------------------------------------------------------------------- running


def entry_source(problem: Problem, candidate: Candidate, symbol: str) -> str:
    """Returns the candidate's source in a namespace of its own, with an entry that takes an array of buffers."""
    kernel = candidate.sources[0].text
    for step in candidate.plan.steps:
        kernel = kernel.replace(f"void {step.symbol}(", f"void {symbol}_{step.symbol}(")
    places = {s.name: n for n, s in enumerate(problem.arguments)}
    places |= {w.name: len(problem.arguments) + n for n, w in enumerate(candidate.plan.workspaces)}
    calls = []
    for step in candidate.plan.steps:
        casts = [f"static_cast<{b.ctype}*>(buffers[{places[b.name]}])" for b in step.arguments]
        calls.append(f"    {symbol}_{step.symbol}({', '.join(casts)});")
    body = "\n".join(calls)
    return f"namespace {symbol}_space {{\n{kernel}\n}}\nusing namespace {symbol}_space;\n" + (
        f'extern "C" void {symbol}(void* const* buffers) {{\n{body}\n}}\n'
    )


def aligned(size_bytes: int) -> torch.Tensor:
    """Returns a zeroed byte tensor whose memory starts at a multiple of 64."""
    raw = torch.zeros(size_bytes + 128, dtype=torch.uint8)
    start = -raw.data_ptr() % 64
    return raw[start : start + max(size_bytes, 1)]


def run_candidate(
    library: ctypes.CDLL, symbol: str, case: Traced, candidate: Candidate, given: list[torch.Tensor] | None = None
) -> list[torch.Tensor]:
    """Returns what a compiled candidate writes; outputs and workspaces are poisoned before, guards checked after."""
    buffers, outputs = [], []
    for x in given or case.arguments:
        data = aligned(x.numel() * x.element_size())
        data.view(torch.uint8)[:] = x.detach().contiguous().flatten().view(torch.uint8)
        buffers.append(data)
    for s in case.problem.outputs:
        width = torch.empty(0, dtype=getattr(torch, s.dtype)).element_size()
        count = torch.Size(s.shape).numel()
        data = aligned(count * width + 64)
        data[:] = 0xA5
        buffers.append(data)
        outputs.append((data, count * width, s))
    for w in candidate.plan.workspaces:
        data = aligned(int(w.size_bytes) + 64)
        data[:] = 0xFF
        buffers.append(data)
    before = [b.clone() for b in buffers[: len(case.arguments)]]
    pointers = (ctypes.c_void_p * len(buffers))(*[b.data_ptr() for b in buffers])
    getattr(library, symbol)(pointers)
    assert all(torch.equal(a, b) for a, b in zip(before, buffers, strict=False)), "an input was changed"
    results = []
    for data, size, s in outputs:
        assert bool((data[size:] == 0xA5).all()), f"{s.name}: wrote beyond its end"
        results.append(data[:size].clone().view(getattr(torch, s.dtype)).reshape(s.shape))
    return results


def build(folder: Path, name: str, jobs: list[tuple[str, Problem, Candidate]], *, optimise: str = "-O1") -> ctypes.CDLL:
    """Returns one library with the entries of several candidates."""
    text = '#include "simd.hpp"\n' + "\n".join(entry_source(problem, c, symbol) for symbol, problem, c in jobs)
    return compile_library(folder, text, name=name, optimise=optimise)
