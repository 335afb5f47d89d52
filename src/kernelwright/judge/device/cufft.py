"""cuFFT through nvmath-python's bindings: plans in the caller's workspace, on the current stream.

Nothing is allocated or waited for when a transform is enqueued, so that it can be captured.
Not here: whether a call's arguments fit (languages/library_steps.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import torch

from kernelwright.errors import KernelwrightError, MissingTool

TYPES = {
    ("c2c", torch.float32): "C2C", ("r2c", torch.float32): "R2C", ("c2r", torch.float32): "C2R",
    ("c2c", torch.float64): "Z2Z", ("r2c", torch.float64): "D2Z", ("c2r", torch.float64): "Z2D",
}  # fmt: skip
FORWARD, INVERSE, ALIGNMENT_BYTES = -1, 1, 256
FIX = "pip install 'kernelwright[baselines]', beside torch for CUDA, which brings cuFFT"
_plans: dict[tuple[Any, ...], tuple[int, int]] = {}
"""A plan and the bytes that it works in."""
_lock = threading.Lock()


def binding() -> Any:
    """Returns nvmath's module for cuFFT; MissingTool where it is not installed."""
    try:
        from nvmath.bindings import cufft  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise MissingTool(f"FFTs by cuFFT need nvmath-python ({error})", FIX) from None
    return cufft


def prepared(tensors: list[torch.Tensor], options: Mapping[str, object]) -> Callable[[], None]:
    """Returns the call of a transform from one contiguous tensor to another with a workspace.

    Raises:
        KernelwrightError: where nvmath-python or cuFFT is missing (MissingTool), cuFFT refuses the plan, or it needs a
            larger workspace.
    """
    given, out, work = tensors
    library, kind, scale = binding(), str(options["kind"]), float(str(options["scale"]))
    sizes, name = tuple(int(n) for n in str(options["sizes"]).split("x")), TYPES[kind, given.dtype]
    plan, area_bytes = _planned(library, given.device, name, sizes, int(str(options["batch"])))
    # A transform to real numbers may overwrite what it is given: it gets a copy.
    given_bytes = given.numel() * given.element_size()
    held_bytes = -(-given_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES if kind == "c2r" else 0
    if held_bytes + area_bytes > work.numel():
        message = f"this FFT needs {held_bytes + area_bytes} bytes of workspace, and the plan has {work.numel()}"
        raise KernelwrightError(message, "give its workspace more")
    source = work[:given_bytes].view(given.dtype) if held_bytes else given
    direction = (INVERSE if options["inverse"] else FORWARD,) if kind == "c2c" else ()
    execute = getattr(library, f"exec_{name.lower()}")

    def call() -> None:
        if held_bytes:
            source.copy_(given.reshape(-1))
        stream = int(torch.cuda.current_stream(given.device).cuda_stream) if given.is_cuda else 0
        with _lock:
            _said(library.set_stream, plan, stream)
            _said(library.set_work_area, plan, work.data_ptr() + held_bytes)
            _said(execute, plan, source.data_ptr(), out.data_ptr(), *direction)
        if scale != 1.0:
            out.mul_(scale)

    return call


def _planned(library: Any, device: torch.device, name: str, sizes: tuple[int, ...], batch: int) -> tuple[int, int]:
    key = (device, name, sizes, batch)
    with _lock:
        if key not in _plans:
            with torch.cuda.device(device if device.type == "cuda" else -1):
                plan = _said(library.create)
                _said(library.set_auto_allocation, plan, 0)
                dense = (0, 1, prod(sizes))  # no embedding: the library ignores the other two
                kind = int(library.Type[name])
                area = _said(library.make_plan_many, plan, len(sizes), sizes, *dense, *dense, kind, batch)
            _plans[key] = plan, int(area)
        return _plans[key]


def _said(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except RuntimeError as error:  # nvmath's and pathfinder's, where a library cannot be loaded
        raise MissingTool(f"cuFFT cannot be used: {str(error).splitlines()[0]}", FIX) from None
    except Exception as error:
        if type(error).__name__ != "cuFFTError":  # of no common class
            raise
        raise KernelwrightError(f"cuFFT: {error}") from None
