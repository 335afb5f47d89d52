"""The proof: a tiny model learns to choose schedules from recorded judgements; stages stop and go on exactly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from tests.training.in_process import InProcess

from kernelwright.cli import cli
from kernelwright.errors import UserError
from kernelwright.training import authors, stages

RECORDED = Path(__file__).with_name("recorded")
SCALE = ["--data", str(RECORDED), "--recorded", "--slow", "0.25"]


def train(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["train", arguments[0], *SCALE, *arguments[1:]], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def share(model: Path) -> float:
    found = json.loads(train("evaluate", "--model", str(model), "--split", "train", "--count", "64", "--json"))
    assert all(problem["kinds"] == [["verified", 64]] for problem in found["problems"])  # the grammar lets nothing else
    return float(found["of_optimum"])


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authors, "Worker", InProcess)


@pytest.mark.usefixtures("in_process")
def test_three_stages_take_a_random_model_from_a_third_of_the_optimum_to_most_of_it(tmp_path: Path) -> None:
    sft, select, contrast = tmp_path / "sft", tmp_path / "select", tmp_path / "contrast"
    train("sft", "--model", "new", "--out", str(sft), "--steps", "1", "--rate", "1e-9")
    before = share(sft)
    train("sft", "--model", str(sft), "--out", str(tmp_path / "sft2"), "--steps", "20", "--lessons", "16")
    train("select", "--model", str(tmp_path / "sft2"), "--out", str(select), "--steps", "20")
    between = share(select)
    train("contrast", "--model", str(select), "--out", str(contrast), "--steps", "80", "--plain", "0.5")
    after = share(contrast)
    assert before < 0.35 < between < after
    assert after > 0.85


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("stage", ["select", "contrast"])
def test_a_stage_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path: Path, stage: str) -> None:
    options = ["--model", "new", "--group", "4", "--save-every", "3", "--fresh", "--baseline", "leave-one-out"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(stage, *options, "--out", str(whole), "--steps", "5")
    train(stage, *options, "--out", str(parts), "--steps", "2")
    # What a process that was killed after its last checkpoint leaves behind.
    for name in ("steps.jsonl", "archive.jsonl"):
        path = parts / name
        with path.open("a") as file:
            file.write(path.read_text().splitlines()[-1] + "\n")
    train(stage, *options, "--out", str(parts), "--steps", "5", "--resume", "--budget", "9h")
    one, other = (torch.load(p / "model" / "weights.pt", weights_only=True) for p in (whole, parts))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert (whole / "archive.jsonl").read_text() == (parts / "archive.jsonl").read_text()
    lines = [[_timeless(line) for line in (p / "steps.jsonl").read_text().splitlines()] for p in (whole, parts)]
    assert lines[0] == lines[1]


class Clock:
    """Every look at it takes a second."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def monotonic(self) -> float:
        self._seconds += 1.0
        return self._seconds


@pytest.mark.usefixtures("in_process")
def test_a_budget_ends_a_stage_at_any_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "time", Clock())  # it is looked at six times a step
    out = ["--model", "new", "--group", "2", "--out", str(tmp_path / "out"), "--steps", "9"]
    assert "stopped at step 2 of 9" in train("contrast", *out, "--budget", "13s")
    with pytest.raises(UserError, match="holds a stage already"):
        train("contrast", *out)
    with pytest.raises(UserError, match="another rate"):
        train("contrast", *out, "--resume", "--rate", "0.1")
    assert "stopped at step 3 of 9" in train("contrast", *out, "--resume", "--budget", "7s")


def test_a_model_lives_in_a_process_of_its_own(tmp_path: Path) -> None:
    train("sft", "--model", "new", "--out", str(tmp_path / "out"), "--steps", "1", "--lessons", "4")
    assert (tmp_path / "out" / "model" / "weights.pt").is_file()


def _timeless(line: str) -> dict[str, Any]:
    return {name: number for name, number in json.loads(line).items() if not name.endswith("seconds")}
