"""The parent process stays light: what importing the command line loads, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "numpy", "triton", "cuda", "sympy")


@pytest.mark.parametrize("module", ["kernelwright", "kernelwright.cli", "kernelwright.run", "kernelwright.judge"])
def test_importing_loads_no_framework(module: str) -> None:
    code = f"import sys, {module}; print(*(m for m in {HEAVY!r} if m in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.split() == []


def test_importing_the_command_line_stays_below_150_mb() -> None:
    # Not ru_maxrss: that counts what this process was before exec, which is pytest.
    code = "import kernelwright.cli; print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
    kibibytes = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert kibibytes * 1024 < 150e6
