"""How three providers are asked and how their streams are read: OpenAI's chat completions (which most servers speak),
Anthropic's messages, Google's generateContent.

Not here: the connection (http.py), addresses and keys (naming.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol
from urllib.parse import quote

from kernelwright.exchanges import Request
from kernelwright.llm.faults import Fault

CHARACTERS_PER_TOKEN = 3.2
"""Of prompts with code in them; used only before a call, and where a provider does not count."""
ANTHROPIC_VERSION = "2023-06-01"

Finish = Literal["stop", "length", "refusal"]
OnText = Callable[[str], None]


def estimated_tokens(text: str) -> int:
    """Returns about how many tokens a text has; rather too many than too few."""
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)


@dataclass
class Heard:
    """What has come of one answer so far."""

    text: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    finish: Finish | None = None

    def add(self, piece: object, on_text: OnText | None) -> None:
        """Takes in a piece of the text."""
        if isinstance(piece, str) and piece:
            self.text += piece
            if on_text:
                on_text(piece)


class Dialect(Protocol):
    """How one kind of provider is asked.

    Covers: the address, headers and body of a call, and what its events mean.
    Does not cover: the connection, and what to do about faults.
    """

    def call(self, base: str, name: str, key: str, request: Request) -> tuple[str, dict[str, str], dict[str, Any]]:
        """Returns address, headers and body."""

    def hear(self, event: dict[str, Any], heard: Heard, on_text: OnText | None) -> None:
        """Takes in one event; raises Fault where it is an error."""


class Chat:
    """OpenAI's chat completions.

    Args:
        limit_name: what the provider calls the most tokens of an answer: OpenAI has renamed it, others have not.
    """

    def __init__(self, limit_name: str = "max_tokens") -> None:
        self._limit_name = limit_name

    def call(self, base: str, name: str, key: str, request: Request) -> tuple[str, dict[str, str], dict[str, Any]]:
        """Returns address, headers and body."""
        body: dict[str, Any] = {
            "model": name,
            "messages": [{"role": m.role, "content": m.text} for m in request.messages],
            self._limit_name: request.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.temperature is not None:
            body["temperature"] = request.temperature
        return f"{base}/chat/completions", {"Authorization": f"Bearer {key}"} if key else {}, body

    def hear(self, event: dict[str, Any], heard: Heard, on_text: OnText | None) -> None:
        """Takes in one chunk."""
        _raise_error(event)
        usage = event.get("usage")
        if isinstance(usage, dict):
            heard.input_tokens, heard.output_tokens = usage.get("prompt_tokens"), usage.get("completion_tokens")
        for choice in _dicts(event.get("choices"))[:1]:
            delta = choice.get("delta") or choice.get("message") or {}
            heard.add(delta.get("content"), on_text)
            reason = choice.get("finish_reason")
            if delta.get("refusal"):
                heard.add(delta["refusal"], on_text)
                heard.finish = "refusal"
            elif reason and heard.finish != "refusal":
                heard.finish = "length" if reason == "length" else "refusal" if reason == "content_filter" else "stop"


class Anthropic:
    """Anthropic's messages."""

    def call(self, base: str, name: str, key: str, request: Request) -> tuple[str, dict[str, str], dict[str, Any]]:
        """Returns address, headers and body."""
        system = "\n\n".join(m.text for m in request.messages if m.role == "system")
        body: dict[str, Any] = {
            "model": name,
            "messages": [{"role": m.role, "content": m.text} for m in request.messages if m.role != "system"],
            "max_tokens": request.max_tokens,
            "stream": True,
        }
        if system:
            body["system"] = system
        if request.temperature is not None:
            body["temperature"] = request.temperature
        return f"{base}/v1/messages", {"x-api-key": key, "anthropic-version": ANTHROPIC_VERSION}, body

    def hear(self, event: dict[str, Any], heard: Heard, on_text: OnText | None) -> None:
        """Takes in one event."""
        _raise_error(event)
        kind, delta = event.get("type"), event.get("delta") or {}
        if kind == "message_start":
            heard.input_tokens = (event.get("message") or {}).get("usage", {}).get("input_tokens")
        elif kind == "content_block_delta":
            heard.add(delta.get("text"), on_text)
        elif kind == "message_delta":
            heard.output_tokens = (event.get("usage") or {}).get("output_tokens", heard.output_tokens)
            if reason := delta.get("stop_reason"):
                heard.finish = "length" if reason == "max_tokens" else "refusal" if reason == "refusal" else "stop"


class Google:
    """Google's generateContent."""

    def call(self, base: str, name: str, key: str, request: Request) -> tuple[str, dict[str, str], dict[str, Any]]:
        """Returns address, headers and body."""
        settings: dict[str, Any] = {"maxOutputTokens": request.max_tokens}
        if request.temperature is not None:
            settings["temperature"] = request.temperature
        roles = {"user": "user", "assistant": "model"}
        turns = [m for m in request.messages if m.role in roles]
        body: dict[str, Any] = {
            "contents": [{"role": roles[m.role], "parts": [{"text": m.text}]} for m in turns],
            "generationConfig": settings,
        }
        system = [{"text": m.text} for m in request.messages if m.role == "system"]
        if system:
            body["systemInstruction"] = {"parts": system}
        # The key goes into a header: an address ends up in logs.
        url = f"{base}/v1beta/models/{quote(name, safe='')}:streamGenerateContent?alt=sse"
        return url, {"x-goog-api-key": key}, body

    def hear(self, event: dict[str, Any], heard: Heard, on_text: OnText | None) -> None:
        """Takes in one chunk."""
        _raise_error(event)
        usage = event.get("usageMetadata")
        if isinstance(usage, dict):
            heard.input_tokens = usage.get("promptTokenCount")
            heard.output_tokens = (usage.get("candidatesTokenCount") or 0) + (usage.get("thoughtsTokenCount") or 0)
        if (event.get("promptFeedback") or {}).get("blockReason"):
            heard.finish = "refusal"
        for candidate in _dicts(event.get("candidates"))[:1]:
            for part in _dicts((candidate.get("content") or {}).get("parts")):
                if not part.get("thought"):
                    heard.add(part.get("text"), on_text)
            if reason := candidate.get("finishReason"):
                heard.finish = {"STOP": "stop", "MAX_TOKENS": "length"}.get(reason, "refusal")  # type: ignore[assignment]


def listen(events: Iterable[dict[str, Any]], dialect: Dialect, on_text: OnText | None) -> Heard:
    """Returns the whole answer.

    Raises:
        Fault: for an error in the stream, or one that ends before the provider said that it was finished; it says
            how much had come.
    """
    heard = Heard()
    try:
        for event in events:
            try:
                dialect.hear(event, heard, on_text)
            except (AttributeError, TypeError, KeyError) as error:
                raise Fault("malformed", f"an event has another form: {error}", answered=True) from None
        if heard.finish is None:
            raise Fault("dropped", "the answer ended before its end", answered=True)
    except Fault as fault:
        fault.received = len(heard.text)
        raise
    return heard


def _raise_error(event: dict[str, Any]) -> None:
    error = event.get("error")
    if not error:
        return
    message = error.get("message", error) if isinstance(error, dict) else error
    kind = str(error.get("type", "")) + str(error.get("code", "")) if isinstance(error, dict) else ""
    known = {"rate_limit": "rate limit", "429": "rate limit", "overloaded": "overloaded", "503": "overloaded"}
    found = next((name for mark, name in known.items() if mark in kind), "server")
    raise Fault(found, str(message), answered=True)


def _dicts(items: object) -> list[dict[str, Any]]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def texts(request: Request) -> Iterator[str]:
    """Yields every text of a request."""
    return (message.text for message in request.messages)
