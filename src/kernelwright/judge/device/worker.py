"""The device worker: holds one device's context, runs the reference and every candidate's kernels.

Started by name (`python -m kernelwright.judge.device.worker`); the parent never imports it. It imports torch at
once and touches the device at the first request, so that one can wait in reserve. After a fatal fault it says so
with its answer, and the parent ends it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import numpy.ma
import numpy.random  # noqa: F401  (sessions would import both, while somebody waits)
import torch

from kernelwright import environment
from kernelwright.errors import KernelwrightError
from kernelwright.judge.device import driver
from kernelwright.judge.device.cuda_executor import CudaExecutor
from kernelwright.judge.device.draws import Facts
from kernelwright.judge.device.examine import examine, measure_baselines
from kernelwright.judge.device.faults import DeviceFault, fault_of_torch
from kernelwright.judge.device.session import DeviceSession
from kernelwright.judge.device.turns import Turns, during
from kernelwright.judge.device.witnessing import WitnessedSession
from kernelwright.judge.witness.examine import examine_witnessed
from kernelwright.process import Emit, serve
from kernelwright.types import Artifact, Candidate, Failure, Judgement, Measurement, Policy, Problem, Target

_device: list[CudaExecutor] = []
_open: list[DeviceSession] = []
_witnessed: list[WitnessedSession] = []
"""The open session's counterpart for Python, made for the first such candidate."""
_turns = Turns(environment.turns())
_ended: list[DeviceFault] = []
"""Fatal faults with all that their tracebacks hold: giving graphs or modules back would wait for the device."""


def probe(emit: Emit) -> bool:
    """Takes hold of the device and sees that it answers rightly."""
    _executor().probe()
    return True


def open_session(emit: Emit, *, problem: Problem, target: Target, known: Sequence[Any] = ()) -> Facts:
    """Makes the session ready; returns what a session of the same problem in another worker need not find again.

    Asked again, it ends the session before, whose memory this one needs.
    """
    if _open:
        while _witnessed:
            _witnessed.pop().close()
        _open.clear()
        gc.collect()
        torch.cuda.empty_cache()
    facts = Facts(*known) if known else None
    _open.append(
        DeviceSession(problem, target, _executor(), emit, driver=driver.driver_version(), known=facts, turns=_turns)
    )
    return _open[-1].facts


def prepare(emit: Emit, *, policy: Policy) -> tuple[str, ...]:
    """Makes draws and baselines of a policy; returns notes on what was left out."""
    session = _session()
    session.prepare(policy)
    return session.notes(policy)


def judge(emit: Emit, *, candidate: Candidate, artifact: Artifact, policy: Policy) -> tuple[Failure | Judgement, bool]:
    """Judges one built candidate; tells also whether this worker can go on."""
    session = _session()
    if candidate.witnessed:
        # Its faults end its own context; whether the device is the worse for it, the probe says.
        with _turns.taken("alone"):
            return examine_witnessed(_witnessing(session, emit), candidate, artifact, policy), _answers()
    try:
        outcome = examine(session, candidate, artifact, policy)
        usable = True
    except DeviceFault as fault:
        outcome, usable = fault.failure, not fault.fatal
        if fault.fatal:
            _ended.append(fault)
    except RuntimeError as error:
        found = fault_of_torch(error, "judging")
        if found is None:
            raise
        outcome, usable = found.failure, not found.fatal
    if usable and isinstance(outcome, Failure):
        usable = _answers()
    return outcome, usable


def baselines(emit: Emit, *, policy: Policy) -> tuple[Measurement, ...]:
    """Times the baselines alone."""
    return measure_baselines(_session(), policy)


def _answers() -> bool:
    """Tells whether the device still answers, after a candidate that failed."""
    try:
        torch.cuda.empty_cache()
        _executor().probe()
    except (DeviceFault, RuntimeError):
        return False
    return True


def _executor() -> CudaExecutor:
    if not _device:
        # The same arithmetic for truth's counterpart, baselines and candidates: no silent TF32.
        torch.backends.cudnn.allow_tf32 = False
        torch.set_float32_matmul_precision("highest")
        _device.append(CudaExecutor())
    return _device[0]


def _witnessing(session: DeviceSession, emit: Emit) -> WitnessedSession:
    if not _witnessed:
        device, bandwidth = str(session.device), session.floors.bandwidth
        _witnessed.append(WitnessedSession(session.problem, session.target, emit, device=device, bandwidth=bandwidth))
    return _witnessed[-1]


def _session() -> DeviceSession:
    if not _open:
        raise KernelwrightError("the device worker has no session yet")
    return _open[-1]


if __name__ == "__main__":
    verbs: dict[str, Callable[..., Any]] = {"open": open_session, "prepare": prepare, "judge": judge}
    sharing = {verb: during(_turns, "shared", work) for verb, work in verbs.items()}
    serve({"probe": probe, **sharing, "baselines": during(_turns, "alone", baselines)})
