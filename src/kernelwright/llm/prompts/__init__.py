"""The prompts, as files: what a model is told, put together from parts that can be read and changed as text.

Golden tests hold what comes out. Not here: what is due and what is known (search, run), and which model is asked.
"""

from __future__ import annotations

import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kernelwright.exchanges import Kind, Message
from kernelwright.types import Axis, Problem, TensorSpec
from kernelwright.values import value

FENCES = {"cpp": "cpp", "cuda": "cuda", "triton": "python", "cutile": "python"}
"""What a code block of a language begins with."""
GUIDED = ("cpp", "cuda", "triton")
"""Languages that there is a guide for."""
PAGES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=False,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
BLANK_LINES = re.compile(r"\n{3,}")


@value
class Shown:
    """A judged kernel as a prompt shows it."""

    source: str
    speed: float
    """Against eager."""
    intent: str = ""


@value
class Feedback:
    """What was found about a kernel."""

    subject: str
    text: str


@value
class Prompt:
    """Everything that a prompt can tell."""

    problem: Problem
    language: str
    hardware: str
    baselines: tuple[tuple[str, float], ...] = ()
    """(name, median µs)."""
    exemplars: tuple[Shown, ...] = ()
    parent: str = ""
    """Source of the kernel to change."""
    parent_speed: float | None = None
    feedback: Feedback | None = None
    profile: str = ""
    intent: str = ""
    tried: tuple[tuple[str, str], ...] = ()
    """(intent, what became of it)."""
    subject: str = ""
    """Of a review."""


def messages(kind: Kind, prompt: Prompt) -> tuple[Message, ...]:
    """Returns the conversation that asks for what `kind` says."""
    places = {place: axis.name for axis in prompt.problem.axes for place in axis.places}
    axes: tuple[Axis, ...] = prompt.problem.axes

    def shape(tensor: TensorSpec) -> str:
        return ", ".join(places.get((tensor.name, d), str(size)) for d, size in enumerate(tensor.shape))

    text = PAGES.get_template(f"{kind}.md.j2").render(
        problem=prompt.problem, axes=axes, hardware=prompt.hardware, baselines=prompt.baselines, shape=shape,
        exemplars=prompt.exemplars, parent=prompt.parent.strip(), parent_speed=prompt.parent_speed,
        feedback=prompt.feedback, profile=prompt.profile, intent=prompt.intent, tried=prompt.tried,
        subject=prompt.subject, fence=FENCES[prompt.language], guide=f"guide_{prompt.language}.md.j2", grouped=_grouped,
    )  # fmt: skip
    return Message(role="system", text=_tidy(PAGES.get_template("system.md.j2").render())), Message(
        role="user", text=_tidy(text)
    )


def guide(language: str, axes: tuple[Axis, ...] = ()) -> str:
    """Returns how a kernel is written in a language."""
    return _tidy(PAGES.get_template(f"guide_{language}.md.j2").render(axes=axes))


def doubting(text: str, *, language: str, tricks: tuple[tuple[str, str], ...]) -> tuple[Message, ...]:
    """Returns the conversation that asks whether a kernel cheats; `tricks` are known ones near it, as (name, trick)."""
    fence = FENCES.get(language, language)
    asked = PAGES.get_template("doubting.md.j2").render(text=text.strip(), fence=fence, tricks=tricks)
    return Message(role="system", text=_tidy(PAGES.get_template("system.md.j2").render())), Message(
        role="user", text=_tidy(asked)
    )


def edits_again(conversation: tuple[Message, ...], answer: str, fault: str, language: str) -> tuple[Message, ...]:
    """Returns a conversation that goes on after edits which could not be applied; asked for once."""
    text = PAGES.get_template("mend_edits.md.j2").render(fault=fault, fence=FENCES[language])
    return (*conversation, Message(role="assistant", text=answer), Message(role="user", text=_tidy(text)))


def _grouped(number: int) -> str:
    return f"{number:,}"


def _tidy(text: str) -> str:
    return BLANK_LINES.sub("\n\n", text).strip() + "\n"
