"""Launch plans for a GPU: whether one can be right for its problem and its architecture.

A wrong plan is refused by name before anything is compiled or touches a device; what depends on the compiled code
(static shared memory, registers, the parameters' sizes) is refused after the build, by `check_resources`.
Not here: plans for the CPU (plan.py), tensor maps (tensor_maps.py), what an expression is worth (sizes.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kernelwright import sizes
from kernelwright.languages import cubin, devices, library_steps, tensor_maps
from kernelwright.languages.devices import Device
from kernelwright.languages.plan import (
    ELEMENT_BYTES,
    INTEGER_RANGES,
    is_identifier,
    scalar_fault,
    workspace_fault,
)
from kernelwright.types import Axis, Binding, Candidate, Failure, Launch, Problem, Step, Target, TensorSpec

CTYPES = {
    "float32": "float", "float64": "double", "int64": "int64_t", "int32": "int32_t", "int16": "int16_t",
    "uint8": "uint8_t", "int8": "int8_t", "bool": "bool", "float16": "__half", "bfloat16": "__nv_bfloat16",
    "float8_e4m3fn": "__nv_fp8_e4m3", "float8_e5m2": "__nv_fp8_e5m2",
}  # fmt: skip
"""The C type of one element on the device, by dtype."""
DEVICE_BYTES = {**ELEMENT_BYTES, "__half": 2, "__nv_bfloat16": 2, "__nv_fp8_e4m3": 1, "__nv_fp8_e5m2": 1}
"""Bytes of everything that a pointer may point to or a scalar may be."""
POINTER_BYTES, TENSOR_MAP_BYTES = 8, 128
TENSOR_MAP_CTYPE = "CUtensorMap"
LIBRARY_ROUTINES = ("matmul", "addmm", "convolution", "tuned_convolution", "fft")
"""Vendor routines that a step may call by name."""
LIBRARY_OPTION_LIMIT = 64
MOST_STEPS = 1024
MOST_ARGUMENTS_BYTES = 4096


def check_device_plan(problem: Problem, candidate: Candidate, target: Target) -> Failure | None:
    """Returns what is wrong with a device plan, None where nothing is.

    **Covers**: names and C types of tensors, workspaces, scalars, axes and tensor maps; kernels' launch geometry
    against the architecture's limits, at the axes' nominal, smallest and largest sizes; clusters that divide the
    grid; dynamic shared memory; memsets; names of library steps, and the arguments of some (library_steps.py);
    workspaces that nothing uses; outputs that nothing
    can write.
    **Does not cover**: what only the compiled code tells (`check_resources`), and whether all blocks of a
    cooperative launch fit at once, which the device says.
    """
    device = devices.find(target.architecture)
    if device is None:
        known = devices.known()
        message = f"the target's architecture {target.architecture!r} is not known; known are {known}"
        return Failure(stage="plan", kind="architecture", message=message)
    message = (
        _problem_fault(problem, candidate)
        or workspace_fault(problem, candidate.plan.workspaces)
        or tensor_maps.fault(problem, candidate.plan, device)
        or _steps_fault(problem, candidate, device)
        or _coverage_fault(problem, candidate)
    )
    return Failure(stage="plan", kind="plan", message=message) if message else None


def axis_values(problem: Problem) -> Iterator[Mapping[str, int]]:
    """Yields the sizes at which plans are checked: the axes' own, then all at their smallest, all at their largest."""
    yield {axis.name: axis.size for axis in problem.axes}
    if problem.axes:
        yield {axis.name: axis.low for axis in problem.axes}
        yield {axis.name: axis.high for axis in problem.axes}


def _problem_fault(problem: Problem, candidate: Candidate) -> str:
    for tensor in problem.arguments:
        if tensor.dtype not in CTYPES:
            return f"tensor {tensor.name!r} is {tensor.dtype}, which kernels cannot take; they take {', '.join(CTYPES)}"
    if not candidate.plan.steps:
        return "the plan has no steps; it needs at least one kernel call"
    if len(candidate.plan.steps) > MOST_STEPS:
        return f"the plan has {len(candidate.plan.steps)} steps; {MOST_STEPS} are possible"
    return ""


def _steps_fault(problem: Problem, candidate: Candidate, device: Device) -> str:
    for number, step in enumerate(candidate.plan.steps, start=1):
        kind: str = step.kind  # what arrives from another process is not held to the annotation
        where = f"step {number} {step.symbol!r}" if step.symbol else f"step {number}"
        if kind not in ("kernel", "memset", "library"):
            return f"{where} has the unknown kind {kind!r}; known are kernel, memset, library"
        for binding in step.arguments:
            if fault := _binding_fault(problem, candidate, binding):
                return f"{where}: argument {binding.name!r} {fault}"
        check = {"kernel": _kernel_fault, "memset": _memset_fault, "library": _library_fault}[kind]
        if fault := check(problem, step, device) or (
            library_steps.fault(problem, candidate, step) if kind == "library" else ""
        ):
            return f"{where}: {fault}"
    return ""


def _kernel_fault(problem: Problem, step: Step, device: Device) -> str:
    if not is_identifier(step.symbol):
        return "the symbol is no C identifier"
    if step.launch is None:
        return "a kernel on a device needs a launch: its grid and block"
    for axes in axis_values(problem):
        if fault := launch_fault(step.launch, axes, device):
            return fault
    return ""


def launch_fault(launch: Launch, axes: Mapping[str, int], device: Device) -> str:
    """Returns why a launch is impossible on an architecture at some sizes, empty where it is possible."""
    if fault := _block_fault(launch, device):
        return fault
    at = f" at {', '.join(f'{name}={size}' for name, size in axes.items())}" if axes else ""
    for axis, size, cluster, largest in zip("xyz", launch.grid, launch.cluster, devices.LARGEST_GRID, strict=True):
        try:
            blocks = sizes.evaluate(size, axes)
        except ValueError as error:
            return f"grid.{axis}: {error}"
        if not 1 <= blocks <= largest:
            return f"grid.{axis} is {blocks}{at}; 1 to {largest} blocks are possible"
        if blocks % cluster:
            return f"grid.{axis} is {blocks}{at}, no multiple of the cluster's {cluster}"
    return ""


def _block_fault(launch: Launch, device: Device) -> str:
    given: tuple[tuple[str, tuple[object, ...]], ...] = (("block", launch.block), ("cluster", launch.cluster))
    for what, shape in given:
        if len(shape) != 3 or not all(_is_whole(size) and int(str(size)) >= 1 for size in shape):
            return f"{what} is {shape!r}; it needs three whole numbers from 1"
    grid: tuple[object, ...] = launch.grid
    if len(grid) != 3:
        return f"grid is {grid!r}; it needs three sizes"
    for axis, size, largest in zip("xyz", launch.block, devices.LARGEST_BLOCK, strict=True):
        if size > largest:
            return f"block.{axis} is {size}; up to {largest} are possible"
    threads, blocks = _product(launch.block), _product(launch.cluster)
    if threads > devices.MOST_THREADS:
        return f"the block has {threads} threads; up to {devices.MOST_THREADS} are possible"
    if (blocks > 1 or launch.programmatic) and not device.clusters:
        what = "clusters" if blocks > 1 else "programmatic launches"
        return f"{device.architecture} has no {what}; they came with sm_90"
    if blocks > devices.MOST_CLUSTER:
        return f"the cluster has {blocks} blocks; up to {devices.MOST_CLUSTER} are possible"
    if not _is_whole(launch.shared_bytes) or launch.shared_bytes < 0:
        return f"shared_bytes is {launch.shared_bytes!r}; it needs a whole number from 0"
    if launch.shared_bytes > device.shared_block_bytes:
        most = f"{device.shared_block_bytes} are possible on {device.architecture}"
        return f"it asks for {launch.shared_bytes} bytes of dynamic shared memory; up to {most}"
    if launch.cooperative and launch.programmatic:
        return "a launch is cooperative or programmatic, not both"
    return ""


def _memset_fault(problem: Problem, step: Step, device: Device) -> str:
    del device
    if len(step.arguments) != 1 or step.arguments[0].kind not in ("tensor", "workspace"):
        return "a memset has one argument, a tensor or a workspace"
    target = step.arguments[0]
    if target.name in {tensor.name for tensor in problem.inputs + problem.parameters}:
        return f"a memset of {target.name!r} would write an input"
    if target.ctype.startswith("const "):
        return f"a memset writes {target.name!r}, so it cannot be const"
    if not _is_whole(step.byte) or not 0 <= step.byte <= 255:
        return f"a memset's byte is {step.byte!r}; it needs a whole number from 0 to 255"
    return "" if step.launch is None else "a memset has no launch"


def _library_fault(problem: Problem, step: Step, device: Device) -> str:
    del problem, device
    if step.symbol not in LIBRARY_ROUTINES:
        return f"there is no library routine of that name; known are {', '.join(LIBRARY_ROUTINES)}"
    if len(step.options) > LIBRARY_OPTION_LIMIT:
        return f"{len(step.options)} options; {LIBRARY_OPTION_LIMIT} are possible"
    return "" if step.launch is None else "a library call has no launch"


def _binding_fault(problem: Problem, candidate: Candidate, binding: Binding) -> str:
    kind: str = binding.kind
    if kind == "scalar":
        return scalar_fault(binding)
    if binding.scalar is not None:
        return f"is a {kind} and cannot carry the value {binding.scalar!r}"
    if kind == "tensor":
        return _tensor_fault({tensor.name: tensor for tensor in problem.arguments}, binding)
    if kind == "workspace":
        axes = {axis.name: axis.size for axis in problem.axes}
        room = {w.name: sizes.evaluate(w.size_bytes, axes) for w in candidate.plan.workspaces}
        return _workspace_binding_fault(room, binding)
    if kind == "axis":
        return _axis_fault({axis.name: axis for axis in problem.axes}, binding)
    if kind == "tensor_map":
        names = [tensor_map.name for tensor_map in candidate.plan.tensor_maps]
        if binding.name not in names:
            return f"is no tensor map of the plan; it has {', '.join(names) or 'none'}"
        right = binding.ctype == TENSOR_MAP_CTYPE
        return "" if right else f"has the C type {binding.ctype!r}; a tensor map is a {TENSOR_MAP_CTYPE}"
    return f"has the unknown kind {kind!r}; known are tensor, workspace, scalar, axis, tensor_map"


def _tensor_fault(tensors: Mapping[str, TensorSpec], binding: Binding) -> str:
    tensor = tensors.get(binding.name)
    if tensor is None:
        return f"is no tensor of the problem; it has {', '.join(tensors)}"
    element = CTYPES[tensor.dtype]
    wrong = binding.ctype.removeprefix("const ") != element
    return f"has the C type {binding.ctype!r}, but {tensor.name} is {tensor.dtype}: {element}" if wrong else ""


def _workspace_binding_fault(space_bytes: Mapping[str, int], binding: Binding) -> str:
    if binding.name not in space_bytes:
        return f"is no workspace of the plan; it has {', '.join(space_bytes) or 'none'}"
    element = binding.ctype.removeprefix("const ")
    if element not in DEVICE_BYTES:
        return f"has the C type {binding.ctype!r}; a workspace can be of {', '.join(DEVICE_BYTES)}"
    if space_bytes[binding.name] < DEVICE_BYTES[element]:
        return f"is a workspace of {space_bytes[binding.name]} bytes, too small for one {element}"
    return ""


def _axis_fault(axes: Mapping[str, Axis], binding: Binding) -> str:
    """An axis by name, or an expression over axes: strides that a compiler wants as arguments are such."""
    if binding.ctype not in INTEGER_RANGES:
        return f"has the C type {binding.ctype!r}; an axis can be {', '.join(INTEGER_RANGES)}"
    if binding.name.isidentifier() and binding.name not in axes:
        return f"is no axis of the problem; it has {', '.join(axes) or 'none'}"
    low, high = INTEGER_RANGES[binding.ctype]
    for known in ({a.name: a.low for a in axes.values()}, {a.name: a.high for a in axes.values()}):
        try:
            found = sizes.evaluate(binding.name, known)
        except ValueError as error:
            return f"cannot be evaluated: {error}"
        if not low <= found <= high:
            return f"can be {found}, out of range of {binding.ctype} ({low} to {high})"
    return ""


def _coverage_fault(problem: Problem, candidate: Candidate) -> str:
    """Outputs that nothing can write, workspaces and tensor maps that nothing uses."""
    plan = candidate.plan
    bound = [binding for step in plan.steps for binding in step.arguments]
    maps = {tensor_map.name: tensor_map.of for tensor_map in plan.tensor_maps}
    used = {binding.name for binding in bound} | {maps[b.name] for b in bound if b.kind == "tensor_map"}
    for output in problem.outputs:
        direct = [b for b in bound if b.kind == "tensor" and b.name == output.name]
        mapped = any(b.kind == "tensor_map" and maps[b.name] == output.name for b in bound)
        if not mapped and not any(not binding.ctype.startswith("const ") for binding in direct):
            how = "only bound as const" if direct else "bound by no step"
            return f"output {output.name!r} is {how}, so nothing can write it; bind it as {CTYPES[output.dtype]}*"
    for name in (*(w.name for w in plan.workspaces), *maps):
        if name not in used:
            what = "tensor map" if name in maps else "workspace"
            return f"{what} {name!r} is used by no step; bind it or leave it out"
    return ""


# ------------------------------------------------------------------- with the compiled code


def parameter_bytes(binding: Binding) -> int:
    """Returns the size of a kernel's parameter for a binding."""
    if binding.kind in ("tensor", "workspace"):
        return POINTER_BYTES
    return TENSOR_MAP_BYTES if binding.kind == "tensor_map" else DEVICE_BYTES[binding.ctype]


def check_resources(candidate: Candidate, built: cubin.Cubin, target: Target) -> Failure | None:
    """Returns what of a plan the compiled code cannot be launched with, None where nothing is.

    **Covers**: kernels that are missing; the number and the sizes of parameters against the cubin's own table;
    static and dynamic shared memory together; registers of a whole block; the block and cluster shapes that the
    code was compiled for.
    **Does not cover**: the parameters' types beyond their size (the compiler checks those for CUDA C++).
    """
    device = devices.find(target.architecture)
    assert device is not None  # check_device_plan has passed
    for number, step in enumerate(candidate.plan.steps, start=1):
        if step.kind != "kernel":
            continue
        kernel, where = built.kernel(step.symbol), f"step {number} {step.symbol!r}"
        if kernel is None:
            there = ", ".join(kernel.symbol for kernel in built.kernels) or "none"
            message = f'{where}: the code has no such kernel; it has {there} (is extern "C" missing?)'
            return Failure(stage="build", kind="symbol", message=message)
        if fault := _parameters_fault(step, kernel):
            return Failure(stage="build", kind="type", message=f"{where}: {fault}")
        if step.launch and (fault := _shape_fault(step.launch, kernel, device)):
            return Failure(stage="build", kind="resources", message=f"{where}: {fault}")
    return None


def _parameters_fault(step: Step, kernel: cubin.Kernel) -> str:
    planned, compiled = len(step.arguments), len(kernel.parameters)
    if planned != compiled:
        return f"the plan gives {planned} arguments, the kernel takes {compiled}"
    for position, (binding, parameter) in enumerate(zip(step.arguments, kernel.parameters, strict=True), start=1):
        wanted = parameter_bytes(binding)
        if wanted != parameter.size_bytes:
            what = f"{binding.ctype} of {wanted} bytes" if wanted != POINTER_BYTES else f"{wanted} bytes"
            return f"argument {position} {binding.name!r} is {what} in the plan, {parameter.size_bytes} in the kernel"
    total = sum(parameter.size_bytes for parameter in kernel.parameters)
    return f"its arguments take {total} bytes; {MOST_ARGUMENTS_BYTES} are possible" if total > 4096 else ""


def _shape_fault(launch: Launch, kernel: cubin.Kernel, device: Device) -> str:
    shared, threads = kernel.shared_bytes + launch.shared_bytes, _product(launch.block)
    if shared > device.shared_block_bytes:
        parts = f"{kernel.shared_bytes} static and {launch.shared_bytes} dynamic bytes of shared memory"
        return f"{parts} are {shared}; {device.shared_block_bytes} are possible on {device.architecture}"
    if kernel.max_threads and threads > kernel.max_threads:
        return f"the block has {threads} threads, but the kernel was compiled for up to {kernel.max_threads}"
    if kernel.required_block and tuple(launch.block) != kernel.required_block:
        return f"the block is {launch.block}, but the kernel was compiled for {kernel.required_block}"
    if kernel.cluster and tuple(launch.cluster) != kernel.cluster:
        return f"the cluster is {launch.cluster}, but the kernel was compiled for {kernel.cluster}"
    warps = -(-threads // devices.WARP)
    per_warp = -(-kernel.registers * devices.WARP // device.register_unit) * device.register_unit
    if warps * per_warp > device.registers:
        have = f"a multiprocessor has {device.registers}; use __launch_bounds__({threads}) or a smaller block"
        return f"{threads} threads of {kernel.registers} registers need {warps * per_warp}; {have}"
    return ""


def _product(shape: tuple[int, int, int]) -> int:
    return shape[0] * shape[1] * shape[2]


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)
