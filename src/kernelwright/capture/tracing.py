"""From a module to a graph: torch.export, core ATen decompositions, and every argument by name.

Runs in the capture worker only (imports torch).
Covers: static shapes, functional operators, parameters, buffers and small literal tensors.
Does not cover: data-dependent shapes or control flow, higher-order operators, custom objects and
large literals; these raise `Untraceable`, and the problem then has no graph.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import signal
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind

from kernelwright.capture import names
from kernelwright.errors import words_of
from kernelwright.graph import Arg, Constant, DtypeArg, Graph, Node, Ref, ResultSpec

KEPT = (
    "_softmax",
    "_log_softmax",
    "native_layer_norm",
    "native_group_norm",
    "_native_batch_norm_legit_no_training",
    "max_pool2d_with_indices",
    "avg_pool2d",
    "_embedding_bag",
    "embedding",
    "convolution",
    "topk",
    "cumsum",
    "gather",
)
"""Operators that stay whole in every version of torch: experts read them as they are."""

IDENTITIES = frozenset(
    f"aten.{name}"
    for name in (
        "detach.default",
        "alias.default",
        "lift_fresh.default",
        "lift_fresh_copy.default",
        "clone.default",
        "_to_copy.default",
        "expand.default",
        "view.default",
        "slice.Tensor",
        "view_as_real.default",
        "view_as_complex.default",
    )
)
"""In a functional graph these give their first argument back where shape, dtype and strides are the same."""

CANONICAL = {
    "aten._embedding_bag_forward_only.default": "aten._embedding_bag.default",
    "kernelwright.lstm_input.default": "aten.lstm.input",
    "kernelwright.gru_input.default": "aten.gru.input",
}
"""Operators of the same schema and values: those that export chooses between by whether gradients are wanted, and our
own that stand for whole recurrent networks."""

PAIRED = frozenset(
    f"aten.{name}.default" for name in ("_fft_r2c", "_fft_c2c", "_fft_c2r", "view_as_real", "view_as_complex")
)
"""Operators whose complex tensors a graph has as pairs of real numbers, in a last dimension of two that `dim` does not
count. No other operator of complex numbers is in graphs."""

SIZED = frozenset({"aten.view.default", "aten.expand.default"})
"""Their `size` is written out: no -1 that a reader would have to resolve."""

DTYPES = {
    getattr(torch, name): name
    for name in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
}
MAX_LITERAL = 4096
"""Elements of a literal tensor that a graph may hold."""
MOST_STEPS = 32
"""Of an LSTM or GRU that is unrolled."""
DEADLINE_S = 60.0
"""Export unrolls loops; a recurrent network over hundreds of steps would take minutes and help no expert."""
AGAIN_S = 2.0


class Untraceable(Exception):
    """The reference has no graph; the message is one line that names the operator or construct."""


def trace(
    module: torch.nn.Module, arguments: Sequence[object], *, inputs: Sequence[str], state: Mapping[str, str]
) -> Graph:
    """Returns the graph of `module(*arguments)`.

    Args:
        module: the reference.
        arguments: what it is called with; tensors keep their shapes, numbers become constants.
        inputs: identifiers of the tensors among the arguments, in order.
        state: qualified name of each parameter and buffer (aliases included) to its identifier.

    Raises:
        Untraceable: when the program leaves what a graph can say.
    """
    program = _export(module, arguments)
    builder = _Builder(program, inputs=inputs, state=state)
    for node in program.graph.nodes:
        if node.op == "call_function":
            builder.call(node)
    return builder.finish()


def _export(module: torch.nn.Module, arguments: Sequence[object]) -> torch.export.ExportedProgram:
    try:
        with warnings.catch_warnings(), torch.no_grad(), _deadline(DEADLINE_S), whole_recurrences():
            warnings.simplefilter("ignore")
            # The table's keys are overloads; its types are not annotated in every version of torch.
            table: Any = torch.export.default_decompositions()
            for packet in (getattr(torch.ops.aten, name) for name in KEPT):
                for overload in packet.overloads():
                    table.pop(getattr(packet, overload), None)
            program: Any = torch.export.export(module, tuple(arguments), strict=False).run_decompositions(table)
    except _Late:
        raise Untraceable(f"tracing took longer than {DEADLINE_S:g} s: is there a loop over many steps?") from None
    except Exception as error:  # export raises whatever its many stages raise
        raise Untraceable(_reason(error)) from error
    assert isinstance(program, torch.export.ExportedProgram)
    return program


@functools.cache
def _recurrences() -> Any:
    """Makes operators of our own that stand for whole recurrent networks: PyTorch's are taken apart step by step."""
    made: Any = torch.library
    library = made.Library("kernelwright", "FRAGMENT")
    rest = "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional"
    rest += ", bool batch_first"

    def forms(given: torch.Tensor, states: Any, *others: Any) -> tuple[torch.Tensor, ...]:
        every = states if isinstance(states, list | tuple) else (states,)
        width = (1 + others[-2]) * every[0].shape[-1]
        first, second = given.shape[:2]
        out = given.new_empty((second, first, width) if others[-1] else (first, second, width))
        return (out.transpose(0, 1) if others[-1] else out, *(torch.empty_like(state) for state in every))

    for name, states, count in (("lstm", "Tensor[]", 3), ("gru", "Tensor", 2)):
        library.define(f"{name}_input(Tensor input, {states} hx, {rest}) -> ({', '.join(['Tensor'] * count)})")
        made.register_fake(f"kernelwright::{name}_input", forms, lib=library)
    return library


@contextlib.contextmanager
def whole_recurrences() -> Iterator[None]:
    """Lets long LSTMs and GRUs stay whole while they are traced; unrolled they take minutes and help no expert."""
    _recurrences()
    functional: Any = torch._VF

    def kept(name: str) -> Any:
        usual, own = getattr(functional, name), getattr(torch.ops.kernelwright, f"{name}_input")

        def call(given: torch.Tensor, states: Any, params: Any, *rest: Any) -> Any:
            # Packed sequences have other arguments.
            whole = isinstance(params, list | tuple) and len(rest) == 6 and given.dim() == 3
            if not whole or given.shape[1 if rest[-1] else 0] <= MOST_STEPS:
                return usual(given, states, params, *rest)
            return own(given, list(states) if isinstance(states, list | tuple) else states, list(params), *rest)

        return call

    calls = {name: kept(name) for name in ("lstm", "gru")}
    try:
        for name, call in calls.items():
            setattr(functional, name, call)
        yield
    finally:
        for name in calls:
            delattr(functional, name)


class _Late(BaseException):
    """The deadline passed. No Exception, since export catches those and goes on."""


@contextlib.contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    """Raises `_Late` inside the block when it takes longer, again and again: what is raised in a finaliser or in a
    callback of C++ is lost. Main thread only."""
    over = False

    def late(_signal: int, _frame: object) -> None:
        if not over:
            raise _Late

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)
    try:
        yield
    finally:
        over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _reason(error: Exception) -> str:
    """Returns one line that says what export could not follow."""
    kind = type(error).__name__
    if "DataDependent" in kind:
        return "control flow or a shape depends on the values of a tensor"
    first = next((line.strip() for line in words_of(error).splitlines() if line.strip()), "no message")
    return f"torch.export: {kind}: {first}"[:300]


class _Builder:
    """Collects nodes in order while it remembers which tensor each FX node stands for."""

    def __init__(
        self, program: torch.export.ExportedProgram, *, inputs: Sequence[str], state: Mapping[str, str]
    ) -> None:
        self.program = program
        self.refs: dict[str, Ref] = {}
        self.specs: dict[Ref, ResultSpec] = {}
        self.nodes: list[Node] = []
        self.constants: list[Constant] = []
        self.taken = [*inputs, *dict.fromkeys(state.values())]
        placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
        waiting = list(inputs)
        for spec in program.graph_signature.input_specs:
            node = placeholders[spec.arg.name]
            if spec.kind == InputKind.USER_INPUT:
                if isinstance(node.meta.get("val"), torch.Tensor):
                    self._bind(node, Ref(name=waiting.pop(0)))
            elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
                self._bind(node, Ref(name=state[str(spec.target)]))
            elif spec.kind == InputKind.CONSTANT_TENSOR:
                self._literal(node, str(spec.target))
            else:
                raise Untraceable(f"the reference uses {spec.kind.name.lower()} {spec.target}")

    def _bind(self, node: torch.fx.Node, ref: Ref) -> None:
        self.refs[node.name] = ref
        self.specs[ref] = _result(node.meta["val"], node.name)

    def _literal(self, node: torch.fx.Node, target: str) -> None:
        tensor = self.program.constants[target]
        if not isinstance(tensor, torch.Tensor):
            raise Untraceable(f"{target} is a {type(tensor).__name__} that the reference holds")
        if tensor.numel() > MAX_LITERAL:
            size = f"{tensor.numel()} elements, more than {MAX_LITERAL}"
            raise Untraceable(f"{target} is a literal tensor of {size}; register it as a buffer")
        (name,) = names.identifiers([target.rpartition(".")[2]], taken=self.taken)
        self.taken.append(name)
        spec = _result(tensor, target)
        values = tuple(tensor.detach().reshape(-1).tolist())
        self.constants.append(Constant(name=name, shape=spec.shape, dtype=spec.dtype, values=values))
        self.refs[node.name] = Ref(name=name)
        self.specs[Ref(name=name)] = spec

    def call(self, node: torch.fx.Node) -> None:
        """Adds one operator call, or resolves it where it only renames a tensor."""
        target = node.target
        if target is operator.getitem:
            source, index = node.args
            assert isinstance(source, torch.fx.Node)
            assert isinstance(index, int)
            self.refs[node.name] = Ref(name=self.refs[source.name].name, index=index)
            return
        if not isinstance(target, torch._ops.OpOverload):
            raise Untraceable(f"{getattr(target, '__name__', target)} is not an operator of the core set")
        if target._schema.is_mutable:
            raise Untraceable(f"{target} changes its arguments")
        arguments = tuple((name, self._argument(item, str(target))) for name, item in _named(node, target))
        value: Any = node.meta.get("val")
        if any(_is_complex(item) for item in (value, *(given.meta.get("val") for given in node.all_input_nodes))):
            if str(target) not in PAIRED:
                raise Untraceable(f"{target} works on complex numbers")
            value = torch.view_as_real(value) if _is_complex(value) else value
        several = isinstance(value, tuple | list)
        results = tuple(_maybe_result(item, str(target)) for item in (tuple(value) if several else (value,)))
        op = CANONICAL.get(str(target), str(target))
        if op in SIZED and results[0] is not None:
            arguments = tuple((key, results[0].shape if key == "size" else item) for key, item in arguments)
        first = arguments[0][1] if arguments else None
        if op in IDENTITIES and isinstance(first, Ref) and self.specs.get(first) == results[0]:
            self.refs[node.name] = first
            return
        (name,) = names.identifiers([node.name], taken=self.taken)
        self.taken.append(name)
        self.refs[node.name] = Ref(name=name)
        self.specs.update({Ref(name=name, index=i): spec for i, spec in enumerate(results) if spec is not None})
        self.nodes.append(Node(name=name, op=op, arguments=arguments, results=results))

    def _argument(self, item: Any, where: str) -> Arg:
        if isinstance(item, torch.fx.Node):
            if item.name not in self.refs:
                raise Untraceable(f"{where} takes {item.name}, which is not a tensor")
            return self.refs[item.name]
        if isinstance(item, tuple | list):
            return tuple(self._argument(element, where) for element in item)
        if item is None or isinstance(item, str | bool | int | float):
            return item
        if isinstance(item, torch.dtype):
            return DtypeArg(name=DTYPES.get(item, str(item).removeprefix("torch.")))
        if isinstance(item, torch.device | torch.layout | torch.memory_format):
            return str(item).removeprefix("torch.")
        raise Untraceable(f"{where} takes a {type(item).__name__}")

    def finish(self) -> Graph:
        """Returns the graph with only those nodes that an output depends on."""
        outputs = []
        for spec in self.program.graph_signature.output_specs:
            if spec.kind != OutputKind.USER_OUTPUT:
                raise Untraceable(f"the reference changes {spec.target} ({spec.kind.name.lower()})")
            outputs.append(self.refs[spec.arg.name])
        needed = {ref.name for ref in outputs}
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if node.name in needed:
                kept.append(node)
                needed.update(used(node))
        constants = tuple(c for c in self.constants if c.name in needed)
        return Graph(nodes=tuple(reversed(kept)), outputs=tuple(outputs), constants=constants)


def used(node: Node) -> set[str]:
    """Returns the names of all tensors that a node reads."""
    found: set[str] = set()
    pending: list[Arg] = [item for _, item in node.arguments]
    while pending:
        item = pending.pop()
        if isinstance(item, Ref):
            found.add(item.name)
        elif isinstance(item, tuple):
            pending.extend(item)
    return found


def _is_complex(item: object) -> bool:
    return isinstance(item, torch.Tensor) and item.is_complex()


def _named(node: torch.fx.Node, target: torch._ops.OpOverload) -> list[tuple[str, Any]]:
    """Returns every argument of the schema with its value, defaults filled in, short lists expanded."""
    named = []
    parameters: Any = target._schema.arguments
    for position, parameter in enumerate(parameters):
        if position < len(node.args):
            item: Any = node.args[position]
        elif parameter.name in node.kwargs:
            item = node.kwargs[parameter.name]
        elif parameter.has_default_value():
            item = parameter.default_value
        else:
            raise Untraceable(f"{target} lacks its argument {parameter.name}")
        if isinstance(parameter.type, torch.ListType) and isinstance(item, int | float | list | tuple):
            item = [item] if isinstance(item, int | float) else list(item)
            if parameter.N and len(item) == 1:
                item = item * parameter.N
        named.append((parameter.name, item))
    return named


def _maybe_result(item: object, where: str) -> ResultSpec | None:
    return _result(item, where) if isinstance(item, torch.Tensor) else None


def _result(tensor: torch.Tensor, where: str) -> ResultSpec:
    if tensor.dtype not in DTYPES:
        raise Untraceable(f"{where} has dtype {str(tensor.dtype).removeprefix('torch.')}")
    sizes = (*tensor.shape, *tensor.stride())
    if not all(isinstance(size, int) for size in sizes):
        raise Untraceable(f"{where} has a shape that depends on data")
    return ResultSpec(shape=tuple(tensor.shape), dtype=DTYPES[tensor.dtype], strides=tuple(tensor.stride()))
