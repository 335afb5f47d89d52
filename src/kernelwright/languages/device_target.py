"""The GPU of this machine as a target, asked of a child process (device_probe.py).

Not here: targets to compile for without a device (devices.cuda_target), and what the device is capable of in
bytes or operations a second: that is measured.
"""

from __future__ import annotations

import contextlib
import platform
from importlib import metadata

from kernelwright import environment
from kernelwright.errors import MissingTool
from kernelwright.languages import device_probe
from kernelwright.types import Target

FRAMEWORKS = ("torch", "triton", "cuda-tile")
"""Packages whose version changes code or times."""


def toolchain_versions() -> tuple[tuple[str, str], ...]:
    """Returns (name, version) of what makes device code on this machine, sorted by name."""
    found = device_probe.toolchain()
    versions = {"nvrtc": found.nvrtc, "nvcc": found.nvcc_version}
    for package in FRAMEWORKS:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return tuple(sorted((name, version) for name, version in versions.items() if version))


def detect_device_target() -> Target:
    """Returns the first GPU of this machine as a target.

    Its toolchain names the driver too, whose release changes times; its features are its number of multiprocessors,
    since partitions of one product differ in it.

    Raises:
        MissingTool: where there is no GPU, or no driver, or the packages that ask it.
    """
    answer = device_probe.device()
    if answer.fault:
        raise MissingTool(
            f"there is no GPU to judge on: {answer.fault}",
            "`kernelwright doctor` says what is missing; candidates can be compiled without one",
        )
    driver = answer.driver_release or answer.driver
    return Target(
        kind="cuda",
        architecture=answer.architecture,
        features=(f"multiprocessors_{answer.multiprocessors}",),
        threads=environment.threads(),
        toolchain=tuple(sorted((*toolchain_versions(), ("driver", driver)))),
        device=answer.name,
        host=platform.node(),
        cache_bytes=answer.l2_bytes,
    )
