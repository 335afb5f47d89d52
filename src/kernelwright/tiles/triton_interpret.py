"""Runs a Triton plan in Triton's interpreter: `TRITON_INTERPRET=1 python -m kernelwright.tiles.triton_interpret FOLDER`.

Two faults of Triton 3.6's interpreter are mended before anything runs (both reported upstream):
- tl.dot multiplies the bit patterns of bfloat16 operands; they are widened to float32 first.
- A loop bound that is a kernel argument is an array of one element, which NumPy 2.4 no longer takes for an index.
Not here: what the numbers should be.
"""

from __future__ import annotations

import ctypes
from types import ModuleType
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter
from triton.tools.tensor_descriptor import TensorDescriptor

from kernelwright import sizes
from kernelwright.languages import triton as language
from kernelwright.languages import triton_plan
from kernelwright.languages.tile_arguments import DTYPES, Matched, PlanFault
from kernelwright.tiles.interpreting import Buffers, serve, storage
from kernelwright.tiles.serving import own_place
from kernelwright.types import Binding


def mend() -> None:
    """Replaces what is wrong in Triton's interpreter; harmless where it is right already."""
    product = interpreter.InterpreterBuilder.create_dot
    patch = interpreter._patch_lang_tensor

    def widened(handle: Any) -> Any:
        if handle.dtype.scalar != tl.bfloat16:
            return handle
        return interpreter.TensorHandle((handle.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    def create_dot(self: Any, a: Any, b: Any, d: Any, *rest: Any) -> Any:
        return product(self, widened(a), widened(b), d, *rest)

    def patch_tensor(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(np.asarray(self.handle.data).item()))

    interpreter.InterpreterBuilder.create_dot = create_dot
    interpreter._patch_lang_tensor = patch_tensor


def run_step(buffers: Buffers, module: ModuleType, matched: Matched) -> list[str]:
    """Runs one step in place; Triton's interpreter finds nothing by itself."""
    kernel: Any = getattr(module, matched.kernel.name)
    arguments = {name: _argument(buffers, binding, matched) for name, binding in matched.arguments}
    constants = {name: _constant(given) for name, given in matched.constants}
    grid = buffers.grid(matched)
    try:
        kernel[grid](**arguments, **constants)
    except Exception as error:  # noqa: BLE001  (whatever the author's kernel raises)
        cause = error.__cause__ or error
        place = own_place(cause, buffers.candidate) or matched.kernel.location
        message = f"{matched.where}: {type(cause).__name__}: {cause}"[:400]
        raise PlanFault(message, kind="interpreter", location=place) from None
    return []


def _constant(given: Any) -> Any:
    if isinstance(given, str) and given.startswith("tl.") and isinstance(getattr(tl, given[3:], None), tl.dtype):
        return getattr(tl, given[3:])
    return given


def _argument(buffers: Buffers, binding: Binding, matched: Matched) -> Any:
    if binding.kind == "axis":
        return buffers.axes[binding.name]
    if binding.kind == "scalar":
        if binding.ctype == "float":  # as the device gets it
            return ctypes.c_float(float(binding.scalar or 0)).value
        return binding.scalar
    if binding.kind == "tensor_map":
        found = triton_plan.map_of(buffers.candidate, binding, matched.where)
        base = _tensor(buffers, found.of, found.dtype)
        shape = [sizes.evaluate(size, buffers.axes) for size in reversed(found.shape)]
        item = base.element_size()
        strides = [sizes.evaluate(stride, buffers.axes) // item for stride in reversed(found.strides_bytes)]
        return TensorDescriptor(base, shape, [*strides, 1], list(reversed(found.box)))
    dtype = buffers.dtypes.get(binding.name) or DTYPES[binding.ctype.removeprefix("const ")]
    return _tensor(buffers, binding.name, dtype)


def _tensor(buffers: Buffers, name: str, dtype: str) -> torch.Tensor:
    """A tensor that shares its memory with a buffer."""
    array = buffers.arrays[name]
    if name not in buffers.dtypes:
        array = array.view(storage(dtype))
    if dtype == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


if __name__ == "__main__":
    mend()
    serve(run_step, language.match)
