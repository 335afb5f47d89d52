"""Mutants against a user's own test: its command, run in a copy of the project with the mutated kernel in place.

The original is never touched. Before any mutant the command must pass in the copy as it is, and must fail with a
kernel that is no kernel at all: a command that does not read the copy would let every mutant survive.
**Covers**: exit status, time-outs (the whole process group is killed), Python's compiled files (not written).
**Does not cover**: tests that name the project by an absolute path or as an installed package: they are refused.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kernelwright.errors import UserError
from kernelwright.mutation.mutant import Mutant
from kernelwright.mutation.score import Outcome
from kernelwright.values import value

LEFT_OUT = (
    ".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", ".tox", ".nox", "kernelwright-out",
)  # fmt: skip
"""Folders that no test of a kernel needs, and that may be large."""
MOST_BYTES = 2 << 30
SLOWER = 10.0
"""A mutant may take so many times as long as the original before it counts as hanging."""
LEAST_TIMEOUT_S = 20.0
FIRST_TIMEOUT_S = 1800.0
TAIL = 600
"""Characters of a command's output that an error repeats."""
NO_KERNEL = {".py": "raise RuntimeError('no kernel')\n"}
NO_KERNEL_CLIKE = "#error no kernel\n"


@value
class Ended:
    """How one run of the command ended."""

    status: int | None
    """None: it took too long and was killed."""
    seconds: float
    tail: str


def _left_out(folder: str, names: list[str]) -> set[str]:
    """What is not copied: some names, and what is neither a file nor a folder (pipes, sockets, devices)."""
    special = {name for name in names if _is_special(Path(folder) / name)}
    return special | shutil.ignore_patterns(*LEFT_OUT)(folder, names)


def _is_special(path: Path) -> bool:
    mode = path.lstat().st_mode
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))


class Project:
    """A copy of a project in which one file takes the place of another.

    Args:
        root: the folder to copy; the command runs in its copy.
        kernel: the file to replace, below `root`.
        command: a shell command; exit status 0 says that the test passes.
        timeout_s: for every mutant; None: ten times what the original takes, at least 20 s.

    Raises:
        UserError: the kernel is not below the root, or the root is too large to copy.
    """

    def __init__(self, root: Path, kernel: Path, command: str, *, timeout_s: float | None = None) -> None:
        self.root, self.command = root.resolve(), command
        try:
            self._place = kernel.resolve().relative_to(self.root)
        except ValueError:
            raise UserError(f"{kernel} is not below {root}", "name the project's folder with --root") from None
        if set(self._place.parts) & set(LEFT_OUT):
            raise UserError(f"{kernel} lies in a folder that is not copied", f"left out are {', '.join(LEFT_OUT)}")
        self._original = kernel.read_text(encoding="utf-8")
        self._timeout_s = timeout_s
        self._folder: Path | None = None

    @contextlib.contextmanager
    def copied(self) -> Iterator[Project]:
        """Makes the copy and removes it afterwards."""
        if _size(self.root) > MOST_BYTES:
            message = f"{self.root} holds more than {MOST_BYTES >> 30} GiB, too much to copy"
            raise UserError(message, "name a smaller folder with --root")
        with tempfile.TemporaryDirectory(prefix="kernelwright-mutate-") as place:
            self._folder = Path(place) / self.root.name
            shutil.copytree(self.root, self._folder, symlinks=True, ignore=_left_out)
            yield self

    def check(self) -> float:
        """Tries the original and a kernel that is none; returns the seconds that the original takes.

        Raises:
            UserError: the command fails on the original, or does not notice that there is no kernel.
        """
        first = self.run(self._original, timeout_s=self._timeout_s or FIRST_TIMEOUT_S)
        if first.status != 0:
            how = "takes too long" if first.status is None else f"fails (exit status {first.status})"
            raise UserError(f"{self.command!r} {how} on the kernel as it is: {first.tail}", "mend the test first")
        if self._timeout_s is None:
            self._timeout_s = max(LEAST_TIMEOUT_S, SLOWER * first.seconds)
        if self.run(NO_KERNEL.get(self._place.suffix, NO_KERNEL_CLIKE)).status == 0:
            message = f"{self.command!r} passes although {self._place} holds no kernel: it does not use the copied file"
            raise UserError(message, "let the test find the kernel by a path relative to the project's folder")
        return first.seconds

    def try_out(self, mutants: Sequence[Mutant]) -> Iterator[Outcome]:
        """Yields what the command says of each mutant."""
        for mutant in mutants:
            if mutant.equivalent:
                yield Outcome(mutant=mutant, state="equivalent", why=mutant.equivalent)
                continue
            ended = self.run(mutant.source.text)
            why = f"took longer than {self._timeout_s:.0f} s" if ended.status is None else f"exit status {ended.status}"
            yield Outcome(mutant=mutant, state="survived" if ended.status == 0 else "killed", why=why)

    def run(self, text: str, *, timeout_s: float | None = None) -> Ended:
        """Returns how the command ends with this text in the kernel's place."""
        assert self._folder is not None, "copied() makes the folder"
        (self._folder / self._place).write_text(text, encoding="utf-8")
        begun = time.monotonic()
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                ["/bin/sh", "-c", self.command], cwd=self._folder, env=self._environment(), stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            status: int | None = None
            try:
                status = process.wait(timeout_s or self._timeout_s)
            except subprocess.TimeoutExpired:
                pass
            finally:
                _end_group(process)
            output.seek(0)
            tail = " ".join(output.read().decode(errors="replace").split())[-TAIL:]
        return Ended(status=status, seconds=time.monotonic() - begun, tail=tail)

    def _environment(self) -> dict[str, str]:
        """Returns the environment, with the project's own folders on Python's path replaced by the copy's."""
        assert self._folder is not None
        given = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
        mapped = [self._mapped(entry) for entry in given]
        if (self._folder / "src").is_dir():
            mapped.insert(0, str(self._folder / "src"))
        path = {"PYTHONPATH": os.pathsep.join(dict.fromkeys(mapped))} if mapped else {}
        return {**os.environ, **path, "PYTHONDONTWRITEBYTECODE": "1"}

    def _mapped(self, entry: str) -> str:
        assert self._folder is not None
        with contextlib.suppress(ValueError):
            return str(self._folder / Path(entry).resolve().relative_to(self.root))
        return entry


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kills whatever the command has left running."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _size(root: Path) -> int:
    total = 0
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        for name in files:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
        if total > MOST_BYTES:
            break
    return total


def try_against(
    project: Project, mutants: Sequence[Mutant], *, on_outcome: Callable[[Outcome], None] | None = None
) -> tuple[Outcome, ...]:
    """Returns what a user's test says of each mutant, in their order.

    Raises:
        UserError: the test cannot be used; see `Project`.
    """
    with project.copied():
        project.check()
        found = []
        for outcome in project.try_out(mutants):
            found.append(outcome)
            if on_outcome:
                on_outcome(outcome)
    return tuple(found)
