"""The gym over HTTP: plain JSON, standard library only, a thread for each connection.

    GET  /v1/health                          how the gym is
    GET  /v1/problems                        names, and how kernels are written here
    GET  /v1/problems/NAME?language=cpp      the task: a conversation, the reference, a file to start from
    GET  /v1/guides/LANGUAGE                 how a kernel is written
    POST /v1/submissions?wait_s=30           {"problem", "code" or "reply", "language", "exemplars"}
    GET  /v1/submissions/ID?wait_s=30        waiting, judging, or what it is worth

Faults are {"error": {"what", "fix"}} with a status of HTTP; 429 and 503 say when to come back (Retry-After).
**Covers**: bodies too long, slow or broken; more connections than it will hold; web pages that call it
(refused); a token, where one is set (KERNELWRIGHT_ENV_TOKEN), which other machines need.
**Does not cover**: encryption: let a proxy or a tunnel do that.
Not here: what happens to a submission (judging.py).
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import logging
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from kernelwright import problems
from kernelwright.errors import UserError
from kernelwright.gym.judging import Gym
from kernelwright.gym.requests import Refused, read_submission
from kernelwright.llm.prompts import guide

MOST_BODY_BYTES = 8 << 20
MOST_CONNECTIONS = 256
MOST_WAIT_S = 60.0
"""So long one request may wait for its answer; clients ask again."""
SOCKET_S = 90.0
"""A connection that says nothing for so long is closed."""
log = logging.getLogger(__name__)


class Server(ThreadingHTTPServer):
    """Serves one gym.

    Args:
        gym: that was started.
        host: to listen on; other machines can only come in with a token.
        port: 0 for any that is free.
        token: that every request must bring; empty for none.

    Raises:
        UserError: the port is taken, or a token is needed.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, gym: Gym, *, host: str = "127.0.0.1", port: int = 0, token: str = "") -> None:
        self.gym, self.token = gym, token
        self.places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        if not token and not _own_machine(host):
            fix = "set KERNELWRIGHT_ENV_TOKEN; clients send it as `Authorization: Bearer TOKEN`"
            raise UserError(f"anybody who reaches {host} could send kernels", fix)
        try:
            super().__init__((host, port), Handler)
        except (OSError, OverflowError) as error:
            raise UserError(f"{host}:{port} cannot be listened on: {error}", "name another --port") from error

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://{self.server_address[0]!s}:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Notes what a connection died of; clients that leave are nobody's fault."""
        log.debug("a connection of %s ended", client_address, exc_info=True)


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "kernelwright"
    sys_version = ""
    timeout = SOCKET_S

    def handle(self) -> None:
        """Answers until the client leaves, where there is room for it."""
        if not self.server.places.acquire(blocking=False):
            self.close_connection = True
            self.raw_requestline = b""
            self.requestline, self.request_version, self.command = "", "HTTP/1.1", ""
            return self._fault(Refused(503, "too many connections", "come back later", retry_s=5))
        try:
            return super().handle()
        finally:
            self.server.places.release()

    def do_GET(self) -> None:
        """Answers what is asked."""
        self._answer(self._asked)

    def do_POST(self) -> None:
        """Takes what is sent."""
        self._answer(self._sent)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Keeps requests out of the terminal."""
        log.debug(format, *args)

    # ------------------------------------------------------------------------------ requests

    def _asked(self, path: list[str], wait_s: float, options: dict[str, str]) -> tuple[int, dict[str, Any]]:
        gym = self.server.gym
        match path:
            case ["health"]:
                return 200, gym.status()
            case ["problems"]:
                return 200, {
                    "problems": [_line(n, s) for n, s in gym.sources.items()],
                    "languages": list(gym.languages),
                }
            case ["problems", name]:
                return 200, gym.task(name, options.get("language", gym.languages[0]), wait_s=wait_s or MOST_WAIT_S)
            case ["guides", language] if language in gym.languages:
                return 200, {"language": language, "guide": guide(language)}
            case ["submissions", key]:
                return 200, gym.result(key, wait_s=wait_s)
        raise Refused(404, f"there is nothing at {self.path[:200]}", "/v1/health, problems, guides, submissions")

    def _sent(self, path: list[str], wait_s: float, options: dict[str, str]) -> tuple[int, dict[str, Any]]:
        body = self._body()
        if path != ["submissions"]:
            raise Refused(404, f"nothing can be sent to {self.path[:200]}", "POST /v1/submissions")
        gym = self.server.gym
        submission = read_submission(body, problems=tuple(gym.sources), languages=gym.languages)
        found = gym.result(gym.submit(submission), wait_s=wait_s)
        return (202 if found["state"] in ("waiting", "judging") else 200), found

    def _body(self) -> Any:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self.close_connection = True
            raise Refused(411, "there is no Content-Length", "say how long the body is")
        if int(length) > MOST_BODY_BYTES:
            self.close_connection = True
            raise Refused(413, f"the body has {length} bytes", f"send at most {MOST_BODY_BYTES:,}")
        text = self.rfile.read(int(length))
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Refused(400, f"the body is no JSON: {error}", "send a JSON object in UTF-8") from None

    def _answer(self, answering: Any) -> None:
        try:
            self._admit()
            parts = urlsplit(self.path)
            options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            first, *path = [unquote(part) for part in parts.path.strip("/").split("/")]
            if first != "v1":
                raise Refused(404, f"there is nothing at {self.path[:200]}", "paths begin with /v1/")
            status, data = answering(path, _wait(options.get("wait_s", "0")), options)
        except Refused as refused:
            self._fault(refused)
        except OSError:
            raise  # the client is gone
        except Exception as error:
            log.exception("a request failed")
            self._fault(Refused(500, f"a fault of kernelwright: {type(error).__name__}", "its log says more"))
        else:
            self._send(status, data)

    def _admit(self) -> None:
        if self.headers.get("Origin"):
            self.close_connection = True
            raise Refused(403, "web pages may not send kernels", "call it from a program")
        given, wanted = self.headers.get("Authorization", ""), f"Bearer {self.server.token}"
        if self.server.token and not hmac.compare_digest(given.encode(), wanted.encode()):
            self.close_connection = True
            raise Refused(401, "the token is missing or wrong", "send `Authorization: Bearer TOKEN`")

    # ------------------------------------------------------------------------------- answers

    def _fault(self, refused: Refused) -> None:
        self._send(refused.status, {"error": {"what": refused.what, "fix": refused.fix}}, retry_s=refused.retry_s)

    def _send(self, status: int, data: dict[str, Any], *, retry_s: int = 0) -> None:
        body = json.dumps(data).encode()
        self.send_response(status, HTTPStatus(status).phrase)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if retry_s:
            self.send_header("Retry-After", str(retry_s))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


def _wait(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise Refused(400, f"wait_s cannot be {text[:40]!r}", f"give seconds, at most {MOST_WAIT_S:g}")
    return min(seconds, MOST_WAIT_S)


def _line(name: str, source: str) -> dict[str, str]:
    entry = problems.get(name) if source == name else None
    return {"name": name, "group": entry.group if entry else "own", "description": entry.description if entry else ""}


def _own_machine(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
