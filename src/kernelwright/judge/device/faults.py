"""What the driver says when a kernel went wrong, as the candidate's fault; pure.

A fault is fatal when the context cannot be used afterwards: the worker that saw it must end.
"""

from __future__ import annotations

from kernelwright.types import Failure, Stage

KINDS: dict[str, tuple[Stage, str, str, bool]] = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": ("run", "memory", "the kernel used an address that is not its own", True),
    "CUDA_ERROR_MISALIGNED_ADDRESS": ("run", "misaligned", "the kernel used a misaligned address", True),
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": ("run", "memory", "the kernel used an address in the wrong space", True),
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": ("run", "trap", "the kernel executed an illegal instruction", True),
    "CUDA_ERROR_INVALID_PC": ("run", "trap", "the kernel jumped to no instruction", True),
    "CUDA_ERROR_LAUNCH_FAILED": ("run", "trap", "the kernel trapped, or failed without a name", True),
    "CUDA_ERROR_ASSERT": ("run", "trap", "an assertion failed in the kernel", True),
    "CUDA_ERROR_HARDWARE_STACK_ERROR": ("run", "stack", "the kernel's stack overflowed", True),
    "CUDA_ERROR_LAUNCH_TIMEOUT": ("run", "timeout", "the driver ended the kernel", True),
    "CUDA_ERROR_TENSOR_MEMORY_LEAK": ("run", "memory", "the kernel did not give tensor memory back", True),
    "CUDA_ERROR_OUT_OF_MEMORY": ("run", "memory", "there is not enough device memory", False),
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": ("run", "resources", "the launch needs more than there is", False),
    "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE": ("run", "resources", "the cooperative grid does not fit", False),
    "CUDA_ERROR_INVALID_CLUSTER_SIZE": ("run", "resources", "the cluster does not fit on this device", False),
    "CUDA_ERROR_INVALID_VALUE": ("run", "launch", "the driver refused the launch", False),
    "CUDA_ERROR_NOT_SUPPORTED": ("run", "launch", "the device cannot do what the launch asks", False),
    "CUDA_ERROR_NO_BINARY_FOR_GPU": ("load", "architecture", "the cubin was built for another architecture", False),
    "CUDA_ERROR_INVALID_IMAGE": ("load", "image", "the cubin cannot be read", False),
    "CUDA_ERROR_INVALID_SOURCE": ("load", "image", "the cubin cannot be read", False),
    "CUDA_ERROR_INVALID_PTX": ("load", "image", "the driver cannot compile this", False),
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": ("load", "image", "the PTX is newer than the driver", False),
    "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND": ("load", "symbol", "the cubin needs a symbol nobody defines", False),
    "CUDA_ERROR_NOT_FOUND": ("load", "symbol", "the cubin has no such kernel", False),
}  # fmt: skip
"""(stage, kind, what it means, fatal) by the driver's name of the result."""
DEVICE_GONE = frozenset(("CUDA_ERROR_ECC_UNCORRECTABLE", "CUDA_ERROR_NVLINK_UNCORRECTABLE", "CUDA_ERROR_CONTAINED"))
"""Results that no kernel is to blame for."""


class DeviceFault(Exception):
    """A candidate's fault that the device showed.

    Args:
        failure: what the record will say.
        fatal: whether this process must not use the device any more.
    """

    def __init__(self, failure: Failure, *, fatal: bool) -> None:
        super().__init__(failure.message)
        self.failure, self.fatal = failure, fatal


def fault_of(result: str, during: str) -> DeviceFault:
    """Returns the fault behind a driver's result.

    Args:
        result: the result's name, such as CUDA_ERROR_ILLEGAL_ADDRESS.
        during: what was being done, for the message.
    """
    # What nobody foresaw may have broken the context.
    stage, kind, meaning, fatal = KINDS.get(result, ("run", "device", "the driver reported an unexpected error", True))
    if result in DEVICE_GONE:
        stage, kind, meaning, fatal = "judge", "device", "the device itself failed; the candidate is not to blame", True
    failure = Failure(stage=stage, kind=kind, message=f"{during}: {meaning} ({result})")
    return DeviceFault(failure, fatal=fatal)


TORCH_WORDS = (
    ("out of memory", "CUDA_ERROR_OUT_OF_MEMORY"),
    ("illegal memory access", "CUDA_ERROR_ILLEGAL_ADDRESS"),
    ("misaligned address", "CUDA_ERROR_MISALIGNED_ADDRESS"),
    ("device-side assert", "CUDA_ERROR_ASSERT"),
    ("unspecified launch failure", "CUDA_ERROR_LAUNCH_FAILED"),
    ("illegal instruction", "CUDA_ERROR_ILLEGAL_INSTRUCTION"),
    ("hardware stack error", "CUDA_ERROR_HARDWARE_STACK_ERROR"),
)


def fault_of_torch(error: BaseException, during: str) -> DeviceFault | None:
    """Returns the fault behind what torch raised, None when it has nothing to do with the device."""
    text = str(error)
    name = next((name for words, name in TORCH_WORDS if words in text), "")
    if name or "CUDA error" in text:
        return fault_of(name or "CUDA_ERROR_UNKNOWN", during)
    return None


def hang(during: str, limit_s: float) -> DeviceFault:
    """Returns the fault of work that did not end."""
    message = f"{during}: the device was still busy after {limit_s:g} s"
    return DeviceFault(Failure(stage="run", kind="timeout", message=message), fatal=True)


def refused(stage: Stage, kind: str, message: str) -> DeviceFault:
    """Returns the fault of something that was refused before it touched the device."""
    return DeviceFault(Failure(stage=stage, kind=kind, message=message), fatal=False)
