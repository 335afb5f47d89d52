"""kernelwright: give it an operation; get back the fastest kernel that survives the judge, and the evidence.

    import kernelwright

    result = kernelwright.optimize("ops.py:gelu", inputs=("float32[4096,1024]",), budget_s=60)
    print(result.why)

`optimize` and `judge_kernel` are loaded on first use, so that importing a part of the package, as every worker
does, stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.errors import KernelwrightError, SourceError, UserError
from kernelwright.types import (
    Candidate,
    Check,
    Comparison,
    Failure,
    Judgement,
    Measurement,
    Policy,
    Problem,
    Record,
    Target,
    TensorSpec,
    Verdict,
)

if TYPE_CHECKING:
    from kernelwright.api import judge_kernel, optimize

__all__ = [
    "Candidate",
    "Check",
    "Comparison",
    "Failure",
    "Judgement",
    "KernelwrightError",
    "Measurement",
    "Policy",
    "Problem",
    "Record",
    "SourceError",
    "Target",
    "TensorSpec",
    "UserError",
    "Verdict",
    "judge_kernel",
    "optimize",
]


def __getattr__(name: str) -> Any:
    if name in ("judge_kernel", "optimize"):
        from kernelwright import api

        return getattr(api, name)
    raise AttributeError(f"module 'kernelwright' has no attribute {name!r}")
