"""The judge worker: the only process that runs the user's reference and starts runners.

Started by name (`python -m kernelwright.judge.worker`); the parent never imports it. It holds one
session, for one problem and one target, until it is ended or another one is opened. Not here: building (languages).
"""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import torch

from kernelwright.errors import KernelwrightError
from kernelwright.judge import checkers
from kernelwright.judge.draws import Draws
from kernelwright.judge.examine import examine
from kernelwright.judge.nulls import Nulls
from kernelwright.judge.session import Session, available_bytes
from kernelwright.judge.witness.examine import examine_witnessed
from kernelwright.process import Emit, serve
from kernelwright.types import Artifact, Candidate, Check, Failure, Judgement, Measurement, Policy, Problem, Target

ADMISSION_MEMORY_SHARE = 0.25
"""Of the free memory, for draws that are kept while null candidates are tried."""

_open: list[Session] = []


def open_session(emit: Emit, *, problem: Problem, target: Target, program: str) -> bool:
    """Makes the session ready; the first request. Asked again, it ends the session before."""
    while _open:
        _open.pop().close()
    _open.append(Session(problem, target, Path(program), emit))
    return True


def prepare(emit: Emit, *, policy: Policy) -> tuple[str, ...]:
    """Makes draws and baselines of a policy; returns notes on what was left out."""
    session = _session()
    session.prepare(policy)
    return session.notes(policy)


def judge(emit: Emit, *, candidate: Candidate, artifact: Artifact, policy: Policy) -> Failure | Judgement:
    """Judges one built candidate."""
    look = examine_witnessed if candidate.witnessed else examine
    return look(_session(), candidate, artifact, policy)


def check_memory(
    emit: Emit, *, candidate: Candidate, checker: str, artifact: Artifact, program: str, seconds: float
) -> Check | str:
    """Runs one build with a checker in it; returns what was found, or a note on why nothing can be said."""
    return checkers.check(_session(), candidate, checker, artifact, Path(program), seconds)


def baselines(emit: Emit, *, policy: Policy) -> tuple[Measurement, ...]:
    """Times the baselines alone."""
    return _session().measure_baselines(policy)


def admit(emit: Emit, *, problem: Problem, families: tuple[str, ...]) -> dict[str, Any]:
    """Tries the null candidates on a problem, within the memory that is free; needs no session."""
    torch.set_num_threads(1)
    free = available_bytes()
    limit_memory(free)
    draws = Draws(problem, int.from_bytes(os.urandom(6), "little"), ADMISSION_MEMORY_SHARE * free)
    nulls = Nulls(draws)
    found = nulls.run(families, 1, tell=emit)
    return {
        "nulls": tuple((null.output, null.name, null.caught_by) for null in found),
        "independent": tuple(nulls.independent()),
        "fixed": tuple(nulls.fixed()),
        "left_out": draws.left_out(families),
    }


def limit_memory(free: int) -> None:
    """Makes allocations beyond the free memory fail, where the process would be killed otherwise."""
    used = next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmData" in line)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = used * 1024 + free
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def _session() -> Session:
    if not _open:
        raise KernelwrightError("the judge worker has no session yet")
    return _open[-1]


if __name__ == "__main__":
    serve(
        {
            "open": open_session,
            "prepare": prepare,
            "judge": judge,
            "check_memory": check_memory,
            "baselines": baselines,
            "admit": admit,
        }
    )
