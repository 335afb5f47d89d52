"""The compiled launcher (launcher.cpp): building it once, and what it is told of a kernel.

It is an extension module for exactly this torch and this Python, in environment.home()/launchers. Where it is not
there, or a plan has something that it does not do, the Python path (operator.py, running.py) runs instead.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from kernelwright import environment
from kernelwright.deploy import Shadow
from kernelwright.deploy.bundle import BundledKernel
from kernelwright.errors import MissingTool
from kernelwright.reference_program import DTYPES
from kernelwright.sizes import evaluate
from kernelwright.types import LaunchPlan, Step, TensorMap, TensorSpec

NAME = "kernelwright_launcher"
SOURCE = Path(__file__).with_name("launcher.cpp")
LIBRARIES = ("-lc10", "-ltorch_cpu", "-ltorch_python")
DEADLINE_S = 600.0
SCALARS = {
    "uint8": 0, "int8": 1, "int16": 2, "int32": 3, "int64": 4, "float16": 5, "float32": 6, "float64": 7, "bool": 11,
    "bfloat16": 15,
}  # fmt: skip
"""c10::ScalarType's numbers, which torch keeps for its files' sake."""


class Compiled(NamedTuple):
    """A kernel in the compiled launcher."""

    launch: Callable[..., Any]
    turn_off: Callable[[], None]
    launched: Callable[[], int]
    join: Callable[[Any], None]
    """Takes the `launch` of the same operator's kernel on another device."""
    attach: Callable[[str, str, str, bool, Callable[..., Any], Callable[..., Any]], None]
    """Makes it what an operator of torch does: namespace, operator, dispatch key, whether gradients may be needed
    there, what is called for a miss, and for a call that is due for a check."""


def place() -> Path:
    """Returns where the module for this torch and Python lies, whether it is there or not."""
    text = SOURCE.read_text(encoding="utf-8") if SOURCE.is_file() else ""
    parts = (text, torch.__version__, str(torch.version.git_version), sys.version, sysconfig.get_platform())
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
    return environment.home() / "launchers" / key / f"{NAME}.so"


def module(*, build: bool) -> Any:
    """Returns the extension module, None where it is not there and is not to be built.

    Raises:
        MissingTool: `build`, and there is no C++ compiler, or torch's or Python's headers are missing.
    """
    path = place()
    if not path.is_file():
        if not build:
            return None
        _build(path)
    return _loaded(str(path))


@functools.cache
def _loaded(path: str) -> Any:
    loader = importlib.machinery.ExtensionFileLoader(NAME, path)
    spec = importlib.util.spec_from_loader(NAME, loader)
    assert spec is not None
    made = importlib.util.module_from_spec(spec)
    loader.exec_module(made)
    return made


def _build(path: Path) -> None:
    compiler = environment.compiler()
    if compiler is None or not SOURCE.is_file():
        raise MissingTool("the launcher needs a C++ compiler, and there is none", "apt-get install g++")
    root = Path(torch.__file__).parent
    includes = [root / "include", root / "include/torch/csrc/api/include", Path(sysconfig.get_paths()["include"])]
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, unfinished = tempfile.mkstemp(prefix=f"{NAME}-", suffix=".so", dir=path.parent)
    os.close(descriptor)
    command = [
        compiler, "-std=c++20", "-O2", "-fPIC", "-shared", "-w", *(f"-I{folder}" for folder in includes), str(SOURCE),
        "-o", unfinished, f"-L{root / 'lib'}", *LIBRARIES,
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        if done.returncode:
            raise MissingTool(f"the launcher does not compile: {done.stderr[:1000]}", "use launcher='python'")
        os.replace(unfinished, path)  # whole or not at all, whoever builds at the same time
    finally:
        Path(unfinished).unlink(missing_ok=True)


def compiled_cpu(
    kernel: BundledKernel, shadow: Shadow, *, entry: int, set_threads: int, build: bool
) -> Compiled | None:
    """Returns a CPU kernel in the compiled launcher, None where that is not there or cannot do its plan."""
    data = _forms(kernel, shadow)
    extension = module(build=build) if data is not None else None
    if extension is None or data is None:
        return None
    data |= {
        "device": -1, "entry": entry, "set_threads": set_threads, "threads": kernel.target.threads,
        "serial": int(kernel.serial),
    }  # fmt: skip
    return Compiled(*extension.make(data))


def compiled_cuda(
    kernel: BundledKernel, shadow: Shadow, *, ordinal: int, context: int, functions: Mapping[str, int],
    geometries: Sequence[tuple[int, ...]], build: bool,
) -> Compiled | None:  # fmt: skip
    """Returns a device kernel in the compiled launcher, None where that is not there or cannot do its plan.

    Args:
        kernel: whose plan is kernels only, with fixed sizes, or None is returned.
        shadow: which calls are to be checked.
        ordinal: the device.
        context: the driver's handle of its primary context.
        functions: the driver's handles by symbol.
        geometries: of each step: grid, block, cluster, shared bytes, cooperative, programmatic.
        build: build the launcher where it is not there.
    """
    plan, problem = kernel.artifact.plan, kernel.problem
    data = _forms(kernel, shadow)
    if data is None or problem.axes or any(step.kind != "kernel" for step in plan.steps):
        return None
    extension = module(build=build)
    if extension is None:
        return None
    order = [spec.name for spec in problem.arguments] + [space.name for space in plan.workspaces]
    data |= plan_data(plan, order, ordinal=ordinal, context=context, functions=functions, geometries=geometries)
    return Compiled(*extension.make(data))


def plan_data(
    plan: LaunchPlan, order: Sequence[str], *, ordinal: int, context: int, functions: Mapping[str, int],
    geometries: Sequence[tuple[int, ...]],
) -> dict[str, Any]:  # fmt: skip
    """Returns what the launcher is told of a plan of kernels with fixed sizes: see `compiled_cuda`.

    Args:
        plan: its steps and tensor maps.
        order: names of inputs, outputs and workspaces, as the launcher numbers them.
        ordinal: the device.
        context: the driver's handle of its primary context.
        functions: the driver's handles by symbol.
        geometries: of each step.
    """
    maps = {m.name: _map_numbers(m, order) for m in plan.tensor_maps}
    steps = tuple(
        {
            "function": functions[step.symbol],
            "geometry": tuple(int(n) for n in geometry),
            "parameters": _parameters(step, order, maps),
        }
        for step, geometry in zip(plan.steps, geometries, strict=True)
    )
    driver = ctypes.CDLL("libcuda.so.1")
    encode = {"encode": address_of(driver.cuTensorMapEncodeTiled)} if maps else {}
    launch = address_of(driver.cuLaunchKernelEx)
    return {"device": ordinal, "launch": launch, **thread_data(context), **encode, "steps": steps}


def thread_data(context: int) -> dict[str, int]:
    """Returns what the launcher asks of a calling thread: its current stream, and a context where it has none yet."""
    return {
        "current_stream": address_of(ctypes.CDLL("libtorch_cuda.so").aoti_torch_get_current_cuda_stream),
        "set_context": address_of(ctypes.CDLL("libcuda.so.1").cuCtxSetCurrent),
        "context": context,
    }


MapNumbers = tuple[int, tuple[tuple[int, ...], ...]]


def _map_numbers(given: TensorMap, order: Sequence[str]) -> MapNumbers:
    """The number of what a tensor map describes, and the driver's numbers: kinds, shape, strides, box, steps."""
    from kernelwright.judge.device import driver
    from kernelwright.judge.device.packing import tensor_map_call

    call = tensor_map_call(given, dict.fromkeys(order, 0), {})
    numbers = (driver.map_kinds(call), call.shape, call.strides_bytes, call.box, call.element_strides)
    return order.index(given.of), numbers


def _parameters(
    step: Step, order: Sequence[str], maps: Mapping[str, MapNumbers]
) -> tuple[int | bytes | MapNumbers, ...]:
    from kernelwright.judge.device.packing import TENSOR_MAP_BYTES, pack_arguments

    packed = pack_arguments(step, dict.fromkeys(order, 0), {}, dict.fromkeys(maps, bytes(TENSOR_MAP_BYTES)))
    return tuple(
        order.index(argument.name)
        if argument.kind in ("tensor", "workspace")
        else maps[argument.name]
        if argument.kind == "tensor_map"
        else data
        for argument, data in zip(step.arguments, packed, strict=True)
    )


def address_of(function: Any) -> int:
    """Returns the address of a C function, 0 for None."""
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def _forms(kernel: BundledKernel, shadow: Shadow) -> dict[str, Any] | None:
    problem, envelope = kernel.problem, kernel.envelope
    numbers = {place: i for i, axis in enumerate(problem.axes) for place in axis.places}

    def form(spec: TensorSpec) -> tuple[int, tuple[int, ...], tuple[int, ...] | None]:
        shape = (-1 - numbers[spec.name, d] if (spec.name, d) in numbers else n for d, n in enumerate(spec.shape))
        return SCALARS[spec.dtype], tuple(shape), spec.strides

    spaces = [space.size_bytes for space in kernel.artifact.plan.workspaces]
    if any(isinstance(size, str) for size in spaces) and problem.axes:
        return None
    assert set(SCALARS) == set(DTYPES)
    return {
        "inputs": tuple(form(spec) for spec in envelope.tensors),
        "outputs": tuple(form(spec) for spec in envelope.outputs),
        "spaces": tuple(evaluate(size, {}) for size in spaces),
        "axes": tuple(limit for axis in problem.axes for limit in (axis.low, axis.high)),
        "alignment": envelope.alignment_bytes,
        "first": shadow.first,
        "every": shadow.every,
    }
