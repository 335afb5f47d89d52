"""Runs a cuTile plan in kernelwright.tile_interpreter: `python -m kernelwright.tiles.cutile_interpret FOLDER`.

Not here: the interpreter.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import cuda.tile as ct
import numpy as np

from kernelwright.languages import cutile
from kernelwright.languages.tile_arguments import DTYPES, Matched
from kernelwright.tile_interpreter import Output, Typed, interpret
from kernelwright.tiles.interpreting import Buffers, serve, storage
from kernelwright.types import Binding


def run_step(buffers: Buffers, module: ModuleType, matched: Matched) -> list[str]:
    """Runs one step in place and returns what was found."""
    kernel: Any = getattr(module, matched.kernel.name)
    bindings, constants = dict(matched.arguments), dict(matched.constants)
    arguments: list[Any] = []
    for parameter in matched.kernel.parameters:
        if parameter.constant:
            arguments.append(constants[parameter.name])
        else:
            arguments.append(_argument(buffers, bindings[parameter.name]))
    found = interpret(kernel, buffers.grid(matched), arguments, seed=buffers.seed)
    buffers.written |= {b.name for b in bindings.values() if b.kind in ("tensor", "workspace")}
    return [f"{matched.where}: {finding}" for finding in found.findings]


def _argument(buffers: Buffers, binding: Binding) -> Any:
    if binding.kind == "axis":
        return buffers.axes[binding.name]
    if binding.kind == "scalar":
        return np.dtype(DTYPES[binding.ctype].replace("bool", "bool_")).type(binding.scalar)
    array = buffers.arrays[binding.name]
    dtype = buffers.dtypes.get(binding.name) or DTYPES[binding.ctype.removeprefix("const ")]
    if binding.name not in buffers.dtypes:
        array = array.view(storage(dtype))
    given: Any = Typed(array, ct.bfloat16) if dtype == "bfloat16" else array
    is_fresh = binding.name not in buffers.written and array is not None
    is_input = any(t.name == binding.name for t in buffers.problem.inputs + buffers.problem.parameters)
    return given if is_input or not is_fresh else Output(given)


if __name__ == "__main__":
    serve(run_step, cutile.match)
