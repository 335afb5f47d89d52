"""Whether a reference is a function of its inputs: nothing can be judged against one that is not.

Covers: inputs and module state left alone, also where an operator in place happens to change no bit of this draw;
the same bits for the same inputs whatever the random generators hold, and for every load and construction with the
same state; nothing kept from a call for the next; outputs whose shapes do not depend on values.
Does not cover: writes to an input's .data that happen to change no bit, references that are deterministic on
two runs and not on a third, and dependence on time, files or environment that happens to agree.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.capture.checks import SEEDS, Tensors, check_tensor
from kernelwright.errors import SourceError
from kernelwright.reference_program import NAMES, Reference, seed_everything, state_of


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
    versions = [t._version for t in (*arguments, *(tensor for _, tensor in state_of(module)))]
    raw: list[object] = []
    hook = module.register_forward_hook(lambda _module, _arguments, result: raw.append(result))
    try:
        outputs = tuple(t.clone() for t in _run(reference, module, arguments, SEEDS[0]))
    finally:
        hook.remove()
        if raw:
            _check_returned(raw[0])
    _check_unchanged(arguments, kept_inputs, names, versions=versions)
    _check_state(module, kept_state, evaluation=evaluation, versions=versions[len(arguments) :])
    _check_repeats(reference, module, arguments, outputs, evaluation=evaluation)
    return outputs


def check_reload(
    first: Reference, second: Reference, module: torch.nn.Module, *, arguments: Tensors, outputs: Tensors
) -> None:
    """Refuses a reference that is another one each time it is loaded or constructed.

    Args:
        first: as loaded.
        second: the same files, loaded again under another seed, with inputs drawn already.
        module: a construction of the first.
        arguments: what the first was run on.
        outputs: what it gave.

    Raises:
        SourceError: with the tensor that differs, where it can be found.
    """
    other = second.make_module(SEEDS[1])
    state, given = dict(state_of(other)), dict(state_of(module))
    forms = [{name: (t.shape, t.dtype) for name, t in each.items()} for each in (state, given)]
    if forms[0] != forms[1]:
        raise SourceError("Model has other parameters each time it is constructed", "fix its structure in __init__")
    for name, tensor in state.items():
        if not same_bits(tensor, given[name]):
            tensor.copy_(given[name])
    if _agree(_run(second, other, arguments, SEEDS[0]), outputs):
        return
    for attribute in _differing_attributes(module, other):
        message = f"Model is another one each time it is constructed: its attribute {attribute} is drawn anew"
        raise SourceError(message, f"self.register_buffer({attribute.rpartition('.')[2]!r}, ...)")
    names = [key for key, item in _globals(first).items() if _differs(item, _globals(second).get(key))]
    what = f"its global {names[0]} is" if names else "something outside its parameters and buffers is"
    message = f"the reference is another one each time it is loaded: {what} drawn anew"
    raise SourceError(message, "make it an input (get_inputs), a parameter or a buffer")


def check_other_draw(
    first: Reference, second: Reference, module: torch.nn.Module, *, outputs: Tensors, arguments: Tensors
) -> None:
    """Refuses outputs whose shapes or dtypes depend on the inputs' values, and references that keep an answer.

    Args:
        first: as loaded.
        second: the same files, loaded again.
        module: a construction of the first that was called before.
        outputs: what it gave on another draw.
        arguments: the tensors of this draw.

    Raises:
        SourceError: with both forms, or saying that a module that was called before gives other values than a new one.
    """
    fresh, given = second.make_module(SEEDS[0]), dict(state_of(module))
    for name, tensor in state_of(fresh):
        tensor.copy_(given[name])
    again = _run(second, fresh, arguments, SEEDS[1])
    forms = [[f"{NAMES.get(t.dtype)}{list(t.shape)}" for t in each] for each in (outputs, again)]
    if forms[0] != forms[1]:
        message = f"the outputs are {', '.join(forms[0])} in one draw and {', '.join(forms[1])} in the next"
        raise SourceError(message, "give outputs whose shapes do not depend on the inputs' values")
    if not _agree(_run(first, module, arguments, SEEDS[1]), again):
        message = "the reference keeps something from one call for the next, so a call is not a function of its inputs"
        raise SourceError(message, "compute it in every call, or once in __init__")


def _run(reference: Reference, module: torch.nn.Module, arguments: Tensors, seed: int) -> Tensors:
    seed_everything(seed)
    with torch.no_grad():
        return reference.call(module, arguments)


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


def _check_unchanged(tensors: Tensors, kept: Tensors, names: Sequence[str], *, versions: Sequence[int]) -> None:
    for name, now, before, version in zip(names, tensors, kept, versions, strict=False):
        # A version counts operators in place: relu_ changes no bit of a draw that is not negative.
        if now._version != version or not same_bits(now, before):
            raise SourceError(f"the reference changes its input {name} in place", f"begin with {name} = {name}.clone()")


def _check_state(
    module: torch.nn.Module, kept: Sequence[tuple[str, torch.Tensor]], *, evaluation: bool, versions: Sequence[int]
) -> None:
    now = dict(state_of(module))
    for (name, before), version in zip(kept, versions, strict=True):
        if name not in now or now[name]._version != version or not same_bits(now[name], before):
            owner = module.get_submodule(name.rpartition(".")[0])
            where = f" ({type(owner).__name__})" if owner is not module else ""
            fix = "keep the state out of forward" if evaluation else "try --eval, which leaves running statistics alone"
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


def _differing_attributes(one: torch.nn.Module, two: torch.nn.Module) -> list[str]:
    others = dict(two.named_modules())
    return [
        f"{prefix}.{key}".lstrip(".")
        for prefix, part in one.named_modules()
        for key, item in vars(part).items()
        if prefix in others and _differs(item, vars(others[prefix]).get(key))
    ]


def _globals(reference: Reference) -> dict[str, object]:
    return getattr(reference.function, "__globals__", {})


def _differs(one: object, two: object) -> bool:
    return isinstance(one, torch.Tensor) and not same_bits(one, two)


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

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # see judge/truth.py: it saves seconds of imports

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if torch.Tag.nondeterministic_seeded in func.tags and str(func) not in self.names:
            self.names.append(str(func))
        return func(*args, **(kwargs or {}))
