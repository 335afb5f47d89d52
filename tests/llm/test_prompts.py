"""Golden prompts: KERNELWRIGHT_GOLDEN=write python -m pytest tests/llm/test_prompts.py writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernelwright.exchanges import Kind
from kernelwright.llm.prompts import Feedback, Prompt, Shown, messages
from kernelwright.types import Axis, Problem, SourceFile, TensorSpec, Workload, replace

GOLDEN = Path(__file__).with_name("golden")
X = TensorSpec(name="x", shape=(64, 256), dtype="float32", role="input")
PROBLEM = Problem(
    name="softmax",
    inputs=(X,),
    parameters=(),
    outputs=(replace(X, name="out", role="output"),),
    reference=(
        SourceFile(path="softmax.py", text="import torch\n\n\ndef softmax(x):\n    return torch.softmax(x, 1)\n"),
    ),
    entry="softmax",
    workloads=(Workload(name="spec", generator="spec"),),
    axes=(Axis(name="B", size=64, low=1, high=4096, places=(("x", 0), ("out", 0))),),
    flops=81920,
    min_bytes=131072,
    description="softmax over rows",
)
FIRST = Prompt(problem=PROBLEM, language="cpp", hardware="- a processor\n- 2 threads", baselines=(("eager", 120.5),))
FULL = replace(
    FIRST,
    exemplars=(Shown(source="int slow;", speed=0.5), Shown(source="int fast;", speed=2.25, intent="vectors")),
    parent="int fast;\n",
    parent_speed=2.25,
    feedback=Feedback(subject="this kernel", text="- normal failed: 3 of 16384 elements are wrong"),
    intent="keep a row in registers",
    tried=(("vectors", "worked, 2.25 times as fast"), ("fewer threads", "dead: 2 kernels ran and were no faster")),
    profile="- 120.0 µs a call",
    subject="it reads outside its buffers",
)
CASES: dict[str, tuple[Kind, Prompt]] = {
    "write": ("write", FIRST),
    "contrast": ("contrast", FULL),
    "improve": ("improve", FULL),
    "repair": ("repair", FULL),
    "plan": ("plan", FULL),
    "review": ("review", FULL),
    "write_cuda": ("write", replace(FULL, language="cuda")),
    "write_triton": ("write", replace(FULL, language="triton", problem=replace(PROBLEM, axes=()))),
}


@pytest.mark.parametrize("name", CASES)
def test_a_prompt_is_as_it_was(name: str) -> None:
    text = "\n\n".join(f"[{m.role}]\n{m.text}" for m in messages(*CASES[name]))
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("KERNELWRIGHT_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()
    assert "{{" not in text
    assert "{%" not in text


def test_a_prompt_tells_everything_that_it_was_given() -> None:
    text = messages("contrast", FULL)[1].text
    for wanted in ("x`: float32[B, 256]", "120.5 µs", "2.25 times", "int slow;", "keep a row", "3 of 16384", "131,072"):
        assert wanted in text
    assert text.index("int slow;") < text.index("int fast;")
