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
# C functions, made before there is a candidate: none of its code may run while a message is written or read.
_write, _read, _select, _clock = os.write, os.read, select.select, time.monotonic
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_chunks = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
    None, None, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, True
)
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
    data = "".join(_chunks(message, 0)).encode()
    view = memoryview(LENGTH.pack(len(data)) + data)
    while view:
        view = view[_write(fd, view) :]


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
        text = _exactly(fd, length, deadline).decode()
        message, end = _scan(text, 0)
    except (ValueError, StopIteration, RecursionError) as error:
        raise BadMessage(f"a message is no JSON: {error}") from None
    if end != len(text):
        raise BadMessage("a message is no JSON: something stands behind it")
    return message


def _exactly(fd: int, count: int, deadline: float | None) -> bytes:
    parts: list[bytes] = []
    while count:
        if deadline is not None and not _select([fd], [], [], max(0.0, deadline - _clock()))[0]:
            raise TimeoutError
        part = _read(fd, min(count, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
