"""`@kernelwright.fuse`: a NumPy function as one problem, optimised once for each signature, called like before.

The function's text is loaded where `torch._numpy` stands for NumPy, and so becomes a reference like any other; what is
found is a bundle in environment.home()/fused, which the next process finds again. NumPy itself stays the original: the
first calls, and one of many, are compared with it, and whatever cannot be traced, judged or won runs there.
**Covers**: functions of arrays (NumPy, CuPy, torch) that give arrays, in what torch._numpy knows of NumPy.
**Does not cover**: arguments other than arrays, results other than arrays, changes of arguments in place.
"""

from __future__ import annotations

import functools
import importlib
import logging
import sys
import threading
from collections.abc import Callable
from typing import Any, overload

from kernelwright import api, environment
from kernelwright.authoring.source import source_of
from kernelwright.authoring.written import spec_of
from kernelwright.deploy import Shadow, load
from kernelwright.deploy.export import export
from kernelwright.errors import KernelwrightError
from kernelwright.run.recollect import recollect
from kernelwright.types import digest

LOG = logging.getLogger("kernelwright")
ENTRY = "fused"
STANDS_FOR = {"numpy": "torch._numpy", "kernelwright.numpy": "torch._numpy", "cupy": "torch._numpy"}
TAIL = """

import torch
import torch._numpy


def {entry}({arguments}):
    given = [torch._numpy.ndarray(t) for t in ({arguments},)]
    made = {name}(*given)
    made = made if isinstance(made, tuple | list) else (made,)
    found = tuple(torch._numpy.asarray(a).tensor for a in made)
    return found[0] if len(found) == 1 else found
"""
CHECKED, EVERY = 2, 1000
"""The first calls that are compared with NumPy, and one of how many afterwards."""


class Fused:
    """A NumPy function whose calls run a verified kernel where one was found."""

    def __init__(self, function: Callable[..., Any], *, budget_s: float, when_called: bool, device: str) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._budget_s, self._when_called, self._device = budget_s, when_called, device
        self._operators: dict[tuple[str, ...], Any] = {}
        self.reasons: dict[tuple[str, ...], str] = {}
        """By signature, why NumPy runs it."""
        self._lock = threading.Lock()

    def __call__(self, *arrays: Any) -> Any:
        """Returns what the function returns, as arrays of the kind that came in."""
        if environment.disabled() or not arrays or not all(hasattr(a, "dtype") and hasattr(a, "shape") for a in arrays):
            return self._original(arrays)
        signature = tuple(spec_of(array) for array in arrays)
        if signature not in self._operators:
            if not self._when_called:
                return self._original(arrays)
            self.prepare(*arrays)
        operator = self._operators[signature]
        if operator is None or operator.watch.reason:
            return self._original(arrays)
        return self._run(operator, arrays)

    def _original(self, arrays: tuple[Any, ...]) -> Any:
        """Returns what NumPy gives, also for tensors, which NumPy itself would mistake for arrays."""
        torch = sys.modules.get("torch")
        if torch is None or not any(isinstance(array, torch.Tensor) for array in arrays):
            return self.function(*arrays)
        given = (a.detach().cpu().numpy() if isinstance(a, torch.Tensor) else a for a in arrays)
        made = self.function(*given)
        return tuple(map(torch.as_tensor, made)) if isinstance(made, tuple) else torch.as_tensor(made)

    def prepare(self, *arrays: Any) -> str:
        """Optimises the function for arrays like these, and returns why NumPy runs it, empty where a kernel does."""
        signature = tuple(spec_of(array) for array in arrays)
        with self._lock:
            if signature not in self._operators:
                try:
                    self._operators[signature] = self._found(signature)
                except KernelwrightError as error:
                    self._operators[signature] = None
                    self.reasons[signature] = str(error)
                    LOG.info("%s stays with NumPy: %s", self.function.__name__, error)
        return self.reasons.get(signature, "")

    def _found(self, signature: tuple[str, ...]) -> Any:
        text = self.text(len(signature))
        key = digest((text, signature, self._device)).rpartition(":")[2][:16]
        folder = environment.home() / "fused" / f"{self.function.__name__}-{key}"
        bundle = folder / "bundle"
        if not bundle.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / f"{self.function.__name__}.py"
            file.write_text(text, encoding="utf-8")
            result = api.optimize(
                f"{file}:{ENTRY}", inputs=signature, device=self._device, budget_s=self._budget_s, out=folder / "search"
            )
            if result.answer != "kernel":
                raise KernelwrightError(result.why)
            export([recollect(str(folder / "search"))], bundle, name=self.function.__name__)
        # NumPy is what is compared with (below): the operator's own checks would only compare with torch._numpy.
        return load(bundle, shadow=Shadow(first=0, every=0))

    def text(self, count: int) -> str:
        """Returns the reference's text for a number of arrays."""
        arguments = ", ".join(f"x{i}" for i in range(count))
        own = source_of(self.function, modules=STANDS_FOR)
        return own + TAIL.format(entry=ENTRY, arguments=arguments, name=self.function.__name__)

    def _run(self, operator: Any, arrays: tuple[Any, ...]) -> Any:
        import torch

        from kernelwright.deploy.trust import difference

        with torch.no_grad():
            found = operator(*(placed(tensor_of(array)) for array in arrays))
        several = found if isinstance(found, tuple) else (found,)
        made = tuple(array_like(tensor, arrays[0]) for tensor in several)
        result: Any = made if isinstance(found, tuple) else made[0]
        if operator.launched() > CHECKED and operator.launched() % EVERY:
            return result
        wanted = self._original(arrays)
        expected = wanted if isinstance(wanted, tuple) else (wanted,)
        fault = difference(several, [tensor_of(a) for a in expected], None, operator.problem.tolerance)
        if fault:
            operator.watch.disable(f"NumPy says otherwise: {fault}")
            return wanted
        return result


def tensor_of(array: Any) -> Any:
    """Returns an array as a tensor of the same memory, where its kind allows that (DLPack)."""
    import torch

    if isinstance(array, torch.Tensor):
        return array
    if hasattr(array, "__dlpack__"):
        try:
            return torch.utils.dlpack.from_dlpack(array)
        except (BufferError, RuntimeError, TypeError):  # read-only, or a dtype that DLPack does not know
            return torch.as_tensor(array)
    return torch.as_tensor(array)


def placed(tensor: Any) -> Any:
    """Returns a tensor that lies as kernels are verified: itself, or a copy where it is a view or not aligned.

    NumPy aligns to 16 bytes, so that without it most arrays would miss the kernel, by chance.
    """
    from kernelwright.deploy.envelope import CPU_ALIGNMENT_BYTES

    lies_well = tensor.is_contiguous() and (tensor.is_cuda or tensor.data_ptr() % CPU_ALIGNMENT_BYTES == 0)
    return tensor if lies_well else tensor.contiguous() if not tensor.is_contiguous() else tensor.clone()


def array_like(tensor: Any, array: Any) -> Any:
    """Returns a tensor as an array of another one's kind, sharing memory."""
    import torch

    if isinstance(array, torch.Tensor):
        return tensor
    module = type(array).__module__.partition(".")[0]
    if module == "cupy":
        return importlib.import_module("cupy").from_dlpack(tensor)
    return tensor.numpy() if tensor.ndim else tensor.numpy()[()]


@overload
def fuse(function: Callable[..., Any]) -> Fused: ...
@overload
def fuse(
    *, budget_s: float = ..., when_called: bool = ..., device: str = ...
) -> Callable[[Callable[..., Any]], Fused]: ...
def fuse(
    function: Callable[..., Any] | None = None, *, budget_s: float = 20.0, when_called: bool = True, device: str = "cpu"
) -> Any:
    """Returns a NumPy function that runs as one verified kernel where that is faster, and in NumPy elsewhere.

    The first call with a new signature optimises, which takes a few minutes; what was found is kept on the disk.

    Args:
        function: of arrays.
        budget_s: seconds of searching for each signature; the judge's preparation comes on top.
        when_called: False optimises in `prepare(*arrays)` only, never in a call.
        device: cpu or cuda.
    """
    if function is not None:
        return Fused(function, budget_s=budget_s, when_called=when_called, device=device)
    return lambda given: Fused(given, budget_s=budget_s, when_called=when_called, device=device)
