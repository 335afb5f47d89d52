"""Library calls as candidates."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.gpu import device_kernels as kernels

from kernelwright import codec
from kernelwright.languages import Builder, cuda_target
from kernelwright.types import Artifact, Failure, SourceFile, replace

PROBLEM = kernels.matmul(64)


def test_a_product_is_built_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    made = kernels.library_matmul(PROBLEM)
    with Builder(cuda_target("sm_90a"), workers=1) as builder:
        (built,) = builder.build(PROBLEM, [made])
        unknown = replace(made.plan.steps[0], symbol="conv9d")
        sourced = replace(made, sources=(SourceFile(path="a.cu", text=""),))
        (refused, also) = builder.build(PROBLEM, [replace(made, plan=replace(made.plan, steps=(unknown,))), sourced])
    assert isinstance(built, Artifact), built
    assert codec.loads(Path(built.path).read_text()) == made.plan
    assert isinstance(refused, Failure)
    assert "conv9d" in refused.message
    assert isinstance(also, Failure)
    assert also.stage == "plan"
