"""Calls of vendor libraries as candidates: a plan and no source, so that a tuned product is judged like any kernel.

There is nothing to compile: the artifact holds the plan's text, and the device judge makes the calls.
Not here: the routines themselves (judge/device/library.py), whether a plan is possible (device_plan.py).
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from kernelwright import codec
from kernelwright.languages import cache
from kernelwright.languages.device_plan import check_device_plan
from kernelwright.types import Artifact, Candidate, Failure, Problem, Target, digest

FORMAT = "library-1"


class Library:
    """Plans whose steps are library calls and memsets only.

    **Covers**: that nothing but such steps is asked for.
    **Does not cover**: whether the routine takes these arguments, which the call itself shows.
    """

    name = "library"

    def key(self, problem: Problem, candidate: Candidate, target: Target) -> str | Failure:
        """Returns the digest of the plan and the architecture, or why there is none."""
        if candidate.sources or any(step.kind == "kernel" for step in candidate.plan.steps):
            message = "a library candidate has library calls and memsets only, and no sources"
            return Failure(stage="plan", kind="plan", message=message)
        fault = check_device_plan(problem, candidate, target)
        return fault or digest((FORMAT, candidate.plan, target.architecture))

    def compile(self, problem: Problem, candidate: Candidate, target: Target, folder: Path) -> Artifact | Failure:
        """Writes the plan as the artifact."""
        key = self.key(problem, candidate, target)
        if isinstance(key, Failure):
            return key
        path = folder / cache.CUBIN
        path.write_text(codec.dumps(candidate.plan))
        blob = f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
        return Artifact(candidate=digest(candidate), key=key, blob=blob, entry="", plan=candidate.plan, path=str(path))
