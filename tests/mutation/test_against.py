"""A user's own test as the one that looks for bugs: copies, exit statuses, time-outs, and tests that cannot be used."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from kernelwright import cli
from kernelwright.errors import UserError
from kernelwright.mutation import Mutant, mutants
from kernelwright.mutation.against import Project, try_against
from kernelwright.mutation.score import Outcome
from kernelwright.types import SourceFile

KERNEL = """\
def kernel(x, n):
    total = 0.0
    for i in range(n):
        total += x[i]
    while total < -1.0:
        total += 1.0
    return total
"""
CHECK = "from kernel import kernel; assert kernel([1.0, 2.0, 4.0], 3) == 7.0; assert kernel([-3.0], 1) == -1.0"
COMMAND = f'{sys.executable} -S -c "{CHECK}"'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "kernel.py").write_text(KERNEL)
    return folder


def planted(**more: object) -> tuple[Mutant, ...]:
    return mutants(SourceFile(path="kernel.py", text=KERNEL), "python", **more)  # type: ignore[arg-type]


def test_pipes_and_the_like_are_not_copied(project: Path) -> None:
    os.mkfifo(project / "pipe")
    found = planted(operators=("early-exit",))
    outcomes = try_against(Project(project, project / "kernel.py", COMMAND), found)
    assert {o.state for o in outcomes} == {"killed"}


def test_a_test_kills_what_it_notices_and_the_original_stays(project: Path) -> None:
    found = planted(operators=("early-exit", "wrong-constant", "off-by-one", "dropped-tail"))
    told: list[Outcome] = []
    outcomes = try_against(Project(project, project / "kernel.py", COMMAND), found, on_outcome=told.append)
    states = {(o.mutant.operator, o.mutant.line): o.state for o in outcomes}
    assert states["early-exit", 3] == "killed"
    assert states["dropped-tail", 3] == "killed"
    assert states["off-by-one", 5] == "killed"
    assert "survived" in states.values(), "the test is weak on purpose"
    assert tuple(told) == outcomes
    assert (project / "kernel.py").read_text() == KERNEL
    assert [p.name for p in project.iterdir()] == ["kernel.py"]


def test_a_mutant_that_hangs_is_killed_with_everything_it_started(project: Path) -> None:
    (mutant,) = [m for m in planted(operators=("deleted-statement",)) if m.line == 6]
    outcomes = try_against(Project(project, project / "kernel.py", COMMAND, timeout_s=8.0), [mutant])
    assert [(o.state, o.why) for o in outcomes] == [("killed", "took longer than 8 s")]


def test_equivalent_mutants_are_not_run(project: Path) -> None:
    text = KERNEL.replace("total += x[i]", "total += x[i]  # kw: equivalent lost-accumulation, race: why not")
    (project / "kernel.py").write_text(text)
    found = mutants(SourceFile(path="kernel.py", text=text), "python", operators=("lost-accumulation",))
    outcomes = try_against(Project(project, project / "kernel.py", COMMAND), found[:1])
    assert [(o.state, o.why) for o in outcomes] == [("equivalent", "why not")]


@pytest.mark.parametrize(
    ("command", "timeout_s", "words"),
    [
        ("exit 3", 60.0, "fails \\(exit status 3\\) on the kernel as it is"),
        ("true", 60.0, "passes although kernel.py holds no kernel"),
        ("sleep 60", 1.0, "takes too long on the kernel as it is"),
    ],
)
def test_a_test_that_cannot_tell_anything_is_refused(project: Path, command: str, timeout_s: float, words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        try_against(Project(project, project / "kernel.py", command, timeout_s=timeout_s), planted())
    assert caught.value.fix


def test_a_kernel_outside_the_project_is_refused(project: Path, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(KERNEL)
    with pytest.raises(UserError, match="is not below") as caught:
        Project(project, tmp_path / "other.py", COMMAND)
    assert "--root" in caught.value.fix


def test_a_source_folder_on_pythons_path_is_the_copys(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "src").mkdir()
    (project / "kernel.py").rename(project / "src" / "kernel.py")
    monkeypatch.setenv("PYTHONPATH", str(project / "src"))
    found = planted(operators=("early-exit",))
    outcomes = try_against(Project(project, project / "src" / "kernel.py", COMMAND), found)
    assert [o.state for o in outcomes] == ["killed"]


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main(["mutate", *arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_the_command_prints_the_score(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = str(project / "kernel.py")
    options = ("--against", COMMAND, "--root", str(project), "--operator", "early-exit", "--operator", "wrong-constant")
    assert run(kernel, *options, "--json") == 1
    printed = capsys.readouterr()
    score = json.loads(printed.out)
    assert score["killed"] + score["survived"] == len(score["outcomes"]) > 2
    assert score["score"] == score["killed"] / len(score["outcomes"])
    assert score["outcomes"][0]["operator"] == "early-exit"
    assert "1/" in printed.err
    assert run(kernel, *options[:-2]) == 0
    assert "100 % noticed: 1 killed, 0 survived" in capsys.readouterr().out


def test_mutants_can_be_listed_without_a_test(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(project / "kernel.py"), "--list", "--limit", "5") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert lines[-1] == "5 mutants"
    assert all("=>" in line for line in lines[:-1])
    assert run(str(project / "kernel.py"), "--list", "--json") == 0
    assert {m["path"] for m in json.loads(capsys.readouterr().out)} == {"kernel.py"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("missing.cu", "--list"), "there is no file missing.cu"),
        (("kernel.py",), "give --source or --against"),
        (("kernel.py", "--source", "softmax", "--against", "true"), "cannot be used together"),
        (("kernel.py", "--list", "--operator", "typo"), "no operator 'typo'"),
        (("kernel.txt", "--list"), "can be mutated"),
        (("kernel.py", "--against", "true", "--operator", "race"), "no operator can change anything"),
    ],
)
def test_bad_input_ends_with_2_and_names_the_fix(
    project: Path, arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(project)
    (project / "kernel.txt").write_text("x = 1\n")
    assert run(*arguments) == 2
    printed = capsys.readouterr()
    assert words in printed.err
    assert printed.out == ""
