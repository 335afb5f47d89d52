"""What a reference must be before anything is judged against it: a function of its inputs.

Covers: tensors of usable kinds going in and out; shapes that do not change between draws; inputs
and module state left alone; the same bits for the same inputs whatever the random generators hold,
and for every construction with the same state; finite values on the reference's own inputs.
Does not cover: references that are deterministic on two runs and not on a third, and dependence on
time, files or environment that happens to agree.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.errors import SourceError
from kernelwright.reference_program import NAMES, Reference, seed_everything, state_of
from kernelwright.types import TensorSpec

SEEDS = (20_011, 47_057)
"""Any two: what matters is that they differ."""
UNUSABLE = frozenset({"int16"})
"""Dtypes that the loader knows but no kernel can bind."""
LAZY_FIX = "use the modules that take their sizes, such as Linear for LazyLinear"
PLAIN = (bool, int, float, str, type(None))
Tensors = tuple[torch.Tensor, ...]


def check_arguments(arguments: Sequence[object], names: Sequence[str]) -> None:
    """Refuses arguments that are neither usable tensors nor plain numbers.

    Raises:
        SourceError: with the argument's name.
    """
    for name, item in zip(names, arguments, strict=True):
        if isinstance(item, torch.Tensor):
            check_tensor(f"input {name}", item)
        elif isinstance(item, PLAIN):
            continue
        elif isinstance(item, list | tuple | dict):
            kind = type(item).__name__
            raise SourceError(f"input {name} is a {kind}", "pass its tensors as arguments of their own")
        elif type(item).__module__ == "numpy":
            raise SourceError(f"input {name} is a NumPy {type(item).__name__}", "wrap it in torch.from_numpy(...)")
        else:
            fix = "inputs are tensors and plain numbers; make it in __init__"
            raise SourceError(f"input {name} is a {type(item).__name__}", fix)


def check_tensor(what: str, tensor: torch.Tensor) -> None:
    """Refuses a tensor that no kernel could be given.

    Raises:
        SourceError: for another device or layout, a dtype without a C type, or no elements.
    """
    if isinstance(tensor, torch.nn.parameter.UninitializedBuffer):
        raise SourceError(f"{what} has no shape yet", LAZY_FIX)
    if tensor.device.type != "cpu":
        raise SourceError(f"{what} is on {tensor.device}", "keep it on the CPU: remove .cuda() and device=")
    if tensor.layout != torch.strided or tensor.is_quantized:
        kind = "quantized" if tensor.is_quantized else str(tensor.layout).removeprefix("torch.")
        raise SourceError(f"{what} is {kind}", "use a dense tensor")
    if tensor.dtype not in NAMES or NAMES[tensor.dtype] in UNUSABLE:
        usable = ", ".join(name for name in NAMES.values() if name not in UNUSABLE)
        raise SourceError(f"{what} is {str(tensor.dtype).removeprefix('torch.')}", f"use one of {usable}")
    if tensor.numel() == 0:
        raise SourceError(f"{what} is empty: its shape is {list(tensor.shape)}", "use sizes of at least 1")


def check_redraw(first: Sequence[object], second: Sequence[object], names: Sequence[str]) -> None:
    """Refuses inputs that change anything but their values from draw to draw.

    Raises:
        SourceError: with the argument's name and both forms.
    """
    if len(first) != len(second):
        raise SourceError(f"get_inputs() gives {len(first)} arguments, then {len(second)}", "return the same number")
    for name, one, two in zip(names, first, second, strict=True):
        if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor):
            forms = [f"{NAMES.get(t.dtype)}{list(t.shape)}" for t in (one, two)]
            if forms[0] != forms[1]:
                raise SourceError(f"input {name} is {forms[0]} in one draw and {forms[1]} in the next", "fix its shape")
        elif type(one) is not type(two) or (one != two and one == one):
            message = f"input {name} is {one!r} in one draw and {two!r} in the next"
            raise SourceError(message, "plain numbers are built into the kernel: return the same one each time")


def check_finite(tensors: Tensors, names: Sequence[str], kind: str) -> None:
    """Refuses NaN and infinities.

    Raises:
        SourceError: with the tensor's name, how many, and where the first is.
    """
    for name, tensor in zip(names, tensors, strict=True):
        if not tensor.is_floating_point():
            continue
        bad = ~torch.isfinite(tensor)
        if count := int(bad.sum()):
            nans = int(torch.isnan(tensor).sum())
            what = "NaN" if nans == count else "infinite" if nans == 0 else "NaN or infinite"
            place = tuple(int(i) for i in bad.nonzero()[0])
            where = f" (first at {list(place)})" if place else ""
            message = f"{kind} {name} has {count} of {tensor.numel()} elements {what}{where}"
            fix = "check the inputs, and the domain of every log, sqrt and division"
            raise SourceError(message, fix if kind == "output" else "return finite values from get_inputs")


def run_checked(
    reference: Reference, module: torch.nn.Module, arguments: Tensors, *, names: Sequence[str], evaluation: bool
) -> Tensors:
    """Returns the reference's outputs once it has proved to be a function of its inputs.

    Args:
        reference: as loaded.
        module: a construction of it; it comes back unchanged.
        arguments: the tensors to run it on; they come back unchanged.
        names: their names, for messages.
        evaluation: whether the user asked for evaluation mode already.

    Raises:
        SourceError: where a check fails; the message names the tensor, module or operator.
    """
    kept_inputs = tuple(t.clone() for t in arguments)
    kept_state = tuple((name, tensor.clone()) for name, tensor in state_of(module))
    raw: list[object] = []
    hook = module.register_forward_hook(lambda _module, _arguments, result: raw.append(result))
    try:
        outputs = tuple(t.clone() for t in _run(reference, module, arguments, SEEDS[0]))
    finally:
        hook.remove()
        if raw:
            _check_returned(raw[0])
    _check_unchanged(arguments, kept_inputs, names)
    _check_state(module, kept_state, evaluation=evaluation)
    _check_repeats(reference, module, arguments, outputs, evaluation=evaluation)
    _check_other_construction(reference, module, arguments, outputs)
    return outputs


def check_shapes(reference: Reference, module: torch.nn.Module, outputs: Tensors, arguments: Tensors) -> None:
    """Refuses outputs whose shapes or dtypes depend on the inputs' values.

    Args:
        reference: as loaded.
        module: a construction of it.
        outputs: what it gave on another draw.
        arguments: the tensors of this draw.

    Raises:
        SourceError: with both forms.
    """
    again = _run(reference, module, arguments, SEEDS[1])
    forms = [[f"{NAMES.get(t.dtype)}{list(t.shape)}" for t in each] for each in (outputs, again)]
    if forms[0] != forms[1]:
        message = f"the outputs are {', '.join(forms[0])} in one draw and {', '.join(forms[1])} in the next"
        raise SourceError(message, "give outputs whose shapes do not depend on the inputs' values")


def _run(reference: Reference, module: torch.nn.Module, arguments: Tensors, seed: int) -> Tensors:
    seed_everything(seed)
    with torch.no_grad():
        return reference.call(module, arguments)


def construct(reference: Reference) -> torch.nn.Module:
    """Returns a new module whose parameters and buffers are all usable.

    Raises:
        SourceError: with the name of what is not.
    """
    try:
        module = reference.make_module(SEEDS[0])
    except ValueError as error:
        if "ninitialized parameter" not in str(error):
            raise
        raise SourceError("Model has lazy modules, whose parameters have no shape yet", LAZY_FIX) from error
    for name, tensor in state_of(module):
        check_tensor(f"{'parameter' if isinstance(tensor, torch.nn.Parameter) else 'buffer'} {name}", tensor)
    if reference.is_class and type(module).forward is torch.nn.Module.forward:
        raise SourceError("Model has no forward", "define `def forward(self, x): ...`")
    return module


def _check_returned(result: object) -> None:
    if isinstance(result, torch.Tensor):
        check_tensor("the output", result)
        return
    if isinstance(result, list | tuple):
        if not result:
            raise SourceError("the reference returns nothing", "return a tensor or a tuple of tensors")
        for position, item in enumerate(result):
            if not isinstance(item, torch.Tensor):
                message = f"the reference returns a {type(result).__name__} whose element {position} is {_kind(item)}"
                raise SourceError(message, "return a tensor or a flat tuple of tensors")
            check_tensor(f"output {position}", item)
        return
    raise SourceError(f"the reference returns {_kind(result)}", "return a tensor or a tuple of tensors")


def _kind(item: object) -> str:
    if item is None:
        return "None"
    if isinstance(item, dict):
        return f"a dict with the keys {', '.join(map(str, list(item)[:5]))}"
    return f"a {type(item).__name__}"


def _check_unchanged(tensors: Tensors, kept: Tensors, names: Sequence[str]) -> None:
    for name, now, before in zip(names, tensors, kept, strict=True):
        if not same_bits(now, before):
            raise SourceError(f"the reference changes its input {name} in place", f"begin with {name} = {name}.clone()")


def _check_state(module: torch.nn.Module, kept: Sequence[tuple[str, torch.Tensor]], *, evaluation: bool) -> None:
    now = dict(state_of(module))
    for name, before in kept:
        if name not in now or not same_bits(now[name], before):
            owner = module.get_submodule(name.rpartition(".")[0])
            where = f" ({type(owner).__name__})" if owner is not module else ""
            fix = "keep the state out of forward" if evaluation else "try --eval: it holds running statistics still"
            raise SourceError(f"forward changes {name}{where}, so a call is not a function of its inputs", fix)


def _check_repeats(
    reference: Reference, module: torch.nn.Module, arguments: Tensors, outputs: Tensors, *, evaluation: bool
) -> None:
    again = _run(reference, module, arguments, SEEDS[1])
    if _agree(again, outputs):
        return
    causes = [
        f"{type(m).__name__} ({name})"
        for name, m in module.named_modules()
        if isinstance(m, torch.nn.modules.dropout._DropoutNd) and m.training
    ]
    with _RandomOperators() as seen:
        _run(reference, module, arguments, SEEDS[0])
    causes += [name for name in seen.names if not causes or "dropout" not in name]
    found = f": it uses {', '.join(causes[:4])}" if causes else ": two runs on the same inputs differ"
    dropout = any("dropout" in cause.lower() or "bernoulli" in cause for cause in causes)
    if evaluation or not dropout:
        fix = "draw random numbers in get_inputs and pass them in" if causes else "make it a function of its inputs"
    else:
        fix = "--eval switches dropout off; other random numbers belong in get_inputs"
    raise SourceError(f"the reference is not deterministic{found}", fix)


def _check_other_construction(
    reference: Reference, module: torch.nn.Module, arguments: Tensors, outputs: Tensors
) -> None:
    other = reference.make_module(SEEDS[1])
    state, given = dict(state_of(other)), dict(state_of(module))
    forms = [{name: (t.shape, t.dtype) for name, t in each.items()} for each in (state, given)]
    if forms[0] != forms[1]:
        raise SourceError("Model has other parameters each time it is constructed", "fix its structure in __init__")
    for name, tensor in state.items():
        tensor.copy_(given[name])
    if _agree(_run(reference, other, arguments, SEEDS[0]), outputs):
        return
    loose = [
        f"{prefix}.{key}".lstrip(".")
        for prefix, part in module.named_modules()
        for key, item in vars(part).items()
        if isinstance(item, torch.Tensor) and not same_bits(item, vars(other.get_submodule(prefix)).get(key))
    ]
    what = f"its attribute {loose[0]} is" if loose else "something outside its parameters and buffers is"
    fix = f"self.register_buffer({loose[0].rpartition('.')[2]!r}, ...)" if loose else "keep it in a parameter or buffer"
    raise SourceError(f"Model gives other outputs each time it is constructed: {what} drawn anew", fix)


def _agree(one: Tensors, two: Tensors) -> bool:
    return len(one) == len(two) and all(same_bits(a, b) for a, b in zip(one, two, strict=True))


def same_bits(one: torch.Tensor, two: object) -> bool:
    """Returns whether two tensors agree in shape, dtype and every bit, NaN included."""
    if not isinstance(two, torch.Tensor) or one.shape != two.shape or one.dtype != two.dtype:
        return False
    if torch.equal(one, two):
        return True
    a, b = (t.detach().contiguous().reshape(-1).view(torch.uint8) for t in (one, two))
    return torch.equal(a, b)


class _RandomOperators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the operators that draw from a random generator."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if torch.Tag.nondeterministic_seeded in func.tags and str(func) not in self.names:
            self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def output_specs(outputs: Tensors) -> tuple[TensorSpec, ...]:
    """Returns the specs of a reference's outputs: `out`, or `out0`, `out1` ..."""
    names = ("out",) if len(outputs) == 1 else tuple(f"out{i}" for i in range(len(outputs)))
    return tuple(
        TensorSpec(name=name, shape=tuple(t.shape), dtype=NAMES[t.dtype], role="output")
        for name, t in zip(names, outputs, strict=True)
    )
