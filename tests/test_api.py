"""What a Python user may pass: the same as on the command line, and mistakes that get one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernelwright import UserError, capture, judge_kernel, optimize


class Asked(Exception):
    """Ends a call once it is known what it asked for."""


def test_one_input_may_be_a_plain_text_and_a_source_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(source: str, *, inputs: tuple[str, ...], **_: Any) -> None:
        raise Asked(source, inputs)

    monkeypatch.setattr(capture, "load", load)
    with pytest.raises(Asked) as asked:
        optimize(Path("ops.py"), inputs="float32[4,8]")
    assert asked.value.args == ("ops.py", ("float32[4,8]",))


def test_a_function_object_is_refused_with_the_form_that_works() -> None:
    with pytest.raises(UserError, match=r"a function is no source; give .* file\.py:function"):
        optimize(lambda x: x)  # type: ignore[arg-type]


def test_an_unknown_policy_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.cpp"
    kernel.write_text("")
    with pytest.raises(UserError, match="there is no policy 'fast'; use one of measure, report, screen"):
        judge_kernel("softmax", kernel, policy="fast")
