"""The child that `device_probe` asks: `python -m kernelwright.languages.device_child toolchain|device` prints one JSON
object about NVRTC and its headers, or about the first GPU.

Not here: what the answers mean (device_probe.py).
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from kernelwright.types import digest

NVCC_NAMES = ("nvcc",)
MARKS = ("cuda_fp16.h", "cuda_bf16.h")
"""Headers that a folder must hold to be taken for CUDA's."""
BUNDLED_FROM = (13, 3)
"""The first NVRTC that carries its own headers."""
BINDINGS = ((12, 9), (14, 0))
"""From, and before: versions of cuda-bindings whose NVRTC interface is the one that nvrtc.py uses."""
ATTRIBUTES = ("COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR", "MULTIPROCESSOR_COUNT", "L2_CACHE_SIZE")


def _toolchain() -> dict[str, Any]:
    nvcc = next((path for name in NVCC_NAMES if (path := shutil.which(name) or _wheel_program(name))), "")
    found: dict[str, Any] = {"nvcc": nvcc, "nvcc_version": _nvcc_version(nvcc), "headers": []}
    try:
        version, library = _nvrtc()
    except Exception as error:  # noqa: BLE001  (whatever the vendor's loader raises is the answer)
        return {**found, "fault": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"}
    found |= {"nvrtc": f"{version[0]}.{version[1]}", "library": library, "bundled": version >= BUNDLED_FROM}
    found["library_bytes"] = os.path.getsize(library) if library else 0
    if not found["bundled"]:
        folder = _header_folder(version)
        found["headers"] = [str(folder), str(folder / "cccl")] if folder else []
        found["headers_digest"] = _headers_digest(folder)
    return found


def _nvrtc() -> tuple[tuple[int, int], str]:
    """The version of NVRTC and where its library lies."""
    held = importlib.metadata.version("cuda-bindings")
    numbers = tuple(int(part) for part in re.findall(r"\d+", held)[:2])
    if not BINDINGS[0] <= numbers < BINDINGS[1]:
        low, high = (".".join(map(str, version)) for version in BINDINGS)
        raise RuntimeError(f"cuda-bindings {held} is not between {low} and {high}")
    nvrtc = importlib.import_module("cuda.bindings.nvrtc")
    status, major, minor = nvrtc.nvrtcVersion()
    if int(status) != 0:
        raise RuntimeError(f"nvrtcVersion answers {status}")
    pathfinder = importlib.import_module("cuda.pathfinder")
    return (int(major), int(minor)), str(pathfinder.load_nvidia_dynamic_lib("nvrtc").abs_path or "")


def _header_folder(version: tuple[int, int]) -> Path | None:
    """The folder of CUDA's headers whose version is nearest to NVRTC's: of a wheel, or of a toolkit."""
    wheels = [Path(entry, "nvidia") for entry in sys.path if entry]
    places = [place for root in wheels for place in (root / f"cu{version[0]}", root / "cuda_runtime")]
    toolkits = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places += [Path(place) for place in toolkits if place]
    folders = [p / "include" for p in places if all((p / "include" / mark).is_file() for mark in MARKS)]
    return min(folders, key=lambda folder: _distance(folder, version), default=None)


def _distance(folder: Path, version: tuple[int, int]) -> int:
    header = folder / "cuda.h"
    text = header.read_text(errors="replace") if header.is_file() else ""
    found = re.search(r"#define CUDA_VERSION (\d+)", text)
    return abs(int(found[1]) - (version[0] * 1000 + version[1] * 10)) if found else 10_000


def _headers_digest(folder: Path | None) -> str:
    if folder is None:
        return ""
    files = sorted(path for path in folder.iterdir() if path.suffix in (".h", ".hpp"))
    return digest(tuple((path.name, path.stat().st_size) for path in files))


def _wheel_program(name: str) -> str:
    found = [path for entry in sys.path if entry for path in Path(entry, "nvidia").glob(f"cu1[0-9]/bin/{name}")]
    return str(found[0]) if found else ""


def _nvcc_version(path: str) -> str:
    if not path:
        return ""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"\bV(\d+\.\d+\.\d+)", done.stdout)
    return found[1] if found else ""


def _device() -> dict[str, Any]:
    """Asks the driver's own interface: it neither makes a context nor allocates on the device."""
    try:
        driver = importlib.import_module("cuda.bindings.driver")
        _checked(driver.cuInit(0))
        (count,) = _checked(driver.cuDeviceGetCount())
        if count == 0:
            return {"fault": "the driver sees no GPU"}
        (handle,) = _checked(driver.cuDeviceGet(0))
        (name,) = _checked(driver.cuDeviceGetName(128, handle))
        (version,) = _checked(driver.cuDriverGetVersion())
        (memory,) = _checked(driver.cuDeviceTotalMem(handle))
        kinds = [getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{what}") for what in ATTRIBUTES]
        major, minor, multiprocessors, l2 = (_checked(driver.cuDeviceGetAttribute(k, handle))[0] for k in kinds)
    except Exception as error:  # noqa: BLE001  (whatever the vendor's loader raises is the answer)
        return {"fault": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"}
    number = 10 * int(major) + int(minor)
    return {
        "name": bytes(name).split(b"\0")[0].decode(errors="replace"),
        "architecture": f"sm_{number}" + ("a" if number >= 90 else ""),
        "driver": f"{version // 1000}.{version % 1000 // 10}",
        "driver_release": _driver_release(),
        "multiprocessors": int(multiprocessors),
        "l2_bytes": int(l2),
        "memory_bytes": int(memory),
    }


def _checked(answer: tuple[Any, ...]) -> tuple[Any, ...]:
    if int(answer[0]) != 0:
        raise RuntimeError(f"the driver answers {answer[0]!r}")
    return answer[1:]


def _driver_release() -> str:
    file = Path("/proc/driver/nvidia/version")
    found = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b", file.read_text(errors="replace")) if file.is_file() else None
    return found[1] if found else ""


if __name__ == "__main__":
    print(json.dumps({"toolchain": _toolchain, "device": _device}[sys.argv[1]]()))
