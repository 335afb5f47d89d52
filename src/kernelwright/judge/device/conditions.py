"""What the device was like meanwhile: clocks, power, temperature, why it was throttled (NVML).

Read through nvidia-ml-py where it is installed, else not at all: nothing here may disturb a measurement.
"""

from __future__ import annotations

import importlib
import statistics
from typing import Any

HARMLESS = 0x1 | 0x2 | 0x10
"""Throttle reasons that are none: idle, clocks set by an application, display."""


class Conditions:
    """Readings beside the blocks of one judgement.

    Args:
        address: of the device on the PCI bus, by which NVML knows it: its own numbers are others where
            CUDA_VISIBLE_DEVICES chooses or orders devices. Empty: nothing is read.
    """

    def __init__(self, address: str = "") -> None:
        self._nvml: Any = None
        self._readings: list[tuple[float, float, float, float, int]] = []
        if not address:
            return
        try:
            nvml = importlib.import_module("pynvml")
            nvml.nvmlInit()
            self._handle = nvml.nvmlDeviceGetHandleByPciBusId(address.encode())
            self._nvml = nvml
        except Exception:  # noqa: BLE001  (no NVML, no conditions: they decide nothing)
            self._nvml = None

    def read(self) -> None:
        """Takes one reading."""
        nvml = self._nvml
        if nvml is None:
            return
        try:
            self._readings.append(
                (
                    float(nvml.nvmlDeviceGetClockInfo(self._handle, nvml.NVML_CLOCK_SM)),
                    float(nvml.nvmlDeviceGetClockInfo(self._handle, nvml.NVML_CLOCK_MEM)),
                    nvml.nvmlDeviceGetPowerUsage(self._handle) / 1000.0,
                    float(nvml.nvmlDeviceGetTemperature(self._handle, nvml.NVML_TEMPERATURE_GPU)),
                    int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle)),
                )
            )
        except Exception:  # noqa: BLE001
            self._nvml = None

    def summary(self) -> tuple[tuple[str, float], ...]:
        """Returns the middle of the readings, the hottest, and every reason for throttling that occurred."""
        return summarise(self._readings)


def summarise(readings: list[tuple[float, float, float, float, int]]) -> tuple[tuple[str, float], ...]:
    """Returns named numbers for readings of (SM MHz, memory MHz, watts, degrees, reasons)."""
    if not readings:
        return ()
    sm, memory, power, heat, reasons = zip(*readings, strict=True)
    together = 0
    for reason in reasons:
        together |= int(reason) & ~HARMLESS
    return (
        ("sm_clock_mhz", statistics.median(sm)),
        ("sm_clock_min_mhz", min(sm)),
        ("memory_clock_mhz", statistics.median(memory)),
        ("power_w", statistics.median(power)),
        ("temperature_c", max(heat)),
        ("throttle_reasons", float(together)),
        ("readings", float(len(readings))),
    )
