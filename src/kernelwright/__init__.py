"""kernelwright: give it an operation; get back the fastest kernel that survives the judge, and the evidence.

    import kernelwright

    result = kernelwright.optimize("ops.py:gelu", inputs=("float32[4096,1024]",), budget_s=60)
    print(result.why)

Functions are loaded on first use, so that importing a part of the package, as every worker does, stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelwright.api import judge_kernel, optimize
    from kernelwright.authoring import fuse, kernel, optimize_model
    from kernelwright.deploy import accelerate, explain, load
    from kernelwright.deploy.matmul import matmul
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
    "accelerate",
    "explain",
    "fuse",
    "judge_kernel",
    "kernel",
    "load",
    "matmul",
    "optimize",
    "optimize_model",
]

LATER = {
    **dict.fromkeys(("KernelwrightError", "SourceError", "UserError"), "errors"),
    **dict.fromkeys(
        (
            "Candidate", "Check", "Comparison", "Failure", "Judgement", "Measurement", "Policy", "Problem", "Record",
            "Target", "TensorSpec", "Verdict",
        ),
        "types",
    ),
    "accelerate": "deploy",
    "explain": "deploy",
    "fuse": "authoring",
    "judge_kernel": "api",
    "kernel": "authoring",
    "load": "deploy",
    "matmul": "deploy.matmul",
    "optimize": "api",
    "optimize_model": "authoring",
}  # fmt: skip
"""Names that are loaded on first use, by the module that has them."""


def __getattr__(name: str) -> Any:
    if name in LATER:
        return getattr(importlib.import_module(f"kernelwright.{LATER[name]}"), name)
    raise AttributeError(f"module 'kernelwright' has no attribute {name!r}")
