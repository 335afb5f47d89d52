"""The GPU benchmark's table: sizes that really are in the references, and a page that any cut-off run can write."""

from __future__ import annotations

import ast
import json
import subprocess
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from tests.search.fake_judge import CAPTURE, PROBLEM, TARGET, FakeJudge, FakeParts, Offer, fake_templates

from benchmarks import gpu, gpu_problems, gpu_table
from kernelwright import experts, languages, problems, run
from kernelwright import judge as judging
from kernelwright.errors import SourceError
from kernelwright.graph import Capture
from kernelwright.languages import device_probe
from kernelwright.languages.device_probe import DeviceAnswer
from kernelwright.testing.strategies import fake_measurement
from kernelwright.types import Measurement, Policy, Problem, Target

WON: gpu_table.Row = {
    "problem": "softmax", "shape": "8 x 8", "template": "cuda-loops", "language": "cuda", "of_copy": 0.95,
    "answer": "kernel", "judged": 20, "seconds": 12.0,
    "error": "", "kernel_us": 50.0, "floor_us": 40.0, "noise": 0.004, "method": "CUDA events",
    "eager": {"name": "eager", "ratio": 2.0, "low": 1.98, "high": 2.02},
    "hardest": {"name": "graph:eager", "ratio": 1.25, "low": 1.24, "high": 1.26},
}  # fmt: skip
SLOWER = {
    **WON,
    "template": "triton-loops",
    "language": "triton",
    "kernel_us": 60.0,
    "hardest": {**WON["hardest"], "ratio": 1.04},
}
LOST = {**WON, "problem": "rms_norm", "hardest": {"name": "eager", "ratio": 0.9, "low": 0.89, "high": 0.91}}
BROKEN = {"problem": "cumsum", "shape": "-", "template": "-", "error": "ValueError: a | b"}


@pytest.mark.parametrize("name", gpu_problems.SIZES)
def test_every_number_is_in_the_reference_and_only_it_changes(name: str) -> None:
    text, plain = gpu_problems.source(name), problems.source_text(name)
    ast.parse(text)
    changed = [new for new, old in zip(text.splitlines(), plain.splitlines(), strict=True) if new != old]
    assert changed
    assert set(changed) == {f"{key} = {number}" for key, number in gpu_problems.SIZES[name].items()}


def test_a_number_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gpu_problems.SIZES, "softmax", {"width": 3})
    with pytest.raises(ValueError, match="softmax has 0 lines that set width"):
        gpu_problems.source("softmax")


def test_the_page_counts_each_problems_fastest_template() -> None:
    data = {
        "device": "a GPU", "tools": "nvrtc 13", "when": "2026-01-01", "baselines": ["eager", "graph:eager"],
        "copy": {str(1 << 20): 9e12, str(1 << 28): 4e12},
        "rows": {str(number): row for number, row in enumerate((LOST, SLOWER, WON, BROKEN))},
    }  # fmt: skip
    page = gpu_table.document(data)
    assert gpu_table.best_rows([SLOWER, WON, LOST, BROKEN]) == [WON, LOST]
    assert gpu_table.best_rows([SLOWER, WON, LOST], by=("problem", "language")) == [SLOWER, WON, LOST]
    assert "4000 GB/s at 256 MiB." in page
    assert "problems with a right kernel: 2 of 3" in page
    assert "beyond the A/A noise (95 % intervals): 1" in page
    assert "best language of each problem: geometric mean against the best free baseline 1.06" in page
    assert "triton, 1 problems: geometric mean against the best free baseline 1.04, against eager 2.00" in page
    assert "of the device's floor 0.67" in page
    assert "geometric mean 0.95, least 0.95, at 0.90 or more 2 of 2" in page
    lines = [line for line in page.split("Every template:")[0].splitlines() if line.startswith("| ")]
    assert len({line.count(" | ") for line in lines}) == 1
    assert [line.split(" | ")[0] for line in lines[1:]] == ["| softmax", "| softmax", "| rms_norm", "| cumsum"]


def test_a_copy_of_half_of_what_is_moved_is_the_measure() -> None:
    copy = {str(1 << 26): 3e12, str(1 << 30): 4e12}
    assert gpu_table.of_copy(copy, 1 << 27, (1 << 27) / 3e12 * 1e6) == pytest.approx(1.0)
    assert gpu_table.of_copy(copy, 1 << 31, (1 << 31) / 2e12 * 1e6) == pytest.approx(0.5)


# ------------------------------------------------------------------------------ the whole flow, without a device


class Judged(FakeJudge):
    """A judge whose compiler has no end in one mode, and that turns to other problems."""

    def __init__(self, problem: Problem, target: Target, **given: Any) -> None:
        super().__init__(problem, target, **given)

    def turn_to(self, problem: Problem) -> None:
        self.problem = problem

    def close(self) -> None:
        return None

    def baselines(self, policy: Policy) -> tuple[Measurement, ...]:
        (name,) = policy.baselines
        if name == "compile:max-autotune":
            assert judging.PREPARE_DEADLINE_S == 7.0
            raise SourceError("it took longer than 7 s")
        return (fake_measurement(name, {"compile:default": 900.0}.get(name, 800.0)),)


class Captured:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def ask(self, name: str) -> Future[Capture]:
        made: Future[Capture] = Future()
        if name == "rms_norm":
            made.set_exception(RuntimeError("no memory"))
        else:
            made.set_result(CAPTURE)
        return made

    def close(self) -> None:
        return None


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the command with what needs a device replaced; gives the baselines that each report asked for."""
    parts, asked = FakeParts(), []

    def optimize(*given: Any, **more: Any) -> Any:
        asked.append(more["parts"].report.baselines)
        return real(*given, **more)

    real = run.optimize
    monkeypatch.setattr(run, "optimize", optimize)
    monkeypatch.setattr(run, "parts_for", lambda target: parts.parts())
    monkeypatch.setattr(gpu, "Judge", Judged)
    monkeypatch.setattr(gpu, "Captures", Captured)
    monkeypatch.setattr(gpu, "measured_copy", lambda: {str(1 << 26): 4e12})
    monkeypatch.setattr(experts, "templates", lambda *given, **more: Offer(fake_templates()))
    monkeypatch.setattr(languages, "detect_device_target", lambda: TARGET)

    def go(*words: str) -> list[tuple[str, ...]]:
        asked.clear()
        places = [f"--{name}={tmp_path / file}" for name, file in (
            ("out", "stores"), ("captures", "captures"), ("results", "results.json"), ("table", "table.md"),
        )]  # fmt: skip
        gpu.main([*places, "--budget=1e9", "--compile-seconds=7", *words])
        return list(asked)

    return go


def test_the_whole_flow_runs_goes_on_and_is_merged(
    flow: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = flow("--problems", "softmax", "rms_norm", "--share", "0/2")
    assert asked == [("graph:eager", "eager", "compile:reduce-overhead")] * 2  # the fastest mode that compiled
    own = json.loads((tmp_path / "results-0of2.json").read_text())
    assert {key.split()[1] for key in own["rows"]} == {"rows", "tiles"}
    row = own["rows"]["softmax rows"]
    assert not row["error"]
    assert row["problem"] == PROBLEM.name
    assert row["left_out"] == ["compile:max-autotune left out: it took longer than 7 s"]
    assert flow("--problems", "softmax", "rms_norm", "--share", "0/2") == []  # all is there
    assert flow("--problems", "softmax", "rms_norm", "--share", "1/2") == []  # it cannot be captured
    assert flow("--problems", "softmax", "rms_norm", "--seconds=0", "--again") == []  # no time
    page = (tmp_path / "table.md").read_text()
    assert "RuntimeError: no memory" in page
    assert "compile:max-autotune left out" in page
    assert "| rows | " in page
    assert "out of time before softmax" in capsys.readouterr().out


class Ended:
    """A process that has ended well."""

    def wait(self) -> int:
        return 0


def test_processes_on_one_gpu_share_its_memory_and_take_turns(flow: Any, tmp_path: Path, monkeypatch: Any) -> None:
    flow("--problems", "softmax")
    started: list[tuple[list[str], dict[str, str]]] = []

    def start(command: list[str], env: dict[str, str]) -> Ended:
        started.append((command, env))
        return Ended()

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(device_probe, "device", lambda: DeviceAnswer(memory_bytes=1000))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    monkeypatch.setenv("KERNELWRIGHT_THREADS", "9")
    flow("--problems", "softmax", "--workers", "3")
    assert [words[-1] for words, _ in started] == ["0/3", "1/3", "2/3"]
    assert all(words[-4:-1] == ["--workers", "1", "--share"] for words, _ in started)
    variables = [env for _, env in started]
    assert [env["CUDA_VISIBLE_DEVICES"] for env in variables] == ["4", "7", "4"]
    assert {env["KERNELWRIGHT_DEVICE_BYTES"] for env in variables} == {"450"}
    assert {env["KERNELWRIGHT_THREADS"] for env in variables} == {"3"}
    turns = [env["KERNELWRIGHT_TURNS"] for env in variables]
    assert turns[0] == turns[2] != turns[1]
