"""benchmarks/models.py: whose turn it is, what stays, and what the page says of it; no model is built."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from benchmarks import models
from kernelwright.deploy.decisions import Placed

REGION = {"name": "add_1", "calls": 2, "share": 0.25, "answer": "kernel", "why": "it is faster", "bundle": "there"}


def row(name: str, *answers: str) -> dict[str, Any]:
    fine = (1.1, 1.2, 1.3)
    placed = {"names": ["add_1_ab"], "calls": 2, "low": 1.1, "middle": 1.2, "high": 1.3, "reason": "", "kept": True}
    return {
        "name": name, "command": "--small", "regions": [REGION | {"answer": answer} for answer in answers],
        "seconds": 9.0, "threads": 1, "eager_us": 100.0, "placed": [placed], "kept": ["add_1_ab"],
        "faults": {"kernels": "", "compile": "it is wrong"},
        "ratios": dict.fromkeys(("compile", "kernels", "gain"), fine),
    }  # fmt: skip


def test_what_is_left_has_its_turn_what_was_never_measured_first(tmp_path: Path) -> None:
    for name, answers in (("llama", ("kernel", "later")), ("vit", ("baseline",))):
        (tmp_path / f"{name}.json").write_text(json.dumps(row(name, *answers)))
    turns = list(models.turns(["llama", "vit", "unet"], tmp_path, time.monotonic() + 1000))
    assert [name for name, _ in turns] == ["unet", "llama"]
    assert turns[1][1] > turns[0][1] > 400  # what one leaves, the next has
    assert not list(models.turns(["llama"], tmp_path, time.monotonic()))


def test_winners_that_lose_together_do_not_stay() -> None:
    one, two = (Placed(names=(name,), calls=1, low=1.1, middle=1.2, high=1.3) for name in "ab")
    lost = Placed(names=("c",), calls=1, low=0.9, middle=1.0, high=1.1)
    assert models.kept_names([one, lost]) == ["a"]
    assert models.kept_names([one, two, Placed(names=("a", "b"), calls=2, low=1.1, middle=1.2, high=1.3)]) == ["a", "b"]
    assert models.kept_names([one, two, Placed(names=("a", "b"), calls=2, low=0.9, middle=1.0, high=1.1)]) == []


def test_the_page_says_what_failed_too() -> None:
    text = models.page([row("llama", "kernel"), {"name": "vit", "error": "out of memory", "regions": []}], "cpu", True)
    assert "| llama | 100 | 1.20 (1.10 to 1.30) |" in text
    assert "| 1 | 1 | 1 | yes (no: it is wrong) | 9 |" in text
    assert "| add_1 | 2 | 25.0 % | it is faster | 1.20 (1.10 to 1.30): kept |" in text
    assert "## vit\n\nout of memory" in text
