"""The benchmark of screening, without a device: its stream is distinct and partly wrong, and its page has every row."""

from __future__ import annotations

import random
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from tests.search.fake_judge import CAPTURE, TARGET, FakeJudge, Offer, fake_templates

from benchmarks import gpu_screening
from kernelwright import experts, languages
from kernelwright.graph import Capture
from kernelwright.types import Candidate, Failure, Point, Problem, SourceFile, Target, Template, digest, replace

CODE = """
__global__ void k(const float* x, float* out, int n) {
  int i = threadIdx.x;
  if (i < n) out[i] = x[i] + 1.0f;
}
"""


def cuda_templates() -> tuple[Template, ...]:
    """The fake templates, their candidates in CUDA and with code that can be broken."""

    def of(template: Template) -> Template:
        def emit(point: Point) -> Candidate | Failure:
            made = template.emit(point)
            if isinstance(made, Failure):
                return made
            text = made.sources[0].text + CODE
            return replace(made, language="cuda", sources=(SourceFile(path="kernel.cu", text=text),))

        return replace(template, emit=emit)

    return tuple(map(of, fake_templates()))


class Judged(FakeJudge):
    def __init__(self, problem: Problem, target: Target, **given: Any) -> None:
        super().__init__(problem, target, landscape=lambda template, point: 1000.0, noise=0.0, **given)

    def turn_to(self, problem: Problem) -> None:
        self.problem = problem


class Captured:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def ask(self, name: str) -> Future[Capture]:
        made: Future[Capture] = Future()
        made.set_result(CAPTURE)
        return made

    def close(self) -> None:
        return None


@pytest.fixture(autouse=True)
def _no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_screening, "Judge", Judged)
    monkeypatch.setattr(gpu_screening, "Captures", Captured)
    monkeypatch.setattr(experts, "templates", lambda *given, **more: Offer(cuda_templates()))
    monkeypatch.setattr(languages, "detect_device_target", lambda: replace(TARGET, kind="cuda"))


def test_a_stream_is_distinct_and_every_sixth_is_wrong() -> None:
    made = gpu_screening.stream(CAPTURE, TARGET, random.Random(1), "run", 12)
    assert len({digest(candidate) for candidate in made}) == 12
    changed = ["x[i] + 1.0f" not in c.sources[0].text or "if (i < n)" not in c.sources[0].text for c in made]
    intact = [CODE.strip() in candidate.sources[0].text for candidate in made]
    assert [place for place, whole in enumerate(intact) if not whole] == [5, 11]
    assert not any(changed[place] for place in range(12) if place not in (5, 11))
    assert all("// run " in candidate.sources[0].text for place, candidate in enumerate(made) if intact[place])


def test_the_page_has_a_row_for_each_problem_and_kernel(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    gpu_screening.main(["--problems", "one", "two", "--out", str(page), "--captures", str(tmp_path)])
    lines = page.read_text().splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith("| ")]
    assert [row[0] for row in rows[:4]] == ["| problem", "| one", "| two", "| all"]
    assert rows[1][1] == str(gpu_screening.EACH)
    assert rows[3][1] == str(2 * gpu_screening.EACH)
    singles = [row for row in rows if row[1] in ("screen", "measure")]
    assert [row[0] for row in singles] == [f"| {name}" for name in gpu_screening.SINGLE for _ in range(2)]
    assert all(row[2] == "1000" for row in singles)
    assert all(row[3].endswith("passed") for row in singles)
