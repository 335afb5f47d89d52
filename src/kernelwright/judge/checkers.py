"""Memory and race checking of finalists on the CPU: a checked build is run, in a jail, on buffers of exact size.

The first fault that a checker finds fails the candidate, even where its answers are right: a read of one element beyond
a tensor is right until the day the page after it is missing.

**Covers**: reads and writes beyond tensors, workspaces, own allocations and the stack; freed memory; arithmetic and
pointers without meaning; races between threads of a team.
**Does not cover**: what checked.py leaves out; other inputs than the families used here; a build that takes longer than
its deadline, which is noted.
Not here: what the checkers print (checker_reports.py).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import torch

from kernelwright.axes import sizes_of
from kernelwright.errors import UserError
from kernelwright.jail import Jail
from kernelwright.judge.checker_reports import buffers_of, evidence
from kernelwright.judge.draws import Draw
from kernelwright.judge.session import Session
from kernelwright.judge.slots import bytes_of
from kernelwright.sizes import evaluate
from kernelwright.types import Artifact, Candidate, Check

FAMILIES = ("given", "nonfinite")
"""Ordinary numbers, and those that turn comparisons and conversions round."""
THREADS = 4
"""Of a team under the race checker: it follows what waits for what, not who happens to be first."""
MEMORY_BYTES = 12 << 30
OPTIONS = {
    "address": (
        "ASAN_OPTIONS",
        "detect_leaks=0:allocator_may_return_null=1:detect_stack_use_after_return=1:exitcode=86",
    ),
    "undefined": ("UBSAN_OPTIONS", "print_stacktrace=0:halt_on_error=1:exitcode=86"),
    "thread": ("TSAN_OPTIONS", "halt_on_error=1:exitcode=86:report_signal_unsafe=0"),
}
REPORT_BYTES = 1 << 18


def check(
    session: Session, candidate: Candidate, checker: str, artifact: Artifact, program: Path, deadline_s: float
) -> Check | str:
    """Runs one checked build and returns what was found, or a note on why nothing can be said.

    Args:
        session: whose draws are used.
        candidate: what was built.
        checker: `address`, `undefined` or `thread`.
        artifact: the build with the checker in it.
        program: the checked runner that was built with the same checker.
        deadline_s: how long all calls may take.
    """
    draws = [draw for family in FAMILIES if (draw := session.draw(family, 0))]
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as said:
        _lay_out(Path(place), session, candidate, draws)
        jail = Jail(
            read=(str(program.parent), os.path.dirname(artifact.path), place),
            memory_bytes=MEMORY_BYTES,
            reserves=True,
            fixed_addresses=checker == "thread",
        )
        sizes = [str(axis.size) for axis in session.problem.axes]
        command = [str(program), place, artifact.path, str(THREADS), *sizes]
        try:
            with _all_processors(), jail.start(command, environment=_environment(checker, session), stdout=said,
                                               stderr=told) as jailed:  # fmt: skip
                status, reason = jailed.wait(deadline_s), jailed.reason
        except subprocess.TimeoutExpired:
            return f"checker {checker}: not through within {deadline_s:g} s"
        except UserError as error:
            return f"checker {checker}: {error.message}"
        report, printed = (_text(file) for file in (told, said))
    return _judge(checker, status, reason, report, printed, len(draws))


def _judge(checker: str, status: int, reason: str, report: str, printed: str, draws: int) -> Check | str:
    if found := evidence(checker, report, buffers_of(printed)):
        return Check(name=checker, passed=False, evidence=found)
    if status == 0 and printed.endswith("done\n"):
        return Check(name=checker, passed=True, evidence=f"nothing found in {draws} calls on buffers of exact size")
    if reason:
        return f"checker {checker}: ended for its {reason}"
    lines = [line for line in report.splitlines() if line.strip()]
    if lines and lines[0].startswith("checked_runner:"):
        return f"checker {checker}: {lines[0].partition(': ')[2]}"
    how = f"by signal {-status}" if status < 0 else f"with status {status}"
    text = f"the checked build ended {how}{': ' + lines[0][:300] if lines else ''}"
    return Check(name=checker, passed=False, evidence=text)


def _lay_out(place: Path, session: Session, candidate: Candidate, draws: Sequence[Draw]) -> None:
    """Writes the plan and every draw's inputs, in the order in which the entry takes them."""
    problem = session.problem
    inputs = (*problem.inputs, *problem.parameters)
    lines = [f"{spec.name} {bytes_of(spec)} i" for spec in inputs]
    lines += [f"{spec.name} {bytes_of(spec)} o" for spec in problem.outputs]
    axes = sizes_of(problem)
    lines += [f"{space.name} {evaluate(space.size_bytes, axes)} w" for space in candidate.plan.workspaces]
    (place / "plan").write_text("\n".join([f"{len(draws)} {len(lines)}", *lines]) + "\n")
    for number, draw in enumerate(draws):
        for index, tensor in enumerate((*draw.inputs, *draw.parameters)):
            data = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
            (place / f"{number}.{index}").write_bytes(data.tobytes())


def _environment(checker: str, session: Session) -> dict[str, str]:
    name, options = OPTIONS[checker]
    return {name: options, "OMP_NUM_THREADS": str(session.target.threads), "OMP_DYNAMIC": "false"}


@contextlib.contextmanager
def _all_processors() -> Iterator[None]:
    """libgomp has bound this thread to one processor; what is started here needs all of them."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, os.sched_getaffinity(os.getppid()))
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(REPORT_BYTES).decode(errors="replace")
