"""A jailed worker whose handlers do what a stranger's code could do to the channel."""

from __future__ import annotations

import os
import signal
import struct
import sys
import time
from collections.abc import Callable

from kernelwright.process import serve

Emit = Callable[[object], None]
CHANNEL = int(sys.argv[2]) if len(sys.argv) > 2 else -1


def echo(emit: Emit, item: object) -> object:
    return item


def garbage(emit: Emit) -> object:
    os.write(CHANNEL, struct.pack("<Q", 9) + b"{nothing]")
    return None


def huge(emit: Emit) -> object:
    os.write(CHANNEL, struct.pack("<Q", 1 << 62))
    return None


def unknown_type(emit: Emit) -> object:
    text = b'{"": "Popen", "args": ["true"]}'
    os.write(CHANNEL, struct.pack("<Q", len(text)) + text)
    return None


def nested(emit: Emit) -> object:
    text = b"[" * 200_000
    os.write(CHANNEL, struct.pack("<Q", len(text)) + text)
    return None


def closes(emit: Emit) -> object:
    os.closerange(3, 4096)  # a parent with much open gives it higher numbers than one with little
    time.sleep(600)
    return None


def endless_events(emit: Emit) -> object:
    while True:
        emit("still at it")


def deaf(emit: Emit) -> object:
    """Answers at once, and never reads again."""
    text = b'{"": "dict", "items": [["result", "early"]]}'
    os.write(CHANNEL, struct.pack("<Q", len(text)) + text)
    time.sleep(600)
    return None


def crash(emit: Emit) -> object:
    os.kill(os.getpid(), signal.SIGSEGV)
    return None


def eat(emit: Emit) -> object:
    held = []
    while True:
        held.append(bytearray(b"x") * (16 << 20))
        time.sleep(0.01)


if __name__ == "__main__":
    handlers = (echo, garbage, huge, unknown_type, nested, closes, endless_events, deaf, crash, eat)
    serve({handler.__name__: handler for handler in handlers})
