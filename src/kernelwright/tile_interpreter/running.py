"""Runs a cuda.tile kernel on the CPU, block after block in a random order, and tells what is wrong with it.

Not here: what its operations do (operations.py, folding.py, access.py).
"""

from __future__ import annotations

import inspect
import math
import random
import typing
from collections.abc import Sequence
from typing import Any, NamedTuple

import cuda.tile as ct
import numpy as np

from kernelwright.tile_interpreter import access as access
from kernelwright.tile_interpreter import dtypes
from kernelwright.tile_interpreter import folding as folding
from kernelwright.tile_interpreter import operations as operations
from kernelwright.tile_interpreter import raw_memory as raw_memory
from kernelwright.tile_interpreter.context import Block, Run, running
from kernelwright.tile_interpreter.findings import Findings, TileFault
from kernelwright.tile_interpreter.memory import Array, Memory
from kernelwright.tile_interpreter.rebinding import Rebinder
from kernelwright.tile_interpreter.tiles import made, tile

MOST_OPERATIONS = 2_000_000
MOST_BLOCKS = 1 << 20


class Typed(NamedTuple):
    """An array with a cuda.tile dtype that NumPy lacks: uint16 holds the bits of bfloat16, uint8 those of 8-bit
    floats."""

    array: Any
    dtype: Any


class Output(NamedTuple):
    """An array whose contents are undefined until the kernel writes them; every element is expected to be written."""

    array: Any


def interpret(
    kernel: Any,
    grid: int | Sequence[int],
    args: Sequence[Any],
    *,
    seed: int | None = None,
    most_operations: int = MOST_OPERATIONS,
    file_names: dict[str, str] | None = None,
) -> Findings:
    """Runs every block of a kernel on NumPy arrays, which are changed in place, and returns what was found.

    Args:
        kernel: a function under @ct.kernel, or a plain Python function of the same form.
        grid: blocks along x, y and z.
        args: what ct.launch would take: arrays (NumPy; torch on the CPU; `Typed`; `Output`) and Python numbers.
        seed: decides the order of the blocks; None draws one, which the findings name.
        most_operations: memory operations of one block after which it counts as stuck.
        file_names: what to call source files in findings, by their path.

    Raises:
        TypeError: when the arguments do not fit the kernel's parameters.
    """
    sizes = _grid(grid)
    chosen = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    function = getattr(kernel, "_pyfunc", kernel)
    signature = inspect.signature(function)
    bound = signature.bind(*args)
    bound.apply_defaults()
    memories: list[Memory] = []
    constants = _constants(function)
    arguments = [
        _argument(name, given, memories, is_constant=name in constants) for name, given in bound.arguments.items()
    ]
    rebinder = Rebinder()
    rebound = rebinder.function(function)
    blocks: list[Block] = [(x, y, z) for z in range(sizes[2]) for y in range(sizes[1]) for x in range(sizes[0])]
    random.Random(chosen).shuffle(blocks)
    state = Run(sizes, most_operations=most_operations, file_names=file_names or {})
    state.own = rebinder.code
    with running(state):
        for block in blocks:
            state.start_block(block)
            if not _run_block(rebound, arguments, state):
                break
        else:
            _unwritten(memories, state, function)
    order = {"error": 0, "warning": 1, "note": 2}
    found = sorted(state.found.values(), key=lambda finding: (order[finding.level], finding.file, finding.line))
    return Findings(findings=tuple(found), blocks=len(blocks), seed=chosen)


def _constants(function: Any) -> frozenset[str]:
    """Parameters whose annotation says that their value is known when compiling."""
    hints = typing.get_type_hints(function, include_extras=True)
    marked = (ct.ConstantAnnotation, type(ct.ConstantAnnotation()))
    return frozenset(
        name
        for name, hint in hints.items()
        if hint is ct.Constant or any(isinstance(part, marked) for part in getattr(hint, "__metadata__", ()))
    )


def _grid(grid: int | Sequence[int]) -> Block:
    given = [int(size) for size in grid] if isinstance(grid, Sequence) else [int(grid)]
    x, y, z = (*given, 1, 1, 1)[:3]
    if len(given) > 3 or min(x, y, z) < 1 or math.prod((x, y, z)) > MOST_BLOCKS:
        raise TypeError(f"a grid is one to three sizes with at most {MOST_BLOCKS} blocks in all, not {grid!r}")
    return x, y, z


def _run_block(function: Any, arguments: list[Any], state: Run) -> bool:
    """Runs one block; False when the run must end."""
    try:
        function(*arguments)
    except TileFault as fault:
        _report_fault(state, fault.kind, fault.message, fault)
        return False
    except Exception as error:  # noqa: BLE001  (whatever the author's code raises)
        _report_fault(state, "error", f"{type(error).__name__}: {error}", error)
        return False
    return True


def _report_fault(state: Run, kind: str, message: str, error: BaseException) -> None:
    """Reports an exception at the innermost line of the author's that it passed."""
    line, name = 0, ""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in state.own:
            line, name = trace.tb_lineno, trace.tb_frame.f_code.co_filename
        trace = trace.tb_next
    state.report_at(kind, "error", message, file=state.file_names.get(name, name), line=line)


def _argument(name: str, given: Any, memories: list[Memory], *, is_constant: bool) -> Any:
    """What a kernel sees for an argument."""
    is_output = isinstance(given, Output)
    item = given.array if isinstance(given, Output) else given
    dtype = None
    if isinstance(item, Typed):
        item, dtype = item.array, item.dtype
    if isinstance(item, np.generic):
        return made(np.asarray(item), dtypes.BY_NUMPY[item.dtype])
    if isinstance(item, bool | int | float | str) or item is None:
        return item if is_constant or isinstance(item, str) or item is None else tile(item)
    if isinstance(item, tuple | list):
        return tuple(_argument(f"{name}[{i}]", one, memories, is_constant=is_constant) for i, one in enumerate(item))
    base, dtype = _array(name, item, dtype)
    known = next((m for m in memories if _is_same(m.base, base)), None)
    if known is None:
        known = Memory(name, base, dtype, is_output=is_output)
        memories.append(known)
    return Array(known, (0,) * base.ndim, tuple(base.shape))


def _array(name: str, item: Any, dtype: Any) -> tuple[Any, Any]:
    """An argument's storage and dtype; torch tensors on the CPU share theirs."""
    if isinstance(item, np.ndarray):
        found = dtype or dtypes.BY_NUMPY.get(item.dtype)
        if found is None:
            raise TypeError(f"argument {name!r} is an array of {item.dtype}, which cuda.tile has no type for")
        if not item.flags.writeable:
            raise TypeError(f"argument {name!r} is an array that cannot be written; pass a copy")
        return item, found
    kind = str(getattr(item, "dtype", ""))
    special = {
        "torch.bfloat16": ("int16", np.uint16, ct.bfloat16),
        "torch.float8_e4m3fn": ("uint8", np.uint8, ct.float8_e4m3fn),
        "torch.float8_e5m2": ("uint8", np.uint8, ct.float8_e5m2),
    }.get(kind)
    if special is not None:
        as_bits = getattr(__import__("torch"), special[0])
        return item.detach().view(as_bits).numpy().view(special[1]), special[2]
    if hasattr(item, "numpy"):
        return _array(name, item.detach().numpy(), dtype)
    raise TypeError(f"argument {name!r} is a {type(item).__name__}; pass arrays and numbers")


def _is_same(one: Any, other: Any) -> bool:
    same_place = one.__array_interface__["data"][0] == other.__array_interface__["data"][0]
    return bool(same_place and one.shape == other.shape and one.strides == other.strides)


def _unwritten(memories: list[Memory], state: Run, function: Any) -> None:
    for memory in memories:
        missing = np.flatnonzero(~memory.written)
        if not missing.size or not (memory.is_output or memory.written.any()):
            continue
        first = list(map(int, np.unravel_index(missing[0], memory.base.shape)))
        message = (
            f"{missing.size} of {memory.base.size} elements of {memory.name} were never written, the first is {first}"
        )
        name = function.__code__.co_filename
        state.report_at(
            "unwritten", "error" if memory.is_output else "warning", message,
            file=state.file_names.get(name, name), line=function.__code__.co_firstlineno, about=memory.name,
        )  # fmt: skip
