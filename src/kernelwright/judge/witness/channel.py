"""The private channel between the judge worker and a witness worker: JSON with a length in front, on two pipes.

Bounded: whatever arrives from a witness may have been written by a candidate. Not here: what the messages mean.
"""

from __future__ import annotations

import json
import os
import select
import struct
import time
from typing import Any

LENGTH = struct.Struct("<I")
MOST_BYTES = 64 << 20
MOST_REPLY_BYTES = 1 << 20
"""A reply holds names and numbers; stamps go through shared memory."""


class BadMessage(Exception):
    """What arrived is no message."""


def send(fd: int, message: Any) -> None:
    """Writes one message.

    Raises:
        BrokenPipeError: when the other end is gone.
    """
    data = json.dumps(message, separators=(",", ":")).encode()
    view = memoryview(LENGTH.pack(len(data)) + data)
    while view:
        view = view[os.write(fd, view) :]


def receive(fd: int, *, deadline: float | None = None, most: int = MOST_BYTES) -> Any:
    """Reads one message.

    Args:
        fd: the reading end.
        deadline: a `time.monotonic()` moment; None waits for ever.
        most: the longest message that is read.

    Raises:
        EOFError: when the other end is gone.
        TimeoutError: when the deadline passes first.
        BadMessage: for what is too long or no JSON.
    """
    (length,) = LENGTH.unpack(_exactly(fd, LENGTH.size, deadline))
    if length > most:
        raise BadMessage(f"a message of {length} bytes was announced")
    try:
        return json.loads(_exactly(fd, length, deadline))
    except ValueError as error:
        raise BadMessage(f"a message is no JSON: {error}") from None


def _exactly(fd: int, count: int, deadline: float | None) -> bytes:
    parts: list[bytes] = []
    while count:
        if deadline is not None and not select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError
        part = os.read(fd, min(count, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
