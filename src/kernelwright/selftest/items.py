"""What the judge's self-test judges: the corpus as items, for the CPU and for CUDA C++ on a device or emulated.

On the CPU bugs are planted from a list (planted.py); in CUDA kernels every bug that the mutation tool makes is, but
for those that `tests/mutants/passes.txt` explains. Not here: judging them (__init__.py).
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kernelwright.judge import policies_for
from kernelwright.judge.device.memory_check import TOOLS
from kernelwright.judge.policies import DEVICE_CHECKERS, FAMILIES
from kernelwright.languages import is_emulated
from kernelwright.mutation import mutants
from kernelwright.selftest.kernel_files import CORPUS, Kernel, kernel_of, kernels
from kernelwright.selftest.planted import FOLDER, THREADS, Planted, planted
from kernelwright.selftest.sessions import PLANTED, QUICK
from kernelwright.selftest.small_problems import make_problem
from kernelwright.types import Candidate, Policy, SourceFile, Target, replace

Kind = Literal["cheat", "mutant", "honest"]
ONLY_ON_A_DEVICE = ("barrier_that_nobody_reaches", "cooperative_grid_too_large", "grid_barrier_without_room", "endless")
"""Cheats that an emulated device cannot be shown: inline PTX, cooperative launches, and what never ends."""


@dataclass(frozen=True)
class Item:
    """One kernel of the corpus before it is judged."""

    kind: Kind
    name: str
    problem: str
    candidate: Candidate
    expected: tuple[str, ...]
    policy: Policy
    unfit: bool = False
    """It cannot go wrong on this machine."""
    closer: Policy | None = None
    """How it is judged again when it passed: with what only a finalist is put to, and takes seconds."""


def items_of(kind: Kind, target: Target) -> Iterator[Item]:
    """Yields what of one kind is judged on a target."""
    return (
        _on_the_cpu(kind, target.threads) if target.kind == "cpu" and not is_emulated(target) else _cuda(kind, target)
    )


def _on_the_cpu(kind: Kind, threads: int) -> Iterator[Item]:
    if kind == "mutant":
        for bug in planted():
            unfit = THREADS in bug.reasons and threads < 2
            expected = tuple(r for r in bug.reasons if r != THREADS)
            yield Item(kind, bug.name, bug.kernel.problem, bug.candidate(), expected, PLANTED, unfit)
        return
    for kernel in kernels("cheats" if kind == "cheat" else "honest"):
        expected = kernel.reasons if kind == "cheat" else ()
        yield _item(kind, kernel, expected, QUICK, unfit=_unfit(kernel, threads))


def _item(
    kind: Kind, kernel: Kernel, expected: tuple[str, ...], policy: Policy, *, unfit: bool, closer: Policy | None = None
) -> Item:
    candidate = kernel.candidate(make_problem(kernel.problem))
    return Item(kind, kernel.path.stem, kernel.problem, candidate, expected, policy, unfit, closer)


def _unfit(kernel: Kernel, threads: int) -> bool:
    other_machine = kernel.said("MACHINE", platform.machine()) != platform.machine()
    return other_machine or int(kernel.said("THREADS", "1")) > threads


# ------------------------------------------------------------------------------------------------------- CUDA C++


def _cuda(kind: Kind, target: Target) -> Iterator[Item]:
    quick = policy_on(target)
    emulated = is_emulated(target)
    every = replace(quick, families=FAMILIES)
    closer = None if emulated or kind == "cheat" else replace(every, memory_checkers=DEVICE_CHECKERS, deadline_s=240.0)
    if kind == "mutant":
        for bug in _every_bug():
            yield Item(kind, bug.name, bug.kernel.problem, bug.candidate(), (), every, closer=closer)
        return
    for kernel in kernels("cheats_cuda" if kind == "cheat" else "honest_cuda", suffix=".cu"):
        expected = kernel.reasons if kind == "cheat" else ()
        for_it = kernel.said("ARCH", target.architecture).split()
        unfit = kernel.path.stem in ONLY_ON_A_DEVICE if emulated else target.architecture not in for_it
        checkers = () if emulated else tuple(tool for tool in TOOLS if tool in expected)
        yield _item(kind, kernel, expected, replace(quick, memory_checkers=checkers), unfit=unfit, closer=closer)


def policy_on(target: Target) -> Policy:
    """Returns how kernels of the corpus are judged on a GPU, real or emulated: for verdicts, not for times."""
    like = policies_for(target)["screen" if is_emulated(target) else "measure"]
    quick = replace(like, name="quick", draws=1, baselines=like.baselines[:1], hidden_shapes=3)
    if is_emulated(target):
        return replace(quick, call_deadline_s=10.0)
    return replace(quick, rounds=4, call_deadline_s=2.0)


def _every_bug() -> Iterator[Planted]:
    explained = (CORPUS / FOLDER / "passes.txt").read_text().splitlines()
    known = {line.partition(" | ")[0] for line in explained}
    for path in sorted((CORPUS / FOLDER / "kernels").glob("*.cu")):
        for mutant in mutants(SourceFile(path=path.name, text=path.read_text()), "cuda"):
            if f"{mutant.name}: {mutant.after}" not in known:
                yield Planted(kernel_of(path), mutant, ())
