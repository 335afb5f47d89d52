from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright.capture.source import draft
from kernelwright.errors import SourceError

CONTRACT = "def get_inputs(): ...\ndef get_init_inputs(): ...\n"


def test_a_draft_executes_nothing_and_carries_the_text(write: Callable[..., Path]) -> None:
    text = '"""Scaled product.\n\nMore."""\nraise SystemExit("executed")\nclass Model: ...\n' + CONTRACT
    problem = draft(str(write(text)), evaluation=True)
    assert problem.reference[0].text == text
    assert (problem.name, problem.entry, problem.evaluation) == ("user", "Model", True)
    assert problem.description == "Scaled product."
    assert problem.workloads[0].generator == "source"
    assert problem.inputs == problem.parameters == problem.outputs == ()


@pytest.mark.parametrize(
    "binding",
    [
        "class Model: ...",
        "Model = object",
        "from net import Model",
        "from net import Net as Model",
        "from net import *",
    ],
)
def test_model_may_be_bound_in_any_way(binding: str, write: Callable[..., Path]) -> None:
    path = (
        write(f"if True:\n    {binding}\n" + CONTRACT, net="class Net: ...\nModel = Net\n")
        if "*" not in binding
        else (write(binding + "\n" + CONTRACT, net="class Model: ...\n"))
    )
    assert draft(str(path)).entry == "Model"


SIGNATURES = {
    "def f(x, y): ...": ["x", "y"],
    "def f(x, /, y=2): ...": ["x", "y"],
    "def f(*xs): ...": ["xs0", "xs1"],
    "def f(x, *rest, flag=True): ...": ["x", "rest0"],
    "def f(out, float): ...": ["out_", "float_"],
}


@pytest.mark.parametrize("signature", SIGNATURES)
def test_inputs_are_named_after_the_functions_parameters(signature: str, write: Callable[..., Path]) -> None:
    problem = draft(f"{write(signature)}:f", inputs=("float32[2]", "int64[]"))
    assert [spec.name for spec in problem.inputs] == SIGNATURES[signature]
    assert [(spec.shape, spec.dtype) for spec in problem.inputs] == [((2,), "float32"), ((), "int64")]


def test_a_keyword_only_parameter_needs_a_default(write: Callable[..., Path]) -> None:
    with pytest.raises(SourceError, match="keyword-only parameter without a default: scale"):
        draft(f"{write('def f(x, *, scale): ...')}:f", inputs=("float32[2]",))


def test_a_function_needs_arguments_and_must_be_plain(write: Callable[..., Path]) -> None:
    path = write("def f(): ...\nasync def g(x): ...\n")
    with pytest.raises(SourceError, match="takes no arguments"):
        draft(f"{path}:f")
    with pytest.raises(SourceError, match="g is asynchronous"):
        draft(f"{path}:g", inputs=("float32[2]",))


def test_siblings_with_mistakes_are_named(write: Callable[..., Path]) -> None:
    path = write("import ops\nclass Model: ...\n" + CONTRACT, ops="def f(:\n    pass\n")
    with pytest.raises(SourceError, match=r"ops\.py:1: "):
        draft(str(path))
    path.with_name("ops.py").write_bytes(b"\xff\xfe")
    with pytest.raises(SourceError, match=r"ops\.py is not UTF-8 text"):
        draft(str(path))


def test_the_standard_library_and_installed_packages_are_not_carried(write: Callable[..., Path]) -> None:
    path = write(
        "import json, torch, missing\nfrom collections import abc\nclass Model: ...\n" + CONTRACT,
        json="1 / 0\n",
        torch="1 / 0\n",
    )
    assert [file.path for file in draft(str(path)).reference] == ["user.py"]


def test_a_cycle_of_imports_ends(write: Callable[..., Path]) -> None:
    path = write("import a\nclass Model: ...\n" + CONTRACT, a="import b\n", b="import a, user\n")
    assert [file.path for file in draft(str(path)).reference] == ["user.py", "a.py", "b.py"]


def test_every_function_of_a_file_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "many.py"
    path.write_text("".join(f"def op{i}(x): return x\n" for i in range(12)))
    with pytest.raises(SourceError, match=r"it defines op0, .*, op10, op11"):
        draft(str(path))
