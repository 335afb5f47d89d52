"""A cubin of a bundle on the caller's device and stream, through the driver.

Each device has a module of its own; each launch goes to the stream that is current for the caller, so that graphs
that capture it and work around it are ordered as with any operator of torch. Nothing here waits for the device.
**Covers**: architecture, launch limits, clusters, shared memory beyond 48 KiB, tensor maps, memsets, library calls,
workspaces. **Does not cover**: faults that the device reports later: they end the context, as any kernel's do.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch

from kernelwright.errors import UserError
from kernelwright.judge.device import driver, image, library
from kernelwright.judge.device.limits import Geometry, launch_fault, parameters_fault
from kernelwright.judge.device.packing import TENSOR_MAP_BYTES, pack_arguments, sizes, tensor_map_call
from kernelwright.types import Artifact, Problem, Step


class Loadable(Protocol):
    """What a module needs of a kernel: a bundle's, or a matrix product's."""

    @property
    def name(self) -> str:
        """What messages call it."""
        ...

    @property
    def problem(self) -> Problem:
        """Its arguments and axes."""
        ...

    @property
    def artifact(self) -> Artifact:
        """Its plan."""
        ...

    @property
    def binary(self) -> Path:
        """Its cubin."""
        ...


class Module:
    """A cubin loaded on one device.

    Raises:
        UserError: when the cubin is not for the device.
    """

    def __init__(self, kernel: Loadable, ordinal: int) -> None:
        self._kernel, self._ordinal = kernel, ordinal
        self._limits = driver.limits_of(ordinal)
        self._axes = tuple(axis.name for axis in kernel.problem.axes)
        symbols = dict.fromkeys(s.symbol for s in kernel.artifact.plan.steps if s.kind == "kernel")
        self._kernels: dict[str, Any] = {}
        self.context = 0
        if symbols:
            blob = kernel.binary.read_bytes()
            if broken := image.fault(blob, self._limits.architecture):
                raise UserError(
                    f"{kernel.name} cannot run on {self._limits.name}: {broken[1]}", "export it for this device"
                )
            with torch.cuda.device(ordinal):
                self.context = driver.bind(ordinal)
                module = driver.load_module(blob)
                self._kernels = {symbol: driver.kernel_of(module, symbol) for symbol in symbols}
        self._allowed: set[tuple[int, Geometry]] = set()
        self._lock = threading.Lock()

    def call(self, tensors: Sequence[torch.Tensor], spaces: Mapping[str, torch.Tensor], axes: Sequence[int]) -> None:
        """Enqueues the plan once on the current stream.

        Args:
            tensors: the problem's arguments, in order.
            spaces: the plan's workspaces by name.
            axes: sizes of the problem's axes, in order.

        Raises:
            DeviceFault: when a launch is refused.
        """
        named = dict(zip(self._axes, axes, strict=True))
        views = {spec.name: t for spec, t in zip(self._kernel.problem.arguments, tensors, strict=True)} | dict(spaces)
        addresses = {name: view.data_ptr() for name, view in views.items()}
        plan = self._kernel.artifact.plan
        stream = int(torch.cuda.current_stream(self._ordinal).cuda_stream)
        with torch.cuda.device(self._ordinal):
            driver.bind(self._ordinal)  # a thread that has asked the device for nothing yet has no context
            maps = {m.name: driver.tensor_map(tensor_map_call(m, addresses, named), m.name) for m in plan.tensor_maps}
            for number, step in enumerate(plan.steps):
                if step.kind == "memset":
                    view = views[step.arguments[0].name]
                    size = view.numel() * view.element_size()
                    driver.fill(addresses[step.arguments[0].name], size, step.byte, stream)
                elif step.kind == "library":
                    library.call_of(step, views)()
                else:
                    self._launch(number, step, pack_arguments(step, addresses, named, maps), named, stream)

    def fixed_launches(self) -> tuple[dict[str, int], tuple[tuple[int, ...], ...]] | None:
        """Returns the driver's handles by symbol, and each step's launch as numbers, checked as calls check them.

        None for a plan that is more than kernels with fixed sizes.
        """
        plan = self._kernel.artifact.plan
        if self._axes or any(step.kind != "kernel" for step in plan.steps):
            return None
        found = []
        names = [spec.name for spec in self._kernel.problem.arguments] + [space.name for space in plan.workspaces]
        for number, step in enumerate(plan.steps):
            geometry = geometry_of(step, {}, first=number == 0)
            with torch.cuda.device(self._ordinal):
                driver.bind(self._ordinal)
                maps = {m.name: bytes(TENSOR_MAP_BYTES) for m in plan.tensor_maps}
                self._allow(number, step, geometry, pack_arguments(step, dict.fromkeys(names, 0), {}, maps))
            flags = int(geometry.cooperative), int(geometry.programmatic)
            found.append((*geometry.grid, *geometry.block, *geometry.cluster, geometry.shared_bytes, *flags))
        return {symbol: int(function) for symbol, (function, _) in self._kernels.items()}, tuple(found)

    def _launch(self, number: int, step: Step, packed: tuple[bytes, ...], axes: Mapping[str, int], stream: int) -> None:
        geometry = geometry_of(step, axes, first=number == 0)
        self._allow(number, step, geometry, packed)
        function = self._kernels[step.symbol][0]
        driver.launch(driver.configuration(geometry, stream), function, driver.Parameters(packed), step.symbol)

    def _allow(self, number: int, step: Step, geometry: Geometry, packed: tuple[bytes, ...]) -> None:
        """Holds a launch against device and kernel, once for each geometry."""
        if (number, geometry) in self._allowed:
            return
        function, facts = self._kernels[step.symbol]
        fault = parameters_fault(step.symbol, packed, facts.parameters) or launch_fault(geometry, facts, self._limits)
        if fault:
            raise UserError(f"{step.symbol}: {fault}", "export it again")
        with self._lock:
            driver.allow(function, geometry)
            self._allowed.add((number, geometry))


def geometry_of(step: Step, axes: Mapping[str, int], *, first: bool) -> Geometry:
    """Returns a step's launch with its sizes evaluated; a plan's first step never starts early."""
    launch = step.launch
    if launch is None:
        raise UserError(f"{step.symbol!r} has no launch", "export it again")
    x, y, z = sizes(launch.grid, axes, f"the grid of {step.symbol!r}")
    programmatic = launch.programmatic and not first
    return Geometry((x, y, z), launch.block, launch.cluster, launch.shared_bytes, launch.cooperative, programmatic)
