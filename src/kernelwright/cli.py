"""The command line: parse, call one function, print.

Each command is a module of commands/ that is imported when it is called, and each of these imports what takes long
when it runs: a first line appears before that.

Exit status: 0 done (also when the answer is the baseline), 1 a kernel failed the judge or the fault is ours,
2 the input cannot be used, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from typing import NoReturn

import click

from kernelwright.errors import KernelwrightError, UserError, fault_of_machine

BUG = "this is a fault of kernelwright: please report it with the output of --debug"
LINE = 2000
"""So much is said of an error, on one line."""
GONE = frozenset((errno.EPIPE, errno.EIO))
"""What writing says when the reader, or the terminal, is not there any more."""
COMMANDS = {
    "ablate": ("ablate", "Compare strategies on SOURCE at equal budget."),
    "analyze": ("analyze", "Say what a CUDA kernel's code is like, and what to try."),
    "bench": ("bench", "Run a public benchmark's tasks from your clone of it."),
    "corpus": ("corpus", "Make a corpus of verified kernels to learn from."),
    "doctor": ("doctor", "Say what this machine has and what is missing."),
    "env": ("env", "Serve the judge as a reinforcement learning environment."),
    "export": ("export", "Make a bundle of RECORDs that programs can load."),
    "gemm": ("gemm", "Tune matrix products on a Hopper GPU, and time them beside cuBLASLt."),
    "hacks": ("hacks", "Search the cheats that the judge has caught."),
    "judge": ("judge", "Judge KERNEL_FILE, a kernel that a person wrote, against SOURCE."),
    "mcp": ("mcp", "Serve coding agents over the Model Context Protocol."),
    "mutate": ("mutate", "Plant bugs in KERNEL and say which of them your test notices."),
    "optimize": ("optimize", "Find the fastest kernel for SOURCE that survives the judge."),
    "problems": ("problems", "List the built-in problems, or say which tasks of a folder are worth judging on."),
    "replay": ("replay", "Repeat a run with models from its stored replies."),
    "report": ("report", "Print what is known in FOLDER; write its page again."),
    "selftest": ("selftest", "Print the judge's own score: caught of planted, false alarms."),
    "show": ("show", "Show what SOURCE is, and which experts can work on it."),
    "skill": ("mcp", "Write the instructions that coding agents read."),
    "train": ("train", "Train an author: sft, select, contrast."),
    "verify": ("verify", "Judge a stored RECORD again, and say whether it holds."),
}
"""The module of commands/ that each command is in, as NAME_command, and what it does in a line."""


class Commands(click.Group):
    """Commands that are imported when they are named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Returns a command, None where there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"kernelwright.commands.{COMMANDS[cmd_name][0]}")
        found = getattr(module, f"{cmd_name}_command")
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="kernelwright", prog_name="kernelwright")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def cli(debug: bool) -> None:
    """Give it an operation; get back the fastest kernel that survives the judge, and the evidence."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Runs the command line and ends the process with its exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in given
    _open_closed_streams()
    try:
        with _ended_like_ctrl_c():
            # --debug is welcome anywhere on the line.
            cli.main([*(["--debug"] if debug else []), *(a for a in given if a != "--debug")], standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted; the same command goes on from here", err=True)
        sys.exit(130)
    except UserError as error:
        _fail(error, str(error), debug=debug, status=2)
    except KernelwrightError as error:
        _fail(error, str(error), debug=debug, status=1)
    except OSError as error:
        if error.errno in GONE:
            _leave_quietly()
        known = fault_of_machine(error)
        text = str(known) if known else f"{type(error).__name__}: {error}; {BUG}"
        _fail(error, text, debug=debug, status=2 if known else 1)
    except Exception as error:  # noqa: BLE001  (the last resort: one line, and the traceback on demand)
        _fail(error, f"{type(error).__name__}: {error}; {BUG}", debug=debug, status=1)
    sys.exit(0)


@contextlib.contextmanager
def _ended_like_ctrl_c() -> Iterator[None]:
    """Lets a request to end, and a terminal that closes, keep what was judged, as Ctrl-C does."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    taken = [number for number, handler in before.items() if handler is signal.SIG_DFL]  # not where nohup ignores it
    for number in taken:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _open_closed_streams() -> None:
    """Fills the places of standard streams that were closed, before a channel to a worker takes one of them."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            with contextlib.suppress(OSError):
                os.fstat(number)
                continue
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
            setattr(sys, name, open(number, "w" if number else "r"))  # noqa: SIM115  (open until the process ends)


def _leave_quietly() -> NoReturn:
    """Ends as other programs do when nobody reads their output any more, such as before `| head`."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(nowhere, stream.fileno())  # or Python would complain when it flushes at the end
    sys.exit(128 + signal.SIGPIPE)


def _fail(error: Exception, text: str, *, debug: bool, status: int) -> NoReturn:
    if debug:
        traceback.print_exception(error)
    # What the user's code says may hold what a terminal obeys.
    line = "".join(character if character.isprintable() else "?" for character in " ".join(text.split())[:LINE])
    click.echo(f"kernelwright: {line}", err=True)
    sys.exit(status)
