"""The table of languages: how sources become an artifact, by name.

A language is found through an entry point of the group `kernelwright.languages`; the built-in ones
are listed here as entry points too, and load by the same road.
Not here: the languages themselves (cpp.py), nor the processes that run them (builder.py, worker.py).
"""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Protocol, runtime_checkable

from kernelwright.errors import UserError
from kernelwright.types import Artifact, Candidate, Failure, Problem, Target

GROUP = "kernelwright.languages"
BUILT_IN = (
    EntryPoint("cpp", "kernelwright.languages.cpp:Cpp", GROUP),
    EntryPoint("cuda", "kernelwright.languages.cuda:Cuda", GROUP),
    EntryPoint("library", "kernelwright.languages.library:Library", GROUP),
    EntryPoint("python", "kernelwright.languages.python:Python", GROUP),
    EntryPoint("triton", "kernelwright.languages.triton:Triton", GROUP),
    EntryPoint("cutile", "kernelwright.languages.cutile:Cutile", GROUP),
    EntryPoint("cute", "kernelwright.languages.cute:Cute", GROUP),
)
"""In order of priority: a plug-in cannot take a built-in language's name."""


@runtime_checkable
class Language(Protocol):
    """How the sources of one language become an artifact.

    **Covers**: what is compiled, with which flags, and what is refused before and after.
    **Does not cover**: the launch plan (plan.py), caching (cache.py), processes (builder.py).

    A language whose compiler runs its author's code (imports the sources) says so with `runs_author_code = True`, and
    runs that code by `bounded.run(..., jailed=True)`.
    """

    name: str

    def key(self, problem: Problem, candidate: Candidate, target: Target) -> str | Failure:
        """Returns a digest of everything that the build depends on, or why there can be none.

        Runs in the parent: quick, and without looking at anything but the values and the compiler's version.

        Raises:
            MissingTool: when the compiler is not installed.
        """
        ...

    def compile(self, problem: Problem, candidate: Candidate, target: Target, folder: Path) -> Artifact | Failure:
        """Builds and inspects one candidate in an empty private folder; runs in a build worker.

        Returns an artifact whose `path` lies in `folder`.
        """
        ...


@runtime_checkable
class Checkable(Protocol):
    """A language that can build a memory or race checker into a candidate."""

    def compile_checked(self, problem: Problem, candidate: Candidate, checker: str, folder: Path) -> Artifact | Failure:
        """Builds a candidate that `compile` has passed once more, with the checker; as `compile` otherwise."""
        ...


@runtime_checkable
class Prepared(Protocol):
    """A language whose builds need something that is made once on each machine."""

    def prepare(self) -> None:
        """Makes it below `cache.toolchains()`, which builds can read; runs once in a process of its own, not jailed."""
        ...


@functools.cache
def names() -> tuple[str, ...]:
    """Returns the languages that can be asked for: built-in ones first, then plug-ins by name."""
    return tuple(dict.fromkeys(point.name for point in _points()))


@functools.cache
def load(name: str) -> Language:
    """Returns a language by name.

    Raises:
        UserError: when no language has that name, or a plug-in's object is not a language.
    """
    point = next((point for point in _points() if point.name == name), None)
    if point is None:
        raise UserError(f"there is no language {name!r}", f"choose one of: {', '.join(names())}")
    language = point.load()()
    if not isinstance(language, Language):
        raise UserError(f"the plug-in {point.value!r} is no language", "it needs `name`, `key` and `compile`")
    return language


def _points() -> tuple[EntryPoint, ...]:
    return (*BUILT_IN, *sorted(entry_points(group=GROUP), key=lambda point: point.name))
