"""The judge worker: the only process that runs the user's reference and starts runners.

Started by name (`python -m kernelwright.judge.worker`); the parent never imports it. It holds one
session, for one problem and one target, until it is ended or another one is opened. Not here: building (languages).
"""

from __future__ import annotations

from pathlib import Path

from kernelwright.errors import KernelwrightError
from kernelwright.judge.examine import examine
from kernelwright.judge.session import Session
from kernelwright.process import Emit, serve
from kernelwright.types import Artifact, Candidate, Failure, Judgement, Measurement, Policy, Problem, Target

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
    return examine(_session(), candidate, artifact, policy)


def baselines(emit: Emit, *, policy: Policy) -> tuple[Measurement, ...]:
    """Times the baselines alone."""
    return _session().measure_baselines(policy)


def _session() -> Session:
    if not _open:
        raise KernelwrightError("the judge worker has no session yet")
    return _open[-1]


if __name__ == "__main__":
    serve({"open": open_session, "prepare": prepare, "judge": judge, "baselines": baselines})
