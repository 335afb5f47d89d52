"""The command line: help that the documents repeat, exit statuses, one-line errors."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import click
import pytest

from kernelwright import api, capture, cli, report
from kernelwright.commands import authors, options
from kernelwright.commands.options import Seconds
from kernelwright.commands.outcomes import give
from kernelwright.errors import KernelwrightError, UserError
from kernelwright.judge.policies import POLICIES
from kernelwright.llm.prompts import GUIDED
from kernelwright.run.models.writing import MAX_TOKENS
from kernelwright.testing.strategies import fake_record
from kernelwright.types import Candidate, Failure, Judgement, LaunchPlan, Record, SourceFile, digest, replace

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "cli.md"
CANDIDATE = Candidate(
    problem="k1:problem", language="cpp", sources=(SourceFile(path="mine.cpp", text=""),), plan=LaunchPlan(steps=()),
    author="person",
)  # fmt: skip


def run(*arguments: str) -> int:
    """Returns the exit status of the command line, run in this process."""
    with pytest.raises(SystemExit) as stop:
        cli.main(list(arguments))
    assert isinstance(stop.value.code, int)
    return stop.value.code


def every_command() -> Iterator[tuple[str, click.Command]]:
    """Yields each command, a group before its own commands, with its name."""
    yield "", cli.cli
    for name in cli.COMMANDS:
        command = cli.cli.get_command(click.Context(cli.cli), name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", command.commands[inner]) for inner in sorted(command.commands))


def help_document() -> str:
    """Returns what docs/cli.md has to say: every command's help."""
    parts = ["# The command line\n\n`tests/test_cli.py` holds this page to what the commands print.\n"]
    for name, command in every_command():
        context = click.Context(
            command,
            info_name=f"kernelwright {name}" if name else "kernelwright",
            terminal_width=100,
            max_content_width=100,
            help_option_names=cli.cli.context_settings["help_option_names"],
        )
        parts.append(f"## {context.info_name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


def test_the_document_shows_the_present_help() -> None:
    assert DOCUMENT.read_text() == help_document(), "run: python tests/test_cli.py"


def test_the_table_of_commands_says_what_they_say() -> None:
    context = click.Context(cli.cli)
    assert list(cli.COMMANDS) == sorted(cli.COMMANDS)
    for name, (_, words) in cli.COMMANDS.items():
        command = cli.cli.get_command(context, name)
        assert command is not None
        assert (command.name, command.get_short_help_str(limit=100)) == (name, words)
    assert cli.cli.get_command(context, "unheard") is None


def test_choices_that_are_written_twice_agree() -> None:
    assert (options.DEVICES, options.JUDGED_ON) == (api.DEVICES, api.JUDGED_ON)
    assert sorted(POLICIES) == list(options.EFFORTS)
    assert (authors.GUIDED, authors.MAX_TOKENS) == (GUIDED, MAX_TOKENS)


def test_the_version_and_a_first_line_need_little() -> None:
    """Held by what is imported, never by a clock."""
    code = (
        "import sys, kernelwright.cli; {}; print(*(m for m in sys.modules if m.startswith(('kernelwright.', 'rich'))))"
    )
    for call, most in (("0", {"cli", "errors"}), ("kernelwright.cli.cli.get_command(None, 'optimize')", None)):
        done = subprocess.run([sys.executable, "-c", code.format(call)], capture_output=True, text=True, check=True)
        loaded = {name.partition(".")[2] for name in done.stdout.split()}
        assert not loaded & {"api", "run", "judge", "languages", "experts", "llm", "report", "types"}
        assert most is None or loaded == most


def test_problems_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("problems", "--json") == 0
    entries = json.loads(capsys.readouterr().out)
    assert len(entries) >= 24
    assert {"name", "group", "description", "model"} <= set(entries[0])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("optimize", "no-such-problem"), "no-such-problem"),
        (("optimize", "missing.py"), "missing.py"),
        (("optimize", "softmax", "--budget", "soon"), "'soon' is no duration; write 60s, 5m or 1h"),
        (("optimize", "softmax", "--budget", "0s"), "is no duration"),
        (("optimize", "softmax", "--device", "tpu"), "'tpu' is not"),
        (("judge", "softmax", "missing.cpp"), "--skeleton"),
        (("report", "no-such-folder"), "kernelwright optimize"),
        (("optimize", "softmax", "--seed", str(1 << 63)), "is not in the range"),
        (("unheard",), "No such command"),
    ],
)
def test_bad_input_ends_with_2_and_names_the_fix(
    arguments: tuple[str, ...],
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 2
    printed = capsys.readouterr()
    assert words in printed.err
    assert "Traceback" not in printed.err
    assert printed.out == ""


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (UserError("the file is empty", "write into it"), 2, "kernelwright: the file is empty; write into it\n"),
        (KernelwrightError("a worker died"), 1, "kernelwright: a worker died\n"),
        (ValueError("two\nlines"), 1, f"kernelwright: ValueError: two lines; {cli.BUG}\n"),
    ],
)
def test_errors_are_one_line_without_debug(
    error: Exception, status: int, line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(capture, "load", fail)
    assert run("show", "softmax") == status
    assert capsys.readouterr().err.partition("reading softmax\n")[2] == line
    assert run("show", "softmax", "--debug") == status
    assert "Traceback" in capsys.readouterr().err


def test_what_a_terminal_obeys_is_not_printed_and_a_long_text_is_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise UserError("\x1b[31mred\udcff " + "z" * 100_000)

    monkeypatch.setattr(capture, "load", fail)
    assert run("show", "softmax") == 2
    said = capsys.readouterr().err
    assert said.splitlines()[1].startswith("kernelwright: ?[31mred? zz")
    assert len(said) < 3000


def test_ctrl_c_ends_with_130(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(capture, "load", interrupt)
    assert run("show", "softmax") == 130
    assert "goes on from here" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_end_is_like_ctrl_c(
    number: signal.Signals, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: object, **__: object) -> None:
        signal.raise_signal(number)

    monkeypatch.setattr(capture, "load", end)
    assert run("show", "softmax") == 130
    assert "goes on from here" in capsys.readouterr().err
    assert signal.getsignal(number) is signal.SIG_DFL


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        (errno.ENOSPC, 2, "there: No space left on device; free some disk space"),
        (errno.EROFS, 2, "use a folder that can be written"),
        (errno.EMFILE, 2, "ulimit"),
        (errno.ELOOP, 2, "check the path"),
        (errno.EISDIR, 2, "check the path"),
        (errno.ENOENT, 1, cli.BUG),
    ],
)
def test_what_the_machine_refuses_names_the_fix(
    code: int, status: int, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code), "there")

    monkeypatch.setattr(capture, "load", refuse)
    assert run("show", "softmax") == status
    assert words in capsys.readouterr().err


def test_a_store_that_cannot_be_used_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "store.sqlite").write_text("this is no store, and it is long enough to look like a file")
    assert run("report", str(tmp_path)) == 2
    assert "doctor --store" in capsys.readouterr().err


def test_a_page_that_cannot_be_written_ends_with_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "html", lambda *_, **__: "page")
    with pytest.raises(UserError, match="name another page with --html"):
        give(None, tmp_path, as_json=True, page=tmp_path / "nowhere" / "page.html")  # type: ignore[arg-type]


def judged(record: Record, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Returns what `judge` prints about a record."""
    monkeypatch.setattr(api, "judge_kernel", lambda *_, **__: record)
    assert run("judge", "softmax", "mine.cpp", "--out", "there") == (0 if record.passed else 1)
    return capsys.readouterr().out


def test_judge_says_how_busy_the_machine_was_and_where_the_record_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet = fake_record(CANDIDATE, "k1:policy", 100.0)
    assert isinstance(quiet.outcome, Judgement)
    seen = judged(quiet, monkeypatch, capsys)
    key = digest(quiet).removeprefix("k1:")[:12]
    assert f"record: {key}; `kernelwright verify {key} --out there` judges it again" in seen
    assert "busy" not in seen
    busy = replace(quiet, outcome=replace(quiet.outcome, noise=0.5))
    assert "note: the machine was busy while this was timed (noise 50 %)" in judged(busy, monkeypatch, capsys)
    failure = Failure(stage="build", kind="syntax", message="expected ';'", location="mine.cpp:3")
    failed = judged(replace(quiet, outcome=failure), monkeypatch, capsys)
    assert failed.startswith("FAILED build, syntax at mine.cpp:3: expected ';'\nrecord: ")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_may_be_closed(closed: str) -> None:
    command = f"{sys.executable} -m kernelwright show softmax --reference {closed}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)


def test_python_m_works() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kernelwright", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"kernelwright, version {metadata.version('kernelwright')}"


@pytest.mark.parametrize(("text", "seconds"), [("60s", 60.0), ("5m", 300.0), ("1.5h", 5400.0), ("90", 90.0)])
def test_durations(text: str, seconds: float) -> None:
    assert Seconds().convert(text, None, None) == seconds


if __name__ == "__main__":
    DOCUMENT.write_text(help_document())
