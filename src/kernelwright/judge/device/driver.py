"""The CUDA driver, as much of it as the device judge uses; every result that is no success becomes a DeviceFault.

Over cuda.bindings (13.x). Handles stay the bindings' own objects. Not here: what is launched and why.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import time
from collections.abc import Sequence
from typing import Any

from cuda.bindings import driver as cuda
from cuda.bindings import nvrtc

from kernelwright.errors import KernelwrightError
from kernelwright.judge.device.faults import fault_of, hang
from kernelwright.judge.device.limits import DeviceLimits, Geometry, KernelFacts
from kernelwright.judge.device.packing import TENSOR_MAP_BYTES, TensorMapCall

SPIN_S = 0.002
"""How long a wait looks without sleeping: most blocks end within it."""
NAP_S = 0.0002
PREFIX = "CU_DEVICE_ATTRIBUTE_"


def call(during: str, answer: tuple[Any, ...]) -> Any:
    """Returns what a driver call gave besides its result.

    Raises:
        DeviceFault: when the result is not CUDA_SUCCESS.
    """
    result, *rest = answer
    if result != cuda.CUresult.CUDA_SUCCESS:
        raise fault_of(result.name, during)
    return rest[0] if len(rest) == 1 else tuple(rest)


def attribute(name: str, device: Any) -> int:
    """Returns one attribute of a device, by its name without the prefix."""
    key = getattr(cuda.CUdevice_attribute, PREFIX + name)
    return int(call(f"asking for {name}", cuda.cuDeviceGetAttribute(key, device)))


def limits_of(ordinal: int) -> DeviceLimits:
    """Returns what the driver says of a device."""
    device = call("choosing the device", cuda.cuDeviceGet(ordinal))
    name = call("naming the device", cuda.cuDeviceGetName(128, device))
    major, minor = (attribute(f"COMPUTE_CAPABILITY_{part}", device) for part in ("MAJOR", "MINOR"))
    block = tuple(attribute(f"MAX_BLOCK_DIM_{axis}", device) for axis in "XYZ")
    grid = tuple(attribute(f"MAX_GRID_DIM_{axis}", device) for axis in "XYZ")
    return DeviceLimits(
        name=name.decode().strip("\0 ") if isinstance(name, bytes) else str(name),
        architecture=10 * major + minor,
        multiprocessors=attribute("MULTIPROCESSOR_COUNT", device),
        threads_per_block=attribute("MAX_THREADS_PER_BLOCK", device),
        block=(block[0], block[1], block[2]),
        grid=(grid[0], grid[1], grid[2]),
        shared_bytes=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", device),
        cache_bytes=attribute("L2_CACHE_SIZE", device),
        memory_bytes=int(call("asking for memory", cuda.cuDeviceTotalMem(device))),
        cooperative=bool(attribute("COOPERATIVE_LAUNCH", device)),
        address=call("asking for the PCI address", cuda.cuDeviceGetPCIBusId(16, device)).decode().strip("\0 "),
    )


def bind(ordinal: int) -> int:
    """Makes a device's primary context, which is that of the CUDA runtime and of torch, current for this thread.

    Returns its handle.
    """
    primary = _primary(ordinal)
    if int(call("asking for the context", cuda.cuCtxGetCurrent())) != int(primary):
        call("taking the context", cuda.cuCtxSetCurrent(primary))
    return int(primary)


@functools.cache
def _primary(ordinal: int) -> Any:
    device = call("choosing the device", cuda.cuDeviceGet(ordinal))
    return call("taking the device's context", cuda.cuDevicePrimaryCtxRetain(device))


def driver_version() -> int:
    """Returns the newest CUDA version that the driver knows: 13000 for 13.0."""
    return int(call("asking for the driver", cuda.cuDriverGetVersion()))


# ------------------------------------------------------------------------------ modules and kernels


def load_module(blob: bytes) -> Any:
    """Returns a loaded cubin."""
    return call("loading the cubin", cuda.cuModuleLoadData(blob))


def unload_module(module: Any) -> None:
    """Gives a module's memory back; harmless after a fault."""
    with contextlib.suppress(Exception):
        cuda.cuModuleUnload(module)


def kernel_of(module: Any, symbol: str) -> tuple[Any, KernelFacts]:
    """Returns a kernel of a module with what the driver says of it."""
    function = call(f"looking for kernel {symbol!r}", cuda.cuModuleGetFunction(module, symbol.encode()))
    return function, KernelFacts(
        symbol=symbol,
        threads_per_block=_fact("MAX_THREADS_PER_BLOCK", function),
        registers=_fact("NUM_REGS", function),
        shared_bytes=_fact("SHARED_SIZE_BYTES", function),
        local_bytes=_fact("LOCAL_SIZE_BYTES", function),
        parameters=_parameter_sizes(function),
        cluster_must_be_set=bool(_fact("CLUSTER_SIZE_MUST_BE_SET", function)),
        required_cluster=(
            _fact("REQUIRED_CLUSTER_WIDTH", function),
            _fact("REQUIRED_CLUSTER_HEIGHT", function),
            _fact("REQUIRED_CLUSTER_DEPTH", function),
        ),
    )


def _fact(name: str, function: Any) -> int:
    key = getattr(cuda.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
    return int(call(f"asking for {name}", cuda.cuFuncGetAttribute(key, function)))


def _parameter_sizes(function: Any) -> tuple[int, ...]:
    sizes: list[int] = []
    while True:
        # The driver answers CUDA_ERROR_INVALID_VALUE behind the last parameter.
        result, *rest = cuda.cuFuncGetParamInfo(function, len(sizes))
        if result != cuda.CUresult.CUDA_SUCCESS:
            return tuple(sizes)
        sizes.append(int(rest[1]))


def allow(function: Any, geometry: Geometry) -> None:
    """Sets what a kernel needs before it may be launched so: shared memory beyond 48 KiB, clusters beyond 8 blocks."""
    keys = cuda.CUfunction_attribute
    wanted = [(keys.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, geometry.shared_bytes)]
    if geometry.cluster_blocks > 8:
        wanted.append((keys.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1))
    for key, number in wanted:
        call(f"setting {key.name}", cuda.cuFuncSetAttribute(function, key, number))


def configuration(geometry: Geometry, stream: int) -> Any:
    """Returns a launch configuration with its attributes."""
    config = cuda.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = geometry.grid
    config.blockDimX, config.blockDimY, config.blockDimZ = geometry.block
    config.sharedMemBytes = geometry.shared_bytes
    config.hStream = cuda.CUstream(stream)
    ids, attributes = cuda.CUlaunchAttributeID, []
    if geometry.cluster_blocks > 1:
        made = cuda.CUlaunchAttribute()
        made.id = ids.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        made.value.clusterDim.x, made.value.clusterDim.y, made.value.clusterDim.z = geometry.cluster
        attributes.append(made)
    if geometry.cooperative:
        made = cuda.CUlaunchAttribute()
        made.id = ids.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        made.value.cooperative = 1
        attributes.append(made)
    if geometry.programmatic:
        made = cuda.CUlaunchAttribute()
        made.id = ids.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        made.value.programmaticStreamSerializationAllowed = 1
        attributes.append(made)
    config.attrs = attributes
    config.numAttrs = len(attributes)
    return config


def resident_blocks(function: Any, geometry: Geometry) -> int:
    """Returns how many blocks of this launch one multiprocessor holds."""
    return int(
        call(
            "asking for occupancy",
            cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, geometry.threads, geometry.shared_bytes),
        )
    )


def resident_clusters(function: Any, config: Any) -> int:
    """Returns how many clusters of this launch the device holds at once."""
    return int(call("asking for cluster occupancy", cuda.cuOccupancyMaxActiveClusters(function, config)))


class Parameters:
    """A kernel's parameters in host memory, with the array of pointers that a launch takes."""

    def __init__(self, packed: Sequence[bytes]) -> None:
        self._buffers = [ctypes.create_string_buffer(data, len(data)) for data in packed]
        self._array = (ctypes.c_void_p * max(1, len(packed)))(*(ctypes.addressof(b) for b in self._buffers))
        self.address = ctypes.addressof(self._array) if packed else 0


def launch(config: Any, function: Any, parameters: Parameters, symbol: str) -> None:
    """Enqueues a kernel."""
    (result,) = cuda.cuLaunchKernelEx(config, function, parameters.address, 0)
    if result != cuda.CUresult.CUDA_SUCCESS:
        raise fault_of(result.name, f"launching {symbol!r}")


def fill(address: int, size: int, byte: int, stream: int) -> None:
    """Enqueues a memset."""
    if size:
        call("a memset", cuda.cuMemsetD8Async(cuda.CUdeviceptr(address), byte, size, cuda.CUstream(stream)))


def tensor_map(wanted: TensorMapCall, name: str) -> bytes:
    """Returns an encoded tensor map.

    Raises:
        DeviceFault: when the driver refuses it (alignment, box, strides, swizzle).
    """
    # Not through the bindings: the driver wants the result at a multiple of 64, which their object is not.
    storage = ctypes.create_string_buffer(TENSOR_MAP_BYTES + 64)
    aligned = -(-ctypes.addressof(storage) // 64) * 64
    rank = len(wanted.shape)
    dtype, swizzle, promotion, fill = map_kinds(wanted)
    result = _encoder()(
        ctypes.c_void_p(aligned),
        dtype,
        ctypes.c_uint32(rank),
        ctypes.c_void_p(wanted.address),
        (ctypes.c_uint64 * rank)(*wanted.shape),
        (ctypes.c_uint64 * rank)(*wanted.strides_bytes),
        (ctypes.c_uint32 * rank)(*wanted.box),
        (ctypes.c_uint32 * rank)(*wanted.element_strides),
        int(cuda.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE),
        swizzle,
        promotion,
        fill,
    )
    if result:
        raise fault_of(cuda.CUresult(result).name, f"encoding tensor map {name!r}")
    return ctypes.string_at(aligned, TENSOR_MAP_BYTES)


def map_kinds(wanted: TensorMapCall) -> tuple[int, int, int, int]:
    """Returns the driver's numbers of a tensor map's type, swizzle, promotion to the level-2 cache, and fill."""
    return (
        int(getattr(cuda.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{wanted.dtype}")),
        int(getattr(cuda.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{wanted.swizzle}")),
        int(getattr(cuda.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_{wanted.l2_promotion}")),
        int(getattr(cuda.CUtensorMapFloatOOBfill, f"CU_TENSOR_MAP_FLOAT_OOB_FILL_{wanted.fill}")),
    )


@functools.cache
def _encoder() -> Any:
    return ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled


# ------------------------------------------------------------------------------ events


class Stopwatch:
    """Two events in a stream."""

    def __init__(self, stream: int) -> None:
        self._stream = cuda.CUstream(stream)
        self._start, self._end = (call("making an event", cuda.cuEventCreate(0)) for _ in range(2))

    def start(self) -> None:
        """Enqueues the first event."""
        call("recording an event", cuda.cuEventRecord(self._start, self._stream))

    def stop(self) -> None:
        """Enqueues the second event."""
        call("recording an event", cuda.cuEventRecord(self._end, self._stream))

    def wait(self, *, deadline_s: float, during: str) -> None:
        """Waits for the second event.

        Raises:
            DeviceFault: when the device reports a fault, or is still busy at the deadline.
        """
        begun = time.monotonic()
        while True:
            (result,) = cuda.cuEventQuery(self._end)
            if result == cuda.CUresult.CUDA_SUCCESS:
                return
            if result != cuda.CUresult.CUDA_ERROR_NOT_READY:
                raise fault_of(result.name, during)
            waited = time.monotonic() - begun
            if waited > deadline_s:
                raise hang(during, deadline_s)
            if waited > SPIN_S:
                time.sleep(NAP_S)

    def elapsed_us(self) -> float:
        """Returns the microseconds between the events."""
        return 1000.0 * float(call("reading the events", cuda.cuEventElapsedTime(self._start, self._end)))


# ------------------------------------------------------------------------------ our own kernels


def compiler_version() -> str:
    """Returns NVRTC's version, 13.0."""
    result, major, minor = nvrtc.nvrtcVersion()
    return f"{major}.{minor}" if result == nvrtc.nvrtcResult.NVRTC_SUCCESS else "unknown"


def compile_own(source: str, architecture: int) -> bytes:
    """Returns the cubin of CUDA C++ of our own.

    Raises:
        KernelwrightError: when NVRTC is missing or refuses it.
    """

    def ask(answer: tuple[Any, ...]) -> Any:
        result, *rest = answer
        if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise KernelwrightError(
                f"the judge's own kernels cannot be compiled: {result.name}", "check the NVRTC installation"
            )
        return rest[0] if rest else None

    program = ask(nvrtc.nvrtcCreateProgram(source.encode(), b"kernelwright.cu", 0, [], []))
    options = [f"--gpu-architecture=sm_{architecture}".encode(), b"-std=c++17"]
    ask(nvrtc.nvrtcCompileProgram(program, len(options), options))
    size = ask(nvrtc.nvrtcGetCUBINSize(program))
    cubin: bytes = b" " * int(size)
    ask(nvrtc.nvrtcGetCUBIN(program, cubin))
    nvrtc.nvrtcDestroyProgram(program)
    return cubin
