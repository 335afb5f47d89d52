"""The judge's reward for verl: `custom_reward_function` in verl.yaml.

Needs `kernelwright env --package DIR` installed where the trainer runs, and KERNELWRIGHT_ENV_URL where the gym is.
An answer that the gym has no verdict for raises: a zero would teach something false.
"""

from __future__ import annotations

from typing import Any

from kernelwright_env.client import Client  # type: ignore[import-not-found]


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None) -> dict[str, float]:
    """Returns what a model's answer is worth, and what it was.

    Args:
        data_source: `kernelwright`.
        solution_str: the whole answer.
        ground_truth: the problem's name.
        extra_info: `language` and the `exemplars` that the prompt showed; copies of those earn nothing.
    """
    told = dict(extra_info or {})
    found = Client().score(
        ground_truth, solution_str, language=str(told["language"]), exemplars=tuple(told.get("exemplars", ()))
    )
    speedup = found.get("speedup") or {"value": 0.0}
    return {
        "score": float(found["reward"]), "passed": float(bool(found["passed"])), "speedup": float(speedup["value"]),
        "cheat": float(found["kind"] == "cheat"),
    }  # fmt: skip
