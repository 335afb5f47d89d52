"""Recorded replies as a model: what was written once is said again, in order, without a network.

A recording is a JSON Lines file: one object for each reply, {"text": ...}, or {"file": "name.cpp"} for a reply that
consists of a kernel file beside it; `kind` limits a reply to prompts of one kind, and `model`, `input_tokens`,
`output_tokens`, `finish` are passed on where they are there.
Not here: recordings of a store's own runs, which are found by their requests (run/writing.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kernelwright.errors import UserError
from kernelwright.exchanges import Exchange, Reply, Request
from kernelwright.llm.dialects import OnText, estimated_tokens
from kernelwright.llm.faults import Fault
from kernelwright.llm.secrets import scrubbed

FENCES = {".cpp": "cpp", ".cu": "cuda", ".py": "python"}
SPARED = ("plan", "review")
"""Kinds that only replies recorded for them answer; without any, the answer is empty and the run goes on."""


class Recorded:
    """Says replies again in their order; each prompt kind takes the next reply that is for it.

    Args:
        name: of the model, `replay/FILE`.
        replies: (kind or "", reply).
    """

    local = True

    def __init__(self, name: str, replies: Iterable[tuple[str, Reply]]) -> None:
        self.name = name
        self._left = list(replies)

    def complete(self, request: Request, *, on_text: OnText | None = None) -> Reply:
        """Returns the next reply.

        Raises:
            Fault: when there is none left for a prompt of this kind.
        """
        for place, (kind, reply) in enumerate(self._left):
            if _fits(kind, request.kind):
                del self._left[place]
                if on_text:
                    on_text(reply.text)
                return reply
        if request.kind in SPARED:
            return Reply(text="", model=self.name, input_tokens=0, output_tokens=0)
        raise Fault("no more", f"{self.name} has no more replies for {request.kind}")

    def skip(self, exchanges: Iterable[Exchange]) -> None:
        """Leaves out the replies that were given in earlier runs, so that a run that goes on gets the next ones."""
        for exchange in exchanges:
            for place, (kind, reply) in enumerate(self._left):
                if _fits(kind, exchange.request.kind) and reply.text == exchange.reply.text:
                    del self._left[place]
                    break


def _fits(recorded_for: str, kind: str) -> bool:
    return recorded_for == kind or (not recorded_for and kind not in SPARED)


def recorded(name: str) -> Recorded:
    """Returns the model of a `replay/FILE` name.

    Raises:
        UserError: when there is no such file, or it is no recording.
    """
    path = Path(name.partition("/")[2])
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}", "name a recording: replay/FILE.jsonl") from None
    replies = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            data = json.loads(line)
            text = data["text"] if "text" in data else _of_file(path.parent / data["file"], data)
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise UserError(f"{path}:{number} is no reply: {error}", 'write {"text": "..."} on each line') from None
        replies.append((str(data.get("kind", "")), _reply(name, scrubbed(text), data)))
    return Recorded(name, replies)


def _of_file(path: Path, data: dict[str, Any]) -> str:
    code = path.read_text(encoding="utf-8")
    return f"Intent: {data.get('intent', path.stem)}\n\n```{FENCES.get(path.suffix, '')}\n{code}```\n"


def _reply(name: str, text: str, data: dict[str, Any]) -> Reply:
    return Reply(
        text=text,
        model=str(data.get("model", name)),
        input_tokens=int(data.get("input_tokens", 0)),
        output_tokens=int(data.get("output_tokens", estimated_tokens(text))),
        finish=data.get("finish", "stop"),
        counted="output_tokens" in data,
    )
