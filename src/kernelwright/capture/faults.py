"""What went wrong in the user's code, in one line that names the fix.

Not here: which checks a reference must pass (checks.py); these are exceptions of its own.
"""

from __future__ import annotations

from kernelwright.capture import memory
from kernelwright.errors import SourceError, words_of
from kernelwright.types import Problem

CUDA_WORDS = ("not compiled with CUDA", "no NVIDIA driver", "CUDA error", "No CUDA GPUs", "CUDA driver")
DEVICE_WORDS = ("Expected all tensors to be on the same device", "is on cuda")


def explain(error: SourceError, free: int, problem: Problem) -> SourceError:
    """Returns the error with a fix that fits its cause, or the error itself.

    Args:
        error: as the loader raised it, with the user's exception as its cause.
        free: bytes that were available before the reference was loaded.
        problem: the draft; where it draws its own inputs, they may be what does not fit.
    """
    cause = error.__cause__
    if cause is None:
        return error
    if short := memory.shortage(cause, free):
        return short
    text = words_of(cause)
    if isinstance(cause, ModuleNotFoundError) and cause.name:
        missing = cause.name.partition(".")[0]
        return SourceError(_without_prefix(error), f"install {missing} into this environment: pip install {missing}")
    if isinstance(cause, ImportError):
        return SourceError(error.message, "correct the import, or update that package")
    if any(word in text for word in CUDA_WORDS) or (isinstance(cause, NotImplementedError) and "cuda" in text.lower()):
        return SourceError(error.message, "captured on the CPU: remove .cuda() and device='cuda' from the file")
    if any(word in text for word in DEVICE_WORDS):
        return SourceError(error.message, "keep every tensor on the CPU; the device is chosen with --device")
    if isinstance(cause, FileNotFoundError):
        return SourceError(error.message, "start kernelwright in the folder that the file's paths are relative to")
    if isinstance(cause, NotImplementedError) and "forward" in text:
        return SourceError("Model has no forward", "define `def forward(self, x): ...`")
    if (
        isinstance(cause, RuntimeError | ValueError | TypeError | IndexError)
        and problem.workloads[0].generator == "spec"
    ):
        given = ", ".join(f"{spec.name}={spec.dtype}[{','.join(map(str, spec.shape))}]" for spec in problem.inputs)
        return SourceError(error.message, f"give inputs that it takes with --input (it got {given}), or correct it")
    return error


def _without_prefix(error: SourceError) -> str:
    return error.message.replace("raised ModuleNotFoundError: ", "failed: ")
