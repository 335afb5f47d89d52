"""Optimises a function of this file and prints the answer.

python examples/optimize_function.py [SECONDS]
"""

from __future__ import annotations

import sys
import tempfile
from typing import TYPE_CHECKING

import kernelwright

if TYPE_CHECKING:
    from torch import Tensor


def gated_residual(x: Tensor, gate: Tensor) -> Tensor:
    """Returns `x` plus its gated half, as a small block of a network might."""
    return x + (x * gate.sigmoid()).tanh() * 0.5


def main(budget_s: float = 10.0) -> kernelwright.Record | None:
    """Returns the reported record, None where no kernel passed."""
    with tempfile.TemporaryDirectory() as out:
        result = kernelwright.optimize(
            f"{__file__}:gated_residual",
            inputs=("float32[512,1024]", "float32[512,1024]"),
            budget_s=budget_s,
            out=out,
            on_step=print,
            on_event=lambda event: print(event.text),
        )
    print(result.why)
    return result.report


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]))
