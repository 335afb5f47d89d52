"""What the tile languages have in common: a key from the same parts, a build in a worker that runs the author's Python.

Not here: what a language's sources and options may be (triton.py, cutile.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from kernelwright.languages import author_code
from kernelwright.languages.author_code import LIMITS
from kernelwright.languages.bounded import Limits
from kernelwright.languages.tile_arguments import Matched, PlanFault
from kernelwright.types import Artifact, Candidate, Failure, OptionValue, Problem, Target, digest


class TileLanguage:
    """One tile language; a class below it says what its sources may be.

    **Covers**: the key's parts, the jailed build. **Does not cover**: options, architectures, signatures (`check`).
    """

    name: str
    worker: str
    """The module that builds, in a process of its own."""
    format: int
    """Part of every key."""
    runs_author_code = True
    """Its builds import what the author wrote, in a process of their own that must be jailed."""
    makes_plan = True
    """Its artifacts have a plan of their own."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.limits = limits

    def versions(self) -> object:
        """Returns the versions of what builds.

        Raises:
            MissingTool: when it is not installed.
        """
        raise NotImplementedError

    def check(self, problem: Problem, candidate: Candidate, target: Target) -> Failure | None:
        """Returns why a candidate cannot be built, None where nothing is known against it.

        Raises:
            PlanFault: when plan and source do not fit.
        """
        raise NotImplementedError

    def key(self, problem: Problem, candidate: Candidate, target: Target) -> str | Failure:
        """Returns the digest of sources, plan, options, shapes, architecture and the compilers' versions.

        Raises:
            MissingTool: when a compiler is not installed.
        """
        versions = self.versions()
        try:
            if fault := self.check(problem, candidate, target):
                return fault
        except PlanFault as found:
            return found.failure()
        shapes = tuple((tensor.name, tensor.shape, tensor.dtype) for tensor in problem.arguments)
        parts = (self.format, self.name, versions, candidate.sources, candidate.plan, candidate.options, shapes)
        return digest((*parts, problem.axes, target.architecture))

    def compile(self, problem: Problem, candidate: Candidate, target: Target, folder: Path) -> Artifact | Failure:
        """Builds a candidate in an empty folder; the cubin is `folder/kernel.cubin`."""
        key = self.key(problem, candidate, target)
        if isinstance(key, Failure):
            return key
        return author_code.build(
            self.worker, key=key, problem=problem, candidate=candidate, target=target, folder=folder, limits=self.limits
        )


def unsupported(name: str, target: Target, known: Iterable[str]) -> Failure:
    """Returns that a language cannot build for an architecture."""
    message = f"{name} cannot build for {target.architecture!r}; it builds for {', '.join(known)}"
    return Failure(stage="build", kind="target", message=message)


def chosen_settings(
    candidate: Candidate, matched: Matched, known: Mapping[str, tuple[int, ...]]
) -> tuple[tuple[str, OptionValue], ...]:
    """Returns a step's settings: the step's own, else the candidate's.

    Raises:
        PlanFault: for a value that cannot be.
    """
    chosen = {name: given for name, given in candidate.options if name in known} | dict(matched.settings)
    for name, given in chosen.items():
        if type(given) is not int or given not in known[name]:
            choices = ", ".join(map(str, known[name]))
            raise PlanFault(f"{matched.where}: option {name!r} is {given!r}; it can be {choices}", kind="option")
    return tuple(sorted(chosen.items()))
