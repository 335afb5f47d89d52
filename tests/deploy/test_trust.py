"""Fault injection: whatever is wrong with a kernel, the program ends with right outputs."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.deploy.making import LATER, NAN, WRONG, bundle, launcher_or_skip

import kernelwright
from kernelwright.deploy import Shadow
from kernelwright.deploy.bundle import file_digest, read_bundle
from kernelwright.deploy.operator import Operator
from kernelwright.deploy.trust import difference
from kernelwright.errors import KernelwrightError
from kernelwright.types import ToleranceRule

X, WEIGHT = torch.linspace(-1, 1, 8 * 64).view(8, 64), torch.linspace(1, 2, 64)
RIGHT = torch.relu(X * WEIGHT)
EVERY = Shadow(first=1, every=1)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Bundles of kernels with a fault, by its name."""
    kernels = {"wrong": WRONG, "nan": NAN, "later": LATER}
    return {name: bundle(tmp_path_factory.mktemp(name), text) for name, text in kernels.items()}


def changed(folder: Path, out: Path, **members: Any) -> Path:
    """Returns a copy of a bundle whose evidence says something else, with a manifest that agrees."""
    shutil.copytree(folder, out)
    (kernel,) = read_bundle(folder)
    evidence = out / "kernels" / kernel.name / "evidence.json"
    data = json.loads(evidence.read_text())
    for member, fields in members.items():
        data[member].update(fields)
    evidence.write_text(json.dumps(data))
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["files"][str(evidence.relative_to(out))] = file_digest(evidence)
    (out / "manifest.json").write_text(json.dumps(manifest))
    return out


def ends_right(op: Operator, caplog: pytest.LogCaptureFixture, why: str, calls: int = 8) -> None:
    """Holds that every call gives the original's outputs, that the kernel is off, and that this was said once."""
    with caplog.at_level(logging.WARNING, logger="kernelwright"):
        for _ in range(calls):
            assert torch.equal(op(X, WEIGHT), RIGHT)
    assert why in op.watch.reason
    assert [why in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.parametrize("launcher", ["python", "compiled"])
@pytest.mark.parametrize(("fault", "why"), [("wrong", "is wrong by"), ("nan", "NaN"), ("later", "is wrong by")])
def test_wrong_values_turn_a_kernel_off(
    faulty: dict[str, Path], fault: str, why: str, launcher: Any, caplog: pytest.LogCaptureFixture
) -> None:
    if launcher == "compiled":
        launcher_or_skip()
    ends_right(kernelwright.load(faulty[fault], shadow=EVERY, launcher=launcher), caplog, why)


def test_eight_threads_survive_a_wrong_kernel(faulty: dict[str, Path]) -> None:
    op = kernelwright.load(faulty["wrong"], shadow=EVERY)
    faults: list[int] = []

    def work() -> None:
        faults.extend(1 for _ in range(20) if not torch.equal(op(X, WEIGHT), RIGHT))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert op.watch.reason


def test_a_compiled_program_survives_it_too(faulty: dict[str, Path], caplog: pytest.LogCaptureFixture) -> None:
    op = kernelwright.load(faulty["nan"], shadow=EVERY)
    compiled = torch.compile(
        lambda x, w: torch.add(op(x, w), 1),
        fullgraph=True,
        backend="aot_eager",
    )
    with caplog.at_level(logging.WARNING, logger="kernelwright"):
        for _ in range(3):
            assert torch.equal(compiled(X, WEIGHT), RIGHT + 1)
    assert "NaN" in op.watch.reason


def test_the_background_finds_it_after_the_call(faulty: dict[str, Path]) -> None:
    op = kernelwright.load(faulty["wrong"], shadow=Shadow(first=1, every=1, background=True))
    assert not torch.equal(op(X, WEIGHT), RIGHT)
    op.watch.settle()
    assert "is wrong by" in op.watch.reason
    assert torch.equal(op(X, WEIGHT), RIGHT)


def test_the_wrong_processor_gets_the_original(
    scale_bundle: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = {"features": ["avx9_imaginary"]}
    (kernel,) = read_bundle(scale_bundle)
    folder = changed(scale_bundle, tmp_path / "other", target=target)
    ends_right(kernelwright.load(folder), caplog, "lacks avx9_imaginary")
    assert kernel.target.features != ("avx9_imaginary",)


def test_a_library_that_cannot_be_loaded_gets_the_original(
    scale_bundle: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = changed(scale_bundle, tmp_path / "other", artifact={"entry": "nothing_of_that_name"})
    ends_right(kernelwright.load(folder), caplog, "nothing_of_that_name")


def test_a_launch_that_fails_gets_the_original(
    scale_bundle: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: object) -> None:
        raise KernelwrightError("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")

    monkeypatch.setattr("kernelwright.deploy.native.Library.call", refused)
    ends_right(kernelwright.load(scale_bundle, launcher="python"), caplog, "OUT_OF_RESOURCES")


def test_an_original_that_raises_is_heard(scale_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    op = kernelwright.load(scale_bundle, shadow=EVERY, launcher="python")

    def raises(*_: object) -> None:
        raise ValueError("not for these values")

    monkeypatch.setattr(op.original, "forward", raises)
    for _ in range(2):
        with pytest.raises(ValueError, match="not for these values"):
            op(X, WEIGHT)
    assert "the original raised" in op.watch.reason


def test_one_variable_turns_everything_off(faulty: dict[str, Path]) -> None:
    code = f"""
import torch, kernelwright
x, w = torch.linspace(-1, 1, 512).view(8, 64), torch.linspace(1, 2, 64)
op = kernelwright.load({str(faulty["wrong"])!r})
assert torch.equal(op(x, w), torch.relu(x * w))
print(op.watch.reason, op.launched())
"""
    environment = {"KERNELWRIGHT_DISABLE": "1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | environment
    )
    assert done.stdout.strip() == "KERNELWRIGHT_DISABLE is set 0"
    assert not done.stderr


def test_shadow_counts_first_and_every(scale_bundle: Path) -> None:
    op = kernelwright.load(scale_bundle, shadow=Shadow(first=2, every=5))
    for _ in range(11):
        op(X, WEIGHT)
    assert op.watch.checked == 4  # calls 0, 1, 5 and 10


def test_what_differs_is_said() -> None:
    rule = ToleranceRule()
    truth = torch.linspace(1, 2, 10, dtype=torch.float64)
    wanted = truth.float()
    assert difference((wanted,), (wanted,), (truth,), rule) == ""
    assert "is wrong by" in difference((wanted * 1.0001,), (wanted,), (truth,), rule)
    assert "is wrong by" in difference((wanted * 1.001,), (wanted,), None, rule)
    assert "NaN" in difference((wanted.log() - 1,), (wanted.log().sub(1).sqrt(),), None, rule)
    assert "3 elements" in difference((torch.tensor([1, 2, 3]),), (torch.tensor([0, 0, 0]),), None, rule)
    assert "not torch" in difference((wanted.double(),), (wanted,), None, rule)
    half = (wanted.half(),)
    assert "not torch" in difference(half, (wanted,), (truth,), rule)
