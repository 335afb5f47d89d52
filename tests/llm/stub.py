"""A server on this machine that speaks three providers' protocols, and can be told to misbehave.

Each call takes the next behaviour of `script`, and `ok` when there is none left.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

FAULTS = ("429", "500", "503", "truncated", "stall", "drop", "malformed", "error event", "no end")
PIECE = 40
Author = Callable[[str], str]
"""The whole prompt to the text of a reply."""


class Stub(ThreadingHTTPServer):
    """The server; to be used in a `with` statement."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, author: Author = lambda _: "hello", script: tuple[str, ...] = ()) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.author = author
        self.script = list(script)
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.completed = 0
        self.lock = threading.Lock()
        self.let_go = threading.Event()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Stub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: clients that go away are what is tested."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Stub

    def log_message(self, *args: Any) -> None:
        """Says nothing."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.bodies.append(body)
            self.server.headers.append({k.lower(): v for k, v in self.headers.items()})
            behaviour = self.server.script.pop(0) if self.server.script else "ok"
        self.close_connection = True
        if behaviour == "429":
            self._plain(429, {"error": {"message": "slow down", "type": "rate_limit_error"}}, {"Retry-After": "0.02"})
        elif behaviour in ("500", "503", "529", "400", "401", "404"):
            text = f"no luck with {self.headers.get('Authorization')} {self.headers.get('x-api-key')}"
            self._plain(int(behaviour), {"error": {"message": text}})
        elif behaviour == "stall":
            self.server.let_go.wait(60)
        else:
            self._stream(body, behaviour)

    def _plain(self, status: int, data: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        text = json.dumps(data).encode()
        self.send_response(status)
        for name, item in {
            "Content-Type": "application/json",
            "Content-Length": str(len(text)),
            **(headers or {}),
        }.items():
            self.send_header(name, item)
        self.end_headers()
        self.wfile.write(text)

    def _stream(self, body: dict[str, Any], behaviour: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if behaviour == "malformed":
            self._chunk("data: <html>gateway</html>\n\n")
        kind = "google" if "contents" in body else "anthropic" if "/v1/messages" in self.path else "chat"
        prompt = json.dumps(body, ensure_ascii=False)
        text = "I will not." if behaviour == "refusal" else self.server.author(_prompt(body) or prompt)
        events = EVENTS[kind](
            text, "refusal" if behaviour == "refusal" else "length" if behaviour == "length" else "stop"
        )
        half = events[: max(1, len(events) // 2)]
        for event in half if behaviour in ("truncated", "drop", "error event", "no end", "stall later") else events:
            self._chunk(f"data: {json.dumps(event)}\n\n")
        if behaviour == "truncated":
            self._chunk('data: {"choices": [{"delta": {"cont\n\n')
        elif behaviour == "error event":
            self._chunk('data: {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}\n\n')
        elif behaviour == "stall later":
            self.server.let_go.wait(60)
        elif behaviour == "drop":
            self.wfile.flush()
            self.connection.shutdown(2)
            return
        elif behaviour not in ("no end",):
            if kind == "chat":
                self._chunk("data: [DONE]\n\n")
            with self.server.lock:
                self.server.completed += 1
        self._chunk("")

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


def _prompt(body: dict[str, Any]) -> str:
    if "contents" in body:
        return "\n".join(part["text"] for turn in body["contents"] for part in turn["parts"])
    return "\n".join(str(turn["content"]) for turn in body.get("messages", ()))


def _pieces(text: str) -> list[str]:
    return [text[i : i + PIECE] for i in range(0, len(text), PIECE)] or [""]


def _chat(text: str, finish: str) -> list[dict[str, Any]]:
    reason = {"refusal": "content_filter"}.get(finish, finish)
    return [
        *({"choices": [{"delta": {"content": piece}, "finish_reason": None}]} for piece in _pieces(text)),
        {"choices": [{"delta": {}, "finish_reason": reason}]},
        {"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 50}},
    ]


def _anthropic(text: str, finish: str) -> list[dict[str, Any]]:
    reason = {"stop": "end_turn", "length": "max_tokens"}.get(finish, finish)
    return [
        {"type": "message_start", "message": {"usage": {"input_tokens": 100, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "delta": {"type": "text_delta", "text": piece}} for piece in _pieces(text)),
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 50}},
        {"type": "message_stop"},
    ]


def _google(text: str, finish: str) -> list[dict[str, Any]]:
    reason = {"stop": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"}[finish]
    return [
        *({"candidates": [{"content": {"parts": [{"text": piece}]}}]} for piece in _pieces(text)),
        {
            "candidates": [{"finishReason": reason}],
            "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 50},
        },
    ]


EVENTS = {"chat": _chat, "anthropic": _anthropic, "google": _google}
