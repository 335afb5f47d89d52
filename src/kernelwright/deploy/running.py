"""The kernels of one problem on this machine: which of them can run where, outputs and workspaces, checked calls.

What cannot be loaded here is remembered with its reason and not tried again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernelwright.deploy import Launcher, Shadow
from kernelwright.deploy.bundle import BundledKernel
from kernelwright.deploy.launcher import Compiled, address_of, compiled_cpu, compiled_cuda
from kernelwright.deploy.trust import Watch
from kernelwright.errors import KernelwrightError, MissingTool
from kernelwright.reference_program import DTYPES
from kernelwright.sizes import evaluate

Runner = Callable[[Sequence[torch.Tensor], Sequence[int]], "tuple[torch.Tensor, ...]"]


class Running:
    """Runs the fastest kernel that this machine can run.

    Args:
        kernels: of one problem, the fastest first.
        watch: decides which calls are checked, and is told of faults.
        launcher: whether the compiled launcher is used.
    """

    def __init__(self, kernels: Sequence[BundledKernel], watch: Watch, *, launcher: Launcher) -> None:
        self._kernels, self._watch, self._launcher = tuple(kernels), watch, launcher
        self._runners: dict[tuple[str, int | None], Runner | None] = {}
        self._lock = threading.Lock()
        self.refusals: dict[str, str] = {}
        """Why a kernel cannot run here, by its name."""
        self._count = 0
        self._counting = threading.Lock()
        self._compiled: dict[str, tuple[Compiled, object]] = {}
        """By device, with what has to live as long; the first one leads to the others."""

    def launched(self) -> int:
        """Returns how often a kernel ran."""
        return self._count + sum(compiled.launched() for compiled, _ in tuple(self._compiled.values()))

    def run(
        self, tensors: Sequence[torch.Tensor], axes: Sequence[int], *, check: bool = False
    ) -> tuple[torch.Tensor, ...] | None:
        """Returns the outputs, checked where the watch (or `check`) wants it; None where no kernel can or may run."""
        device = tensors[0].device
        if (device.type, device.index) not in self._runners and _is_capturing(device):
            return None  # loading would break the capture
        runner = self._runner(device)
        if runner is None:
            return None
        try:
            outputs = runner(tensors, axes)
        except (KernelwrightError, RuntimeError) as error:
            self._watch.disable(f"it could not be launched: {error}")
            return None
        with self._counting:
            self._count += 1
        if not (check or self._watch.due()) or _is_capturing(device):
            return outputs
        if self._watch.shadow.background:
            self._watch.check_later(tensors, outputs)
            return outputs
        try:
            return self._watch.check(tensors, outputs) or outputs
        except Exception as error:  # noqa: BLE001  (the original raises what it likes)
            self._watch.disable(f"the original raised where the kernel did not: {error}")
            return None  # the original is called, and raises as it would have without us

    def _runner(self, device: torch.device) -> Runner | None:
        key = (device.type, device.index)
        if key not in self._runners:
            with self._lock:
                if key not in self._runners:
                    self._runners[key] = self._load(device)
        return self._runners[key]

    def _load(self, device: torch.device) -> Runner | None:
        for kernel in (k for k in self._kernels if k.target.kind == device.type):
            try:
                found = cpu_runner(kernel) if device.type == "cpu" else cuda_runner(kernel, device)
            except (KernelwrightError, ImportError, OSError, AttributeError) as error:
                self.refusals[kernel.name] = str(error)
                continue
            self._join(kernel, device)
            return found
        if self.refusals:
            self._watch.disable("; ".join(self.refusals.values()))
        return None

    def fast(self) -> Compiled | None:
        """Returns the compiled launcher of this problem on this machine, None where there is none.

        Its `launch` takes the operator's tensors. NotImplemented: not its call; None: the call is due for a check.

        Raises:
            MissingTool: the launcher is asked for and cannot be built.
        """
        if self._launcher == "python" or not self._kernels:
            return None
        cuda = torch.cuda.is_available()
        for kernel in (k for k in self._kernels if k.target.kind == "cpu" or cuda):
            ordinal = torch.cuda.current_device() if kernel.target.kind == "cuda" else 0
            if compiled := self._compile(kernel, torch.device(kernel.target.kind, ordinal)):
                return compiled
        return None

    def _join(self, kernel: BundledKernel, device: torch.device) -> None:
        """Gives a device that has been met now its place in the compiled launcher, where there is one."""
        place = _place(device)
        if not self._compiled or place in self._compiled:
            return
        first = next(iter(self._compiled.values()))[0]
        if made := self._compile(kernel, device):
            first.join(made.launch)

    def _compile(self, kernel: BundledKernel, device: torch.device) -> Compiled | None:
        try:
            loaded = _compiled(kernel, self._watch.shadow, device.index or 0, build=self._launcher == "compiled")
        except MissingTool:
            raise
        except (KernelwrightError, ImportError, OSError, AttributeError):
            return None  # run() finds the same, and says so
        if loaded is None:
            return None
        self._compiled[_place(device)] = loaded
        self._watch.when_off.append(loaded[0].turn_off)
        if self._watch.reason:
            loaded[0].turn_off()
        return loaded[0]


def _place(device: torch.device) -> str:
    return "cpu" if device.type == "cpu" else f"{device.type}:{device.index or 0}"


def _is_capturing(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _compiled(kernel: BundledKernel, shadow: Shadow, ordinal: int, *, build: bool) -> tuple[Compiled, object] | None:
    """Returns a kernel in the compiled launcher, with what has to live as long as it does."""
    if kernel.target.kind == "cpu":
        from kernelwright.deploy.native import Library

        library = Library(kernel)
        made = compiled_cpu(
            kernel, shadow, entry=library.address, set_threads=address_of(library.set_threads), build=build
        )
        return (made, library) if made else None
    from kernelwright.deploy.device import Module

    loaded = Module(kernel, ordinal)
    prepared = loaded.fixed_launches()
    if prepared is None:
        return None
    functions, geometries = prepared
    made = compiled_cuda(
        kernel, shadow, ordinal=ordinal, context=loaded.context, functions=functions, geometries=geometries, build=build
    )
    return (made, loaded) if made else None


def cpu_runner(kernel: BundledKernel) -> Runner:
    """Returns what runs a kernel on the CPU."""
    from kernelwright.deploy.native import Library

    library = Library(kernel)
    make = _maker(kernel)

    def run(tensors: Sequence[torch.Tensor], axes: Sequence[int]) -> tuple[torch.Tensor, ...]:
        outputs, spaces = make(axes, tensors[0])
        library.call([t.data_ptr() for t in (*tensors, *outputs, *spaces)], axes)
        return outputs

    return run


def cuda_runner(kernel: BundledKernel, device: torch.device) -> Runner:
    """Returns what runs a kernel on one CUDA device, on the current stream of whoever calls."""
    from kernelwright.deploy.device import Module

    module = Module(kernel, device.index or 0)
    make = _maker(kernel)
    names = [space.name for space in kernel.artifact.plan.workspaces]

    def run(tensors: Sequence[torch.Tensor], axes: Sequence[int]) -> tuple[torch.Tensor, ...]:
        outputs, spaces = make(axes, tensors[0])
        module.call((*tensors, *outputs), dict(zip(names, spaces, strict=True)), axes)
        return outputs

    return run


Maker = Callable[[Sequence[int], torch.Tensor], "tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]"]


def _maker(kernel: BundledKernel) -> Maker:
    """Returns what makes the outputs and workspaces of one call, for the axes' sizes and beside an input.

    Straight-line code, as in guard.py: a small call is mostly this.
    """
    problem, plan = kernel.problem, kernel.artifact.plan
    places = {(tensor, dim): f"axes[{n}]" for n, axis in enumerate(problem.axes) for tensor, dim in axis.places}
    known: dict[str, Any] = {"uint8": torch.uint8, "evaluate": evaluate, "names": [axis.name for axis in problem.axes]}
    outputs, spaces = [], []
    for number, spec in enumerate(problem.outputs):
        known[f"d{number}"] = DTYPES[spec.dtype]
        shape = "".join(f"{places.get((spec.name, d), n)}, " for d, n in enumerate(spec.shape))
        outputs.append(f"new(({shape}), dtype=d{number})")
    for space in plan.workspaces:
        size = space.size_bytes
        fixed = isinstance(size, int) or not problem.axes
        count = str(evaluate(size, {})) if fixed else f"evaluate({size!r}, dict(zip(names, axes)))"
        spaces.append(f"new(({count},), dtype=uint8)")
    lines = ["def make(axes, like):", "    new = like.new_empty"]
    lines.append(f"    return ({', '.join(outputs)},), ({''.join(f'{space}, ' for space in spaces)})")
    exec(compile("\n".join(lines), "<kernelwright outputs>", "exec"), known)
    make: Maker = known["make"]
    return make
