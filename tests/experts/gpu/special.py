"""What the tests of the special experts for GPUs share: candidates at several points, run on the CPU and compared.

CUDA by the product's emulation, Triton and cuTile by their interpreters; truth is PyTorch in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from tests.experts.candidates import Traced, assert_as_accurate, emitted
from tests.experts.gpu import emulated, interpreted_tiles

from kernelwright.experts.protocol import Expert
from kernelwright.languages.builder import Builder
from kernelwright.types import Artifact, Candidate, KernelResources, Refusal, Target, Template

TARGET = Target(kind="cuda", architecture="sm_90a", features=(), threads=2, toolchain=())
Inputs = tuple[torch.Tensor, ...]
Case = tuple[Template, Traced, Sequence[Inputs]]


def templates(expert: Expert, traced: Traced) -> dict[str, Template]:
    """Returns an expert's templates for a reference, by name; it must have some."""
    answer = expert.propose(traced.problem, traced.graph, TARGET)
    found = answer if isinstance(answer, tuple) else (answer,)
    assert found
    named: dict[str, Template] = {}
    for item in found:
        assert isinstance(item, Template), item
        named[item.name] = item
    return named


def refusal(expert: Expert, traced: Traced) -> str:
    """Returns why a reference is refused: operator and reason."""
    answer = expert.propose(traced.problem, traced.graph, TARGET)
    assert isinstance(answer, Refusal), answer
    return f"{answer.subject}: {answer.reason}"


def answers(
    candidates: Sequence[tuple[Traced, Candidate, Inputs]], folder: Path, *, descending: bool = False
) -> list[list[torch.Tensor]]:
    """Returns what candidates of one language make of their inputs; all are built or interpreted together."""
    if candidates[0][1].language != "cuda":
        language = candidates[0][1].language
        jobs = [(traced.problem, made, arguments(traced, given)) for traced, made, given in candidates]
        found = interpreted_tiles.run(language, jobs, folder)
        for outcome, (_, made, _) in zip(found, candidates, strict=True):
            assert not isinstance(outcome, str), f"{outcome}\n{made.sources[0].text}"
        return [outcome for outcome in found if not isinstance(outcome, str)]
    named: dict[Candidate, str] = {}
    for _, made, _ in candidates:
        named.setdefault(made, f"kernel_{len(named)}")
    problems = {made: traced.problem for traced, made, _ in candidates}
    built = [(name, problems[made], made) for made, name in named.items()]
    library = emulated.build(built, folder, "special", descending=descending)
    return [
        emulated.run(library, (named[made], traced.problem, made), arguments(traced, given))
        for traced, made, given in candidates
    ]


def arguments(traced: Traced, given: Inputs) -> list[torch.Tensor]:
    """Returns inputs and parameters in order."""
    return [*given, *(traced.state[spec.name] for spec in traced.problem.parameters)]


def check(cases: Sequence[Case], folder: Path, *, others: int = 1) -> list[Candidate]:
    """Compares the default point, on all inputs, and others, on the last, with float64 by the judge's rule.

    Returns:
        the candidates at the default points.
    """
    jobs: list[tuple[Traced, Candidate, Inputs]] = []
    defaults = []
    for template, traced, given in cases:
        first, *more = emitted(template, others=others)
        defaults.append(first)
        jobs += [(traced, first, inputs) for inputs in given]
        jobs += [(traced, other, given[-1]) for other in more]
    for (traced, made, inputs), got in zip(jobs, answers(jobs, folder), strict=True):
        compare(traced, made, inputs, got)
    return defaults


def compare(traced: Traced, made: Candidate, inputs: Inputs, got: list[torch.Tensor]) -> None:
    """Compares one answer; halves by their own rounding."""
    for mine, theirs, exact in zip(got, traced.run(*inputs), traced.truth(*inputs), strict=True):
        try:
            if mine.dtype in (torch.float16, torch.bfloat16):
                assert_near(mine, theirs, exact)
            else:
                assert_as_accurate(mine, theirs, exact)
        except AssertionError as fault:
            raise AssertionError(f"{made.template} at {dict(made.point)}: {fault}") from fault


def assert_near(got: torch.Tensor, own: torch.Tensor, truth: torch.Tensor) -> None:
    """Checks halves: 4 times the reference's largest error, at least 4 roundings of the largest number."""
    assert torch.equal(torch.isnan(got), torch.isnan(own))
    finite = torch.isfinite(own) & torch.isfinite(truth)
    error, mine = ((t.double() - truth)[finite].abs() for t in (own, got))
    limit = max(4 * float(error.max()), 4 * torch.finfo(got.dtype).eps * float(truth[finite].abs().max()))
    assert float(mine.max()) <= limit, f"largest {float(mine.max()):.3g}, allowed {limit:.3g}"


def compiled(cases: Sequence[tuple[Template, Traced]], architecture: str) -> list[tuple[KernelResources, ...]]:
    """Returns what the kernels need at default points, built in the jail as a user's would be."""
    target = Target(kind="cuda", architecture=architecture, features=(), threads=2, toolchain=())
    found = []
    with Builder(target, workers=1) as builder:
        for template, traced in cases:
            (outcome,) = builder.build(traced.problem, list(emitted(template, others=0)))
            assert isinstance(outcome, Artifact), f"{template.name}: {outcome}"
            found.append(outcome.resources)
    return found
