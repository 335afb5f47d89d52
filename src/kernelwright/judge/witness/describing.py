"""What a witness worker is told of a problem: forms and names, never the reference itself.

Runs in the judge worker, once for a session. Not here: where tensors lie (witness.py).
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from kernelwright.errors import SourceError
from kernelwright.judge.session import Session
from kernelwright.judge.witness.handover import to_json, tree_of
from kernelwright.judge.witness.holder import LEAF_MARK
from kernelwright.reference_program import outputs_of, state_of

EXTRA_MEMORY_BYTES = 1 << 30
SLOTS_OF_MEMORY = 16
FREE_SHARE = 0.5

_known: weakref.WeakKeyDictionary[Session, dict[str, Any]] = weakref.WeakKeyDictionary()


def describe(session: Session) -> dict[str, Any]:
    """Returns the reference's form as JSON data: arguments of constructor and call, state, tree, axes, aliases.

    Raises:
        SourceError: when an argument cannot be handed to another process.
    """
    if session not in _known:
        _known[session] = _describe(session)
    return _known[session]


def _describe(session: Session) -> dict[str, Any]:
    reference, problem = session.reference, session.problem
    module = reference.make_module(0)
    inputs = reference.make_inputs(0)
    with torch.no_grad():
        result = module(*reference.arguments_with(inputs))
    outputs = outputs_of(result)
    memory = [(t.data_ptr(), t.data_ptr() + t.numel() * t.element_size()) for t in (*inputs, *_state(module))]
    return {
        "entry": problem.entry,
        "evaluation": problem.evaluation,
        "init": [to_json(item) for item in reference.initial_arguments()],
        "fixed": _fixed(reference.arguments_with(inputs)),
        "state": _names(module),
        "tree": tree_of(result),
        "orders": [_order(t) for t in outputs],
        "aliases": [any(low <= t.data_ptr() < high for low, high in memory) for t in outputs],
        "threads": session.target.threads,
        "device": session.device,
        "memory_bytes": _memory(session),
    }


def _order(tensor: torch.Tensor) -> list[int]:
    """Axes from the outermost in memory to the innermost: holds at other sizes as well."""
    return sorted(range(tensor.dim()), key=lambda axis: (-tensor.stride()[axis], axis))


def _state(module: torch.nn.Module) -> list[torch.Tensor]:
    return [tensor for _, tensor in state_of(module)]


def _fixed(arguments: tuple[object, ...]) -> list[Any]:
    if all(isinstance(a, torch.Tensor) for a in arguments):
        return []
    return [LEAF_MARK if isinstance(a, torch.Tensor) else to_json(a) for a in arguments]


def _names(module: torch.nn.Module) -> list[tuple[str, int, bool]]:
    """Every name of the state, tied ones too, with its tensor's position and whether a candidate must have it."""
    position = {id(tensor): index for index, tensor in enumerate(_state(module))}
    kept = set(module.state_dict())
    found = [
        (name, position[id(tensor)], name in kept)
        for walk in (module.named_parameters, module.named_buffers)
        for name, tensor in walk(remove_duplicate=False)
    ]
    if len(found) < len(position):
        raise SourceError("the reference's state has tensors without a name", "register them as parameters or buffers")
    return found


def _memory(session: Session) -> int:
    """What a candidate may allocate: ample for its results, and never all that the machine has."""
    slots = session.slots
    ample = EXTRA_MEMORY_BYTES + SLOTS_OF_MEMORY * slots.slot_bytes + 2 * slots.slot_bytes * slots.count
    return int(min(ample, FREE_SHARE * session._free_bytes))
