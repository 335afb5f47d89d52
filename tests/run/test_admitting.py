"""Admission of a folder: a row for each file, whatever the files do."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kernelwright import problems
from kernelwright.cli import cli
from kernelwright.errors import UserError
from kernelwright.judge import admission
from kernelwright.run.admitting import Admissions, plain, task_files

HEAD = "import os, time\nimport torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return "
TAIL = "\ndef get_init_inputs():\n    return []\ndef get_inputs():\n    return "
TASKS = {
    "2_relu.py": HEAD + "torch.relu(x)" + TAIL + "[torch.rand(32, 64)]\n",
    "10_ones.py": HEAD + "torch.softmax(x.sum(1, keepdim=True), 1)" + TAIL + "[torch.rand(32, 64)]\n",
    "3_dies.py": HEAD + "x" + TAIL + "os._exit(3)\n",
    "4_names.py": "x = 1\n",
    "5_typo.py": HEAD + "x +" + TAIL + "[torch.rand(4)]\n",
    "6_softmax.py": HEAD + "torch.softmax(x, -1)" + TAIL + "[torch.randn(32, 64)]\n",
}


@pytest.fixture(scope="module")
def admissions() -> Iterator[Admissions]:
    with Admissions(threads=1) as made:
        yield made


def write(folder: Path) -> Path:
    (folder / "below").mkdir()
    for name, text in TASKS.items():
        (folder / ("below" if name[0] == "6" else "") / name).write_text(text)
    (folder / "__init__.py").write_text("")
    (folder / "notes.txt").write_text("no task")
    return folder


def test_files_come_in_natural_order(tmp_path: Path) -> None:
    names = [path.name for path in task_files(write(tmp_path))]
    assert names == ["2_relu.py", "3_dies.py", "4_names.py", "5_typo.py", "10_ones.py", "6_softmax.py"]
    with pytest.raises(UserError, match="no Python files"):
        task_files(tmp_path / "below" / "nothing")


def test_one_bad_file_does_not_end_the_run(tmp_path: Path) -> None:
    heard: list[str] = []
    files = tuple(str(path) for path in task_files(write(tmp_path)))
    with Admissions(threads=1) as made:
        found = {Path(file).stem: a for file, a in made.every(files, on_event=heard.append)}
    assert {name: admission.state for name, admission in found.items()} == {
        "2_relu": "repaired",
        "3_dies": "refused",
        "4_names": "refused",
        "5_typo": "refused",
        "10_ones": "weak",
        "6_softmax": "admitted",
    }
    assert "ended its own process" in found["3_dies"].reason
    assert "defines no Model" in found["4_names"].reason
    assert [null.answer for null in found["2_relu"].repaired] == ["a copy of x"]
    assert any("a constant passes for out" in why for why in found["10_ones"].why())
    assert any("does not depend on x" in why for why in found["10_ones"].why())
    assert heard[0] == f"1/6 {files[0]}"
    assert len(heard) == 6
    assert json.loads(json.dumps(plain("f", found["10_ones"])))["state"] == "weak"


def test_a_file_that_hangs_is_given_up_and_the_next_is_looked_at(tmp_path: Path, admissions: Admissions) -> None:
    hangs, right = tmp_path / "hangs.py", tmp_path / "right.py"
    hangs.write_text(HEAD + "x" + TAIL + "time.sleep(1000)\n")
    right.write_text(TASKS["6_softmax.py"])
    assert admissions.admit(str(right)).state == "admitted"
    deadline_s, admissions._deadline_s = admissions._deadline_s, 3.0
    assert "did not finish" in admissions.admit(str(hangs)).reason
    admissions._deadline_s = deadline_s
    assert admissions.admit(str(right)).state == "admitted"


@pytest.mark.parametrize("name", ["softmax", "max_pool2d", "topk_gather"])
def test_built_in_problems_are_admitted(name: str, admissions: Admissions) -> None:
    assert name in problems.names()
    found = admissions.admit(name)
    assert found.state == "admitted", found.why()


def test_the_command_prints_a_table_and_json(tmp_path: Path) -> None:
    (tmp_path / "relu.py").write_text(TASKS["2_relu.py"])
    command = [sys.executable, "-m", "kernelwright", "problems", "--admit", str(tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert (row["name"], row["state"]) == ("relu", "repaired")
    assert "1/1" in done.stderr


def test_dropout_is_tried_in_evaluation_mode(tmp_path: Path, admissions: Admissions) -> None:
    path = tmp_path / "dropped.py"
    path.write_text(HEAD + "torch.softmax(torch.dropout(x, 0.5, self.training), -1)" + TAIL + "[torch.randn(32, 64)]\n")
    assert admissions.admit(str(path)).state == "admitted"


def test_trying_that_takes_too_long_names_the_fix(tmp_path: Path, admissions: Admissions) -> None:
    path = tmp_path / "right.py"
    path.write_text(TASKS["6_softmax.py"])
    captured = admissions._captured(str(path), False, None)
    with Admissions(threads=1) as other:
        other._judge = worker = admission.start_worker(1)
        found = admission.admit(captured.problem, worker, deadline_s=0.001)
    assert "longer than 0.001 s: raise --deadline" in found.reason


def test_what_was_found_is_told_when_somebody_interrupts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def every(_: Admissions, sources: tuple[str, ...], **__: object) -> Iterator[tuple[str, admission.Admission]]:
        yield sources[0], admission.refused("2_relu", "it was tired")
        raise KeyboardInterrupt

    monkeypatch.setattr(Admissions, "every", every)
    done = CliRunner().invoke(cli, ["problems", "--admit", str(write(tmp_path))])
    assert done.exit_code == 130
    assert "it was tired" in done.output
    assert "interrupted after 1 of 6 tasks" in done.output
