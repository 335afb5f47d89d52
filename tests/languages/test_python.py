"""The language python: syntax only, and files with what they import."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.judge.python_files import python_candidate, python_problem

from kernelwright import codec
from kernelwright.errors import UserError
from kernelwright.languages import candidate_from_file, check_plan, load, names
from kernelwright.types import Artifact, Failure, Step, Target, replace

TARGET = Target(kind="cpu", architecture="any", features=(), threads=1, toolchain=(("torch", "2.11"),))
TEXT = "import torch\nclass ModelNew(torch.nn.Module):\n    pass\n"


def test_it_is_a_language_and_its_candidates_are_witnessed() -> None:
    assert "python" in names()
    candidate = python_candidate(python_problem(), TEXT)
    assert candidate.witnessed
    assert not replace(candidate, language="cpp").witnessed
    assert check_plan(python_problem(), candidate) is None
    planned = replace(candidate, plan=replace(candidate.plan, steps=(Step(symbol="f", arguments=()),)))
    fault = check_plan(python_problem(), planned)
    assert fault is not None
    assert "leave the plan empty" in fault.message


def test_building_executes_nothing(tmp_path: Path) -> None:
    problem = python_problem()
    candidate = python_candidate(problem, f"open({str(tmp_path / 'x')!r}, 'w')\n{TEXT}")
    made = load("python").compile(problem, candidate, TARGET, tmp_path)
    assert isinstance(made, Artifact)
    assert codec.loads(Path(made.path).read_text()) == candidate.sources
    assert made.key == load("python").key(problem, candidate, TARGET)
    assert not (tmp_path / "x").exists()


def test_what_can_be_refused_without_running_is() -> None:
    problem = python_problem()
    bad = python_candidate(problem, "import torch\nclass ModelNew(:\n")
    made = load("python").compile(problem, bad, TARGET, Path("/nowhere"))
    assert isinstance(made, Failure)
    assert (made.kind, made.location) == ("syntax", "kernel.py:2")
    null = load("python").compile(problem, python_candidate(problem, "x = '\0'"), TARGET, Path("/nowhere"))
    assert isinstance(null, Failure)
    optioned = replace(python_candidate(problem, TEXT), options=(("opt", "O2"),))
    refused = load("python").key(problem, optioned, TARGET)
    assert isinstance(refused, Failure)
    assert "'opt'" in refused.message


def test_a_file_brings_what_it_imports_from_beside_it(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "kernel.py").write_text(f"import os\nimport near\nfrom parts.inner import f\n{TEXT}")
    (tmp_path / "near.py").write_text("from parts import other\n")
    (tmp_path / "unused.py").write_text("")
    for name in ("__init__", "inner", "other"):
        (tmp_path / "parts" / f"{name}.py").write_text("from . import other\n")
    candidate = candidate_from_file(python_problem(), tmp_path / "kernel.py")
    paths = [source.path for source in candidate.sources]
    assert paths[0] == "kernel.py"
    assert sorted(paths[1:]) == ["near.py", "parts/__init__.py", "parts/inner.py", "parts/other.py"]
    assert candidate.language == "python"
    assert candidate.plan.steps == ()


def test_a_file_without_what_it_should_define_is_the_users_fault(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text("class Model:\n    pass\n")
    with pytest.raises(UserError, match="defines no ModelNew"):
        candidate_from_file(python_problem(), file)
    with pytest.raises(UserError, match="there is no file"):
        candidate_from_file(python_problem(), tmp_path / "none.py")
    with pytest.raises(UserError, match=r"\.cpp, \.cu or \.py"):
        candidate_from_file(python_problem(), tmp_path / "kernel.txt")
