"""What this machine has for building and running device code, asked of a short child process.

Only the child (device_child.py) loads NVRTC or the driver, so that the parent stays light and nothing of them can crash
or hang it.
Not here: which target follows from it (device_target.py), nor what to install (doctor).
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from typing import Any

from kernelwright.errors import MissingTool
from kernelwright.types import value

CHILD = "kernelwright.languages.device_child"
DEVICE_FILES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/proc/driver/nvidia/version")
LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/nvidia/lib64",
    "/usr/local/cuda/compat", "/usr/lib/wsl/lib",
)  # fmt: skip
ANSWER_S = 60.0
"""A first import from a cold disk takes a few seconds."""
INSTALL = f"{sys.executable} -m pip install 'kernelwright[compile]'"


@value
class Toolchain:
    """What can build CUDA C++ here; a part that is missing is empty."""

    nvrtc: str = ""
    """13.4"""
    library: str = ""
    """Path of libnvrtc."""
    library_bytes: int = 0
    bundled: bool = False
    """Whether NVRTC carries its headers; else they are in `headers`."""
    headers: tuple[str, ...] = ()
    """Folders of CUDA's headers, CCCL's included."""
    headers_digest: str = ""
    """Of the names and sizes of the headers in these folders."""
    nvcc: str = ""
    """Path of the nvcc program."""
    nvcc_version: str = ""
    fault: str = ""
    """Why there is no NVRTC, or why it cannot be used."""


@value
class DeviceAnswer:
    """What the first GPU is; `fault` says why there is none."""

    name: str = ""
    architecture: str = ""
    driver: str = ""
    """The newest CUDA version that the driver supports: 13.0."""
    driver_release: str = ""
    """The driver's own version: 580.159.04."""
    multiprocessors: int = 0
    l2_bytes: int = 0
    memory_bytes: int = 0
    fault: str = ""


@functools.cache
def toolchain() -> Toolchain:
    """Returns what can build CUDA C++ on this machine; asks a child process once."""
    answer = _ask("toolchain")
    if "fault" in answer and len(answer) == 1:
        return Toolchain(fault=answer["fault"])
    return Toolchain(**{**answer, "headers": tuple(answer["headers"])})


def device() -> DeviceAnswer:
    """Returns what the first GPU of this machine is; asks a child process each time, since devices come and go."""
    if not driver_signs():
        return DeviceAnswer(fault="no NVIDIA driver is on this machine (no /dev/nvidiactl, no libcuda.so.1)")
    return DeviceAnswer(**_ask("device"))


def driver_signs() -> tuple[str, ...]:
    """Returns the paths that tell of a driver; without any, no child need be asked."""
    folders = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), *LIBRARY_FOLDERS]
    paths = [*DEVICE_FILES, *(f"{folder}/libcuda.so.1" for folder in folders if folder)]
    return tuple(path for path in paths if os.path.exists(path))


def require(chosen: str) -> Toolchain:
    """Returns the toolchain, where it has the compiler that was chosen (nvrtc or nvcc).

    Raises:
        MissingTool: where it has not, with the command that installs it.
    """
    found = toolchain()
    if chosen == "nvcc" and not found.nvcc:
        raise MissingTool("there is no nvcc on this machine", "install the CUDA toolkit, or leave the option out")
    if chosen == "nvrtc" and not found.nvrtc:
        raise MissingTool(f"CUDA C++ cannot be compiled here: {found.fault}", INSTALL)
    return found


def _ask(what: str) -> dict[str, Any]:
    """What the child says; its own death or silence is a fault like any other."""
    command = [sys.executable, "-P", "-m", CHILD, what]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=ANSWER_S, check=False)
        answer = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"fault": f"asking for the {what} took longer than {ANSWER_S:.0f} s"}
    except (OSError, ValueError, IndexError):
        return {"fault": f"asking for the {what} failed: {_last_line(done.stderr)}"}
    return answer if isinstance(answer, dict) else {"fault": "no answer"}


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it said nothing"
