"""Runs a plan once, for a memory checker to watch: `python -m kernelwright.judge.device.replay FILE`.

Inputs are drawn on the host and copied, outputs and workspaces are left as they are allocated, and nothing but the
candidate's kernels runs on the device, so that every finding is about them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from kernelwright import codec
from kernelwright.judge.device import driver
from kernelwright.judge.device.cuda_executor import bare_executor
from kernelwright.reference_program import DTYPES, load_problem, state_of
from kernelwright.sizes import evaluate
from kernelwright.types import Artifact, Candidate, Problem

SEED = 20260412
DEADLINE_S = 100.0


def main(path: Path) -> None:
    """Loads what FILE holds and runs its plan."""
    given = codec.loads(path.read_text())
    problem, candidate, artifact = given["problem"], given["candidate"], given["artifact"]
    assert isinstance(problem, Problem)
    assert isinstance(candidate, Candidate)
    assert isinstance(artifact, Artifact)
    executor = bare_executor()
    loaded = executor.load(Path(artifact.path).read_bytes() if artifact.path else b"", candidate)
    reference = load_problem(problem)
    inputs = reference.make_inputs(SEED)
    state = [tensor for _, tensor in state_of(reference.make_module(SEED))]
    specs = (*problem.inputs, *problem.parameters)
    views = {spec.name: t.contiguous().to("cuda") for spec, t in zip(specs, (*inputs, *state), strict=True)}
    for spec in problem.outputs:
        views[spec.name] = torch.empty(spec.shape, dtype=DTYPES[spec.dtype], device="cuda")
    for workspace in candidate.plan.workspaces:
        size = evaluate(workspace.size_bytes, {axis.name: axis.size for axis in problem.axes})
        views[workspace.name] = torch.empty(size, dtype=torch.uint8, device="cuda")
    addresses = {name: view.data_ptr() for name, view in views.items()}
    axes = {axis.name: axis.size for axis in problem.axes}
    executor.issue(executor.bind(loaded, candidate.plan, addresses, views, axes))
    executor.wait(deadline_s=DEADLINE_S, during="the checked run")
    driver.unload_module(loaded.handle)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
