"""Kernels that survive a judge, as an environment: `taskset.py` for verifiers, `client.py` for anything else."""

from __future__ import annotations

from typing import Any

__all__ = ["KernelTaskset"]  # noqa: F822  (it comes from __getattr__)


def __getattr__(name: str) -> Any:
    """Loads the taskset when it is asked for: the client needs no verifiers."""
    if name == "KernelTaskset":
        from kernelwright_env.taskset import KernelTaskset

        return KernelTaskset
    raise AttributeError(name)
