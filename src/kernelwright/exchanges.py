"""What is said to a language model and what comes back, as values that the store keeps.

A request's identity is everything that decides its answer: asking the same again gives the stored reply, unpaid.
Not here: keys, addresses, and whatever else a provider needs (llm), and what a reply is worth (search).
"""

from __future__ import annotations

from typing import Literal

from kernelwright.values import note, value

Kind = Literal["write", "contrast", "improve", "repair", "plan", "review"]
"""What a prompt asks for: a new kernel, one that beats the contrasted ones, an edit of a parent, a mended parent,
ideas without code, or an opinion."""


@value
class Message:
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    text: str


@value
class Request:
    """One call of a model, complete."""

    model: str
    """PROVIDER/NAME as the user wrote it."""
    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float | None = None
    """None leaves it to the provider."""
    ordinal: int = 0
    """Tells apart calls that are to answer the same prompt anew."""
    kind: Kind = note(default="write")


@value
class Reply:
    """What came back of one call, and what it took."""

    text: str
    model: str
    """That answered: another than was asked where that one was not to be had."""
    input_tokens: int
    output_tokens: int
    finish: Literal["stop", "length", "refusal"] = "stop"
    counted: bool = note(default=True)
    """False where the provider did not say its tokens and they were estimated from the text."""
    cost_usd: float = note(default=0.0)
    """By the price table, calls that failed on the way included."""
    seconds: float = note(default=0.0)
    attempts: int = note(default=1)
    faults: tuple[str, ...] = note(default=())
    """What went wrong before it came, one line each."""


@value
class Exchange:
    """A stored request with its reply."""

    id: int
    run: int
    request: Request
    reply: Reply
    when: str


@value
class Opinion:
    """What one soft verifier thought of a candidate before the judge saw it."""

    verifier: str
    """static, hacks, classifier, or a model's review by its subject: compilation, memory, numerics, honesty."""
    rejects: bool
    reason: str
    audited: bool = False
    """True for a rejected candidate that went to the judge all the same, to learn how often such opinions are right."""


@value
class Attempt:
    """What became of one reply: the candidate in it, or why there is none."""

    request: str
    """The request's digest."""
    kind: Kind
    candidate: str = ""
    """Digest; empty where the reply held none that could be used."""
    parent: str = ""
    intent: str = ""
    fault: str = ""
    """Why it was not judged; empty where it was."""
    opinions: tuple[Opinion, ...] = ()
