"""A reference in the class contract; its kernel by hand is softmax.cpp beside it.

python examples/softmax.py
"""

from __future__ import annotations

from pathlib import Path

import torch

import kernelwright


class Model(torch.nn.Module):
    """Softmax over rows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns each row's softmax."""
        return torch.softmax(x, dim=-1)


def get_inputs() -> list[torch.Tensor]:
    """Returns the inputs of one call."""
    return [torch.randn(512, 256)]


def get_init_inputs() -> list[object]:
    """Returns the arguments of `Model`."""
    return []


def main() -> kernelwright.Record:
    """Returns the judge's record of the kernel beside this file."""
    record = kernelwright.judge_kernel(__file__, Path(__file__).with_suffix(".cpp"), policy="screen", on_step=print)
    outcome = record.outcome
    if isinstance(outcome, kernelwright.Failure):
        print(outcome.message)
    else:
        for check in outcome.verdict.checks:
            print("held  " if check.passed else "FAILED", check.name, check.evidence)
    return record


if __name__ == "__main__":
    main()
