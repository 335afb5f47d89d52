"""Runs a Triton plan in Triton's interpreter: `TRITON_INTERPRET=1 python -m kernelwright.tiles.triton_interpret
FOLDER`.

Two faults of Triton 3.6's interpreter are mended before anything runs (both reported upstream):
- tl.dot multiplies the bit patterns of bfloat16 operands; they are widened to float32 first.
- A loop bound that is a kernel argument is an array of one element, which NumPy 2.4 no longer takes for an index.
What it lacks (libdevice, fast folds with own functions) comes from triton_numpy.py.
Triton's interpreter takes whatever looks enough like a tensor of torch; `Shared` does, so that torch is not needed.
Not here: what the numbers should be.
"""

from __future__ import annotations

import ctypes
from types import ModuleType
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.tools.tensor_descriptor import TensorDescriptor

from kernelwright import sizes
from kernelwright.languages import triton as language
from kernelwright.languages import triton_plan
from kernelwright.languages.tile_arguments import DTYPES, Matched, PlanFault
from kernelwright.tiles import triton_numpy
from kernelwright.tiles.interpreting import Buffers, serve, storage
from kernelwright.tiles.serving import own_place
from kernelwright.types import Binding


class Dtype:
    """An element type as Triton asks torch's for."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.itemsize = int(storage(name).itemsize)
        self.is_floating_point = "float" in name

    def __str__(self) -> str:
        return f"torch.{self.name}"

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dtype) and other.name == self.name


class Shared:
    """A buffer as Triton's interpreter asks a tensor: its address and its element type; nothing is ever copied."""

    def __init__(self, array: Any, dtype: Dtype) -> None:
        self.array, self.dtype = array, dtype

    def data_ptr(self) -> int:
        """Returns the address of the first element."""
        return int(self.array.ctypes.data)

    def element_size(self) -> int:
        """Returns the bytes of one element."""
        return int(self.dtype.itemsize)

    def untyped_storage(self) -> Shared:
        """Returns the memory, which is this."""
        return self

    def cpu(self) -> Shared:
        """Returns the memory on the host, where it is."""
        return self

    def copy_(self, other: Shared) -> None:
        """Brings back what is here already."""

    def new_empty(self, *_: Any, **__: Any) -> Shared:
        """Returns the tensor that `set_` is then called on."""
        return Shared(self.array, self.dtype)

    def set_(self, *_: Any) -> None:
        """Points a new tensor at the memory that it points at already."""

    def storage_offset(self) -> int:
        """Returns where the tensor begins in its memory."""
        return 0

    def size(self) -> tuple[int, ...]:
        """Returns the shape."""
        return tuple(self.array.shape)

    def stride(self) -> tuple[int, ...]:
        """Returns the strides in elements."""
        return tuple(stride // self.dtype.itemsize for stride in self.array.strides)


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
    triton_numpy.supply()


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


def _tensor(buffers: Buffers, name: str, dtype: str) -> Shared:
    array = buffers.arrays[name]
    return Shared(array if name in buffers.dtypes else array.view(storage(dtype)), Dtype(dtype))


if __name__ == "__main__":
    mend()
    serve(run_step, language.match)
