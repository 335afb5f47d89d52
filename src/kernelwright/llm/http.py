"""One POST whose answer is read as it comes: the only place that talks to a network.

The standard library does it; what a provider's own package adds (27 to 256 MB, retries of its own that stack with ours)
is not needed for one kind of request. See docs/decisions/0016.
Not here: what is sent and what the events mean (dialects.py), and trying again (pool.py).
"""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

from kernelwright.llm.faults import Fault, fault_of_status

STALL_S = 60.0
"""Silence after which a call counts as stalled; thinking models send signs of life more often."""
CALL_S = 900.0
"""The longest that one call may take."""
LOCAL_STALL_S, LOCAL_CALL_S = 600.0, 3600.0
"""The same of a server of one's own: it may read a long prompt on a processor, and says nothing while it does."""
ERROR_BYTES = 4096
ANSWER_BYTES = 16 << 20
CHUNK_BYTES = 1 << 14


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to an address that nobody named."""

    def redirect_request(self, *_: Any) -> None:
        """Refuses; the answer then counts as an error."""
        return


def events(
    url: str, body: Mapping[str, Any], *, headers: Mapping[str, str], stall_s: float = STALL_S, call_s: float = CALL_S
) -> Iterator[dict[str, Any]]:
    """Yields each JSON object of a server-sent stream, or the one object of a plain answer.

    Raises:
        Fault: for an HTTP error, silence of `stall_s`, a connection that breaks, or text that is no JSON.
    """
    data = json.dumps(body).encode()
    sent = {
        "Content-Type": "application/json", "Accept": "text/event-stream, application/json",
        "User-Agent": "kernelwright", **headers,
    }  # fmt: skip
    request = urllib.request.Request(url, data=data, headers=sent, method="POST")
    opener = urllib.request.build_opener(_NoRedirects())
    deadline = time.monotonic() + call_s
    begun = False
    try:
        with contextlib.closing(opener.open(request, timeout=stall_s)) as response:
            begun = True
            yield from _objects(response, deadline)
    except urllib.error.HTTPError as error:
        with error:
            raise _fault_of(error) from None
    except TimeoutError:
        raise Fault("stalled", f"nothing came for {stall_s:.0f} s", answered=begun) from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise Fault("stalled", f"nothing came for {stall_s:.0f} s") from None
        raise Fault("unreachable", str(error.reason)) from None
    except (http.client.HTTPException, OSError) as error:
        raise Fault("dropped", f"{type(error).__name__}: {error}", answered=begun) from None


def _objects(response: Any, deadline: float) -> Iterator[dict[str, Any]]:
    streamed = "event-stream" in (response.headers.get("Content-Type") or "")
    data: list[str] = []
    rest = b""
    for line in _lines(response, deadline):
        if not streamed:
            rest += line
            continue
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if text.startswith("data:"):
            data.append(text[5:].strip())
        elif not text and data:
            payload, data = "\n".join(data), []
            if payload != "[DONE]":
                yield _decoded(payload)
    if data and data != ["[DONE]"]:
        yield _decoded("\n".join(data))
    if not streamed:
        yield _decoded(rest.decode("utf-8", "replace"))


def _lines(response: Any, deadline: float) -> Iterator[bytes]:
    """Yields lines as they come. A server that drips bytes without an end of line must meet the deadline too."""
    pending, total = b"", 0
    while chunk := response.read1(CHUNK_BYTES):
        total += len(chunk)
        if total > ANSWER_BYTES:
            raise Fault("malformed", f"more than {ANSWER_BYTES >> 20} MiB came", answered=True)
        *lines, pending = (pending + chunk).split(b"\n")
        yield from (line + b"\n" for line in lines)
        if time.monotonic() > deadline:
            raise Fault("stalled", "the answer took too long", answered=True)
    length = response.headers.get("Content-Length")
    if length is not None and length.isdecimal() and total < int(length):
        raise Fault("dropped", f"{total} of {length} bytes came", answered=True)
    if pending:
        yield pending


def _decoded(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        raise Fault("malformed", f"no JSON came: {text[:80]!r}", answered=True) from None
    if not isinstance(found, dict):
        raise Fault("malformed", f"a {type(found).__name__} came instead of an object", answered=True)
    return found


def _fault_of(error: urllib.error.HTTPError) -> Fault:
    try:
        text = error.read(ERROR_BYTES).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        text = str(error.reason)
    return fault_of_status(error.code, text or str(error.reason), _wait_of(error.headers.get("Retry-After")))


def _wait_of(text: str | None) -> float | None:
    """Returns the seconds of a Retry-After header: a number, or a date."""
    if not text:
        return None
    with contextlib.suppress(ValueError):
        return max(0.0, float(text))
    with contextlib.suppress(ValueError, TypeError):
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    return None
