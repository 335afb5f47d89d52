"""optimize_model: which regions are searched, what is kept of it, and that the kernels stand in the model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.deploy.making import bundle, problem

import kernelwright
from kernelwright import capture, run
from kernelwright.authoring import whole
from kernelwright.deploy import Shadow, load_all
from kernelwright.deploy import backend as backends
from kernelwright.deploy.operator import KNOWN
from kernelwright.errors import UserError
from kernelwright.graph import Capture
from kernelwright.types import KILLED, Failure, SourceFile, Target, replace

X = torch.linspace(-1, 1, 8 * 64).view(8, 64)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path / "home"))
    before = list(KNOWN)
    KNOWN.clear()
    yield
    KNOWN[:] = before


class Model(torch.nn.Module):
    """One region twice, with a product in between, and another one."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(0.5, 1.5, 64))
        self.linear = torch.nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(torch.relu(x * self.weight))
        out: torch.Tensor = self.linear(torch.relu(x * self.weight)).softmax(-1)
        return out


def uncaptured(cut: Any, folder: Path, worker: object = None) -> Any:
    """Stands for a capture, which would start a process."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{cut.name}.py").write_text(cut.text)
    return SimpleNamespace(problem=SimpleNamespace(name=cut.name))


def searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """Lets the search find a kernel by hand for the first kind, and refuse the other; returns what was asked for."""
    asked: list[tuple[str, float]] = []

    def optimize(captured: Capture, target: Target, *, budget_s: float, **_: Any) -> Any:
        asked.append((captured.problem.name, budget_s))
        if "softmax" in captured.problem.name:
            raise UserError("it cannot be judged", "never mind")
        return SimpleNamespace(answer="kernel", why="it is faster", rows=())

    def export(_: Any, out: Path, **__: Any) -> Path:
        (source,) = out.parent.glob("*.py")
        text = source.read_text()
        (weight,) = re.findall(r"self\.(s\d+_weight) =", text)
        what = problem(dynamic=False)
        what = replace(
            what, reference=(SourceFile(path="region.py", text=text),),
            parameters=(replace(what.parameters[0], name=weight),), inputs=(replace(what.inputs[0], name="x0"),),
        )  # fmt: skip
        kernel = 'extern "C" void k(const float* x0, const float* W, float* out) { for (int i = 0; i < 512; ++i) {'
        kernel += " const float p = x0[i] * W[i % 64]; out[i] = p > 0 ? p : 0; } }\n"
        return bundle(tmp_path / "made", kernel.replace("W", weight), what).rename(out)

    monkeypatch.setattr(whole, "_captured", uncaptured)
    monkeypatch.setattr(run, "optimize", optimize)
    monkeypatch.setattr(run, "write_best", lambda *_: None)
    monkeypatch.setattr(whole, "export", export)
    monkeypatch.setattr(whole, "recollect", lambda _: None)
    return asked


def test_regions_are_searched_once_and_their_kernels_stand_in_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, model, lines = searched(tmp_path, monkeypatch), Model(), list[str]()
    later = kernelwright.optimize_model(model, X, out=tmp_path / "out", deadline_s=-1.0)
    assert {one.answer for one in later} == {"later"}
    for _ in range(2):
        found = kernelwright.optimize_model(
            model, X, out=tmp_path / "out", budget_s=100, least_share=0.0, on_step=lines.append
        )
        by_name = {one.name.rpartition("_")[0]: one for one in found}
        assert (by_name["mul_relu"].answer, by_name["mul_relu"].calls) == ("kernel", 2)
        assert by_name["softmax"].answer == "refused"
        assert "cannot be judged" in by_name["softmax"].why
    assert len(asked) == 2
    assert sum(budget for _, budget in asked) == pytest.approx(100, rel=0.1)
    assert len(lines) == 4
    (op,) = load_all(by_name["mul_relu"].bundle, shadow=Shadow(first=0, every=0))
    monkeypatch.setattr(backends, "inductor", lambda *_, **__: lambda module, _: module.forward)
    with torch.no_grad():
        torch._dynamo.reset()
        assert torch.allclose(kernelwright.accelerate(model, measure=False)(X), model(X), atol=1e-6)
    assert op.launched() == 2


def test_a_region_that_a_busy_machine_kept_from_being_timed_is_searched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    killed = SimpleNamespace(outcome=Failure(stage="run", kind=KILLED, message="from outside"))

    def optimize(captured: Capture, target: Target, **_: Any) -> Any:
        asked.append(captured.problem.name)
        rows = (SimpleNamespace(latest=killed),) if len(asked) == 1 else ()
        return SimpleNamespace(answer="baseline", why="none passed", rows=rows)

    monkeypatch.setattr(whole, "_captured", uncaptured)
    monkeypatch.setattr(run, "optimize", optimize)
    monkeypatch.setattr(run, "write_best", lambda *_: None)
    answers = [
        kernelwright.optimize_model(lambda x: x.softmax(-1), X, out=tmp_path, budget_s=3)[0].answer for _ in range(3)
    ]
    assert answers == ["later", "baseline", "baseline"]
    assert len(asked) == 2


def test_captures_are_made_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    whole.capture_regions(lambda x: x.softmax(-1), X, out=tmp_path, on_step=lines.append)
    assert len(lines) == 1
    assert lines[0].endswith("with a graph")

    def refuse(*_: object, **__: object) -> Any:
        raise AssertionError("it was captured before")

    monkeypatch.setattr(capture, "load", refuse)
    monkeypatch.setattr(run, "optimize", lambda *_, **__: SimpleNamespace(answer="baseline", why="", rows=()))
    monkeypatch.setattr(run, "write_best", lambda *_: None)
    (found,) = kernelwright.optimize_model(lambda x: x.softmax(-1), X, out=tmp_path, budget_s=3)
    assert found.answer == "baseline"
