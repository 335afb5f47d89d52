"""The gym over HTTP: answers, faults, many clients; the package's client; and the whole command with the real judge."""

from __future__ import annotations

import http.client
import importlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from kernelwright.errors import UserError
from kernelwright.gym.packing import NAME, write_package
from kernelwright.gym.server import Server

from .fakes import FakeJudge, kernel, opened

TOKEN = "a-token-for-tests"
PROBLEM = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2

def get_inputs():
    return [torch.randn(64, 512)]

def get_init_inputs():
    return []
"""
TWICE = """extern "C" void twice(const float* x, float* out) {
    for (int i = 0; i < 64 * 512; ++i) {
        volatile float value = x[i] < 0.0f ? 0.0f : FACTOR * x[i];
        out[i] = value;
    }
}
"""
"""Slow, so that no gain has to be judged in full, which takes long."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    judge = FakeJudge()
    gym = opened(tmp_path, judge)
    gym.start()
    with Server(gym, token=TOKEN) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield made
        made.shutdown()
        thread.join()
    assert gym.stop(grace_s=60)


def ask(url: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any, Any]:
    """Status, data and headers of one request."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=90)
    try:
        sent = {"Authorization": f"Bearer {TOKEN}"} | {k.replace("_", "-"): v for k, v in headers.items()}
        connection.request("GET" if body is None else "POST", path, body, sent)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()), answer.headers
    finally:
        connection.close()


def post(url: str, **data: Any) -> tuple[int, Any, Any]:
    return ask(url, "/v1/submissions?wait_s=60", json.dumps(data).encode())


def test_every_endpoint_answers(server: Server) -> None:
    status, health, _ = ask(server.url, "/v1/health")
    assert (status, health["state"], health["languages"], health["waiting"]) == (200, "open", ["cpp"], 0)
    _, listed, _ = ask(server.url, "/v1/problems")
    assert [p["name"] for p in listed["problems"]] == ["softmax", "rms_norm", "rotary"]
    _, task, _ = ask(server.url, "/v1/problems/softmax")
    assert "torch.softmax" in task["reference"]
    _, guide, _ = ask(server.url, "/v1/guides/cpp")
    assert 'extern "C"' in guide["guide"]
    status, found, _ = post(server.url, problem="softmax", code=kernel("2.0x"))
    assert (status, found["state"], found["passed"]) == (200, "done", True)
    assert ask(server.url, f"/v1/submissions/{found['id']}")[1] == found
    _, from_reply, _ = post(server.url, problem="softmax", reply=f"Intent: fast\n\n```cpp\n{kernel('2.0x')}```\n")
    assert from_reply["reward"] == found["reward"]


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/", None, 404, "paths begin with /v1/"),
        ("/v1/nothing", None, 404, "/v1/health"),
        ("/v1/guides/cuda", None, 404, "nothing at"),
        ("/v1/problems/gemm", None, 404, "no problem 'gemm'"),
        ("/v1/submissions/0", None, 404, "submit it again"),
        ("/v1/health?wait_s=soon", None, 400, "wait_s"),
        ("/v1/health", b"{}", 404, "POST /v1/submissions"),
        ("/v1/submissions", b"{", 400, "no JSON"),
        ("/v1/submissions", b"\xff", 400, "no JSON"),
        ("/v1/submissions", b"[" * 100_000, 400, "no JSON"),
        ("/v1/submissions", b"[]", 400, "no JSON object"),
        ("/v1/submissions", b'{"problem": "softmax"}', 400, "code or reply"),
        ("/v1/submissions", b'{"problem": 1, "code": ""}', 400, "'problem' cannot be int"),
        ("/v1/submissions", b'{"problem": "softmax", "code": "", "policy": "none"}', 400, "'policy'"),
        ("/v1/submissions", b'{"problem": "../softmax.py", "code": ""}', 404, "no problem"),
        ("/v1/submissions", b'{"problem": "softmax", "code": "", "language": "python"}', 400, "use cpp"),
        ("/v1/submissions", b'{"problem": "softmax", "code": "", "exemplars": [1]}', 413, "too much"),
        ("/v1/submissions", b'{"problem": "softmax", "code": "%s"}' % (b"x" * 300_000), 413, "200,000"),
    ],
)  # fmt: skip
def test_faults_say_what_and_how_to_mend(
    server: Server, path: str, body: bytes | None, status: int, words: str
) -> None:
    got, data, _ = ask(server.url, path, body)
    assert got == status
    assert set(data["error"]) == {"what", "fix"}
    assert words in f"{data['error']['what']} {data['error']['fix']}"


def test_strangers_are_refused(server: Server, tmp_path: Path) -> None:
    assert ask(server.url, "/v1/health", Authorization="Bearer wrong")[0] == 401
    assert ask(server.url, "/v1/health", Origin="https://example.com")[0] == 403
    with pytest.raises(UserError, match="KERNELWRIGHT_ENV_TOKEN"):
        Server(server.gym, host="0.0.0.0")
    with pytest.raises(UserError, match="cannot be listened on"):
        Server(server.gym, port=server.server_address[1])


def test_broken_connections_harm_nobody(server: Server) -> None:
    host, port = urlsplit(server.url).hostname, urlsplit(server.url).port
    for text in (b"", b"GET", b"\x00\xff\r\n\r\n", b"POST /v1/submissions HTTP/1.1\r\nContent-Length: 99\r\n\r\n{"):
        with socket.create_connection((str(host), port or 0), timeout=30) as connection:
            connection.sendall(text)
    lengthless = b"POST /v1/submissions HTTP/1.1\r\nAuthorization: Bearer %s\r\n\r\n" % TOKEN.encode()
    with socket.create_connection((str(host), port or 0), timeout=60) as connection:
        connection.sendall(lengthless)
        assert connection.recv(65536).startswith(b"HTTP/1.1 411")
    assert ask(server.url, "/v1/health")[0] == 200


def test_many_clients_get_their_own_verdicts(server: Server) -> None:
    def one(number: int) -> tuple[int, float]:
        status, found, _ = post(server.url, problem="softmax", code=kernel(f"{1 + number / 100}x"))
        assert status == 200
        return number, found["speedup"]["value"]

    with ThreadPoolExecutor(16) as pool:
        assert all(speedup == 1 + number / 100 for number, speedup in pool.map(one, range(32)))


def test_a_full_queue_says_when_to_come_back(tmp_path: Path) -> None:
    gym = opened(tmp_path, FakeJudge(), most_waiting=1)  # never started
    with Server(gym) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        body = [json.dumps({"problem": "softmax", "code": kernel(m)}).encode() for m in ("1.1x", "1.2x")]
        assert ask(made.url, "/v1/submissions", body[0])[0] == 202
        status, data, headers = ask(made.url, "/v1/submissions", body[1])
        made.shutdown()
        thread.join()
    assert (status, headers["Retry-After"]) == (429, "5")
    assert "waiting already" in data["error"]["what"]


@pytest.fixture
def client(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The written package's client, without kernelwright and verifiers."""
    write_package(tmp_path / "package")
    monkeypatch.syspath_prepend(str(tmp_path / "package"))
    yield importlib.import_module(f"{NAME}.client")
    for name in [n for n in sys.modules if n.startswith(NAME)]:
        del sys.modules[name]


def test_the_package_needs_only_the_gym(server: Server, client: Any) -> None:
    gym = client.Client(server.url, token=TOKEN, patience_s=60)
    assert gym.languages() == ["cpp"]
    assert gym.problems() == ["softmax", "rms_norm", "rotary"]
    task = gym.task("rms_norm", "cpp")
    assert task["messages"][0]["role"] == "system"
    found = gym.score("rms_norm", f"```cpp\n{kernel('2.0x')}```", language="cpp")
    assert (found["kind"], found["passed"]) == ("verified", True)
    assert gym.score("rms_norm", "I would rather not.", language="cpp")["reward"] == 0.0
    with pytest.raises(client.GymError, match="no verdict"):
        client.Client(server.url, token=TOKEN, patience_s=0.0).score(
            "softmax", f"```cpp\n{kernel('disturbed')}```", language="cpp"
        )
    with pytest.raises(client.GymError, match="401"):
        client.Client(server.url, token="wrong").problems()
    with pytest.raises(client.GymError, match="cannot be reached"):
        client.Client("http://127.0.0.1:9", patience_s=0.0).problems()


def test_the_package_overwrites_only_itself(tmp_path: Path) -> None:
    written = write_package(tmp_path / "new")
    assert write_package(tmp_path / "new") == written
    assert 'packages = ["kernelwright_env"]' in (tmp_path / "new" / "pyproject.toml").read_text()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.py").touch()
    with pytest.raises(UserError, match="not empty"):
        write_package(tmp_path / "other")


@pytest.mark.slow
def test_the_command_judges_for_real_and_stops_when_asked(tmp_path: Path) -> None:
    source = tmp_path / "twice.py"
    source.write_text(PROBLEM)
    command = [sys.executable, "-m", "kernelwright", "env", "--problem", str(source), "--port", "0"]
    environment = os.environ | {"KERNELWRIGHT_ENV_TOKEN": TOKEN}
    with subprocess.Popen(
        [*command, "--out", str(tmp_path / "out")], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        url = re.match(r"(http://\S+)/v1/ ", process.stdout.readline())
        assert url
        while (found := post(url[1], problem="twice", code=TWICE.replace("FACTOR", "2.0f"))[1])["state"] == "judging":
            pass
        # On a busy machine the clocks may never agree; the answers must be right all the same.
        assert found["kind"] in ("verified", "unclear"), found
        wrong = post(url[1], problem="twice", code=TWICE.replace("FACTOR", "2.1f"))[1]
        assert (wrong["kind"], wrong["reward"]) == ("wrong", 0.0)
        cheat = post(url[1], problem="twice", code=f"#include <unistd.h>\n{TWICE}")[1]
        assert (cheat["passed"], cheat["reward"]) == (False, 0.0)
        process.send_signal(signal.SIGTERM)
        said = process.stdout.read()
        assert process.wait(120) == 0
    assert re.search(r"\d answered", said)
