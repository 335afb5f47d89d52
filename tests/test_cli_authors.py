"""What the command line says about models before anything is asked."""

from __future__ import annotations

import pytest

from kernelwright import cli


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--model", "gpt"), "PROVIDER/NAME"),
        (("--model", "openai/gpt-5"), "OPENAI_API_KEY"),
        (("--model", "replay/nowhere.jsonl"), "nowhere.jsonl cannot be read"),
        (("--model", "ollama/a", "--review", "ollama/b"), "add --model ollama/b"),
        (("--model", "ollama/a", "--price", "ollama/a=free"), "is no price"),
    ],
)
def test_bad_models_end_with_2_and_name_the_fix(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(SystemExit) as stop:
        cli.main(["optimize", "softmax", *arguments])
    assert stop.value.code == 2
    assert words in capsys.readouterr().err


def test_a_price_that_nobody_knows_must_be_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-or-0123456789abcdefghij")
    with pytest.raises(SystemExit) as stop:
        cli.main(["optimize", "softmax", "--model", "openrouter/new/thing"])
    assert stop.value.code == 2
    assert "--price openrouter/new/thing=IN,OUT" in capsys.readouterr().err
