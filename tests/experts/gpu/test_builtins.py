"""Every built-in problem that loop nests alone cannot do has experts on a GPU."""

from __future__ import annotations

from typing import Any

import pytest
from tests.experts.candidates import Traced
from tests.experts.gpu.special import TARGET

from kernelwright import experts, problems
from kernelwright.types import Candidate

LOOPS = {"cuda-loops", "triton-loops", "cutile-loops"}
EXPECTED = {
    "attention_scores": {"cuda-attention", "triton-attention"},
    "avg_pool2d": {*LOOPS, "cuda-avg_pool"},
    "max_pool2d": {*LOOPS, "cuda-max_pool"},
    "depthwise_conv2d": {*LOOPS, "cuda-depthwise"},
    "causal_conv1d": {*LOOPS, "cuda-depthwise"},
    "topk_gather": {"cuda-topk"},
    "embedding_bag": {*LOOPS, "cuda-embedding_bag"},
}


@pytest.mark.parametrize("name", EXPECTED)
def test_has_experts_whose_first_point_can_be_emitted(name: str) -> None:
    given: dict[str, Any] = {}
    exec(problems.source_text(name), given)  # our own reference
    traced = Traced(given["Model"](*given["get_init_inputs"]()), *given["get_inputs"]())
    found = experts.templates(traced.problem, traced.graph, target=TARGET)
    # Beside them a whole program's plan may hold such an expert as one of its steps.
    assert {template.name for template in found.templates} - {"cuda-program"} == EXPECTED[name]
    for template in found.templates:
        assert isinstance(template.emit(template.space.default()), Candidate)
