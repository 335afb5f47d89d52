"""What every expert module offers, and what a call of all experts returns.

Not here: any expert; `experts/__init__.py` holds the table of them.
"""

from __future__ import annotations

from typing import Protocol

from kernelwright.graph import Graph
from kernelwright.types import Problem, Refusal, Target, Template, value

Answer = Template | tuple[Template, ...] | Refusal | None
"""Templates; or why the graph, which is this expert's kind, cannot be done; or None: not its kind."""


class Expert(Protocol):
    """A module that turns graphs of one kind into templates.

    Covers: deciding from the graph alone, never from a problem's name; pure and quick (well under a second),
    without a compiler, without a framework. A template's `emit` returns a Candidate with
    `problem=digest(problem)`, `language` (`cpp`, `cuda`), `template=<the template's name>`, `point=point` and
    `author="expert"`; the first source is the kernel, the second the header that it includes.
    Does not cover: whether the candidate is right or quick; only the judge says that.
    """

    def propose(self, problem: Problem, graph: Graph, target: Target) -> Answer:
        """Returns templates for this graph, a refusal that names the operator, or None."""
        ...


@value
class Proposals:
    """Everything the experts had to say about one problem."""

    templates: tuple[Template, ...]
    refusals: tuple[Refusal, ...]
