"""A run whose author is a real, small language model behind a real server. No network: `python tools/small_model.py`
fetches the weights once (93 MB), and without them there is nothing to test.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.run.models.fakes import TextParts
from tests.search.fake_judge import CAPTURE, TARGET

from kernelwright.llm.naming import remote
from kernelwright.run import optimize
from kernelwright.run.models import Authors, Budget
from kernelwright.run.models.writing import Writing
from kernelwright.search.authored.evolution import Rules
from kernelwright.store import Store
from kernelwright.store.trajectories import Trajectories
from kernelwright.types import digest

# Not kernelwright's home: tests have one of their own.
FOLDER = Path(os.environ.get("KERNELWRIGHT_SMALL_MODEL", Path.home() / ".cache" / "kernelwright" / "small-model"))
MOST_TOKENS = 64
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (FOLDER / "config.json").is_file(), reason="no weights: python tools/small_model.py"),
    pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="transformers is not installed"),
]


@pytest.fixture
def port() -> Iterator[int]:
    command = [sys.executable, "-W", "ignore", str(Path(__file__).parents[2] / "llm" / "small_server.py"), str(FOLDER)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "OMP_NUM_THREADS": "2"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as server:
        assert server.stdout is not None
        yield int(server.stdout.readline())
        server.kill()


def test_a_real_model_writes_and_nothing_of_it_is_lost(port: int, tmp_path: Path) -> None:
    model = remote(f"smollm2@http://127.0.0.1:{port}/v1")
    who = Authors(
        models=(model,), parallel=1, patience_s=0.0, budget=Budget(tokens=20_000),
        writing=Writing(language="cpp", max_tokens=MOST_TOKENS), rules=Rules(patience=1, islands=1, plans=False),
    )  # fmt: skip
    parts = TextParts().parts()
    with Store(tmp_path / "s.sqlite") as store:
        first = optimize(CAPTURE, TARGET, store=store, budget_s=1e9, parts=parts, seed=1, authors=who)
        exchanges = tuple(Trajectories(store).exchanges())
        attempts = {attempt.request: attempt for attempt in Trajectories(store).attempts()}
        again = optimize(CAPTURE, TARGET, store=store, budget_s=1e9, parts=parts, seed=1, authors=who)
        assert len(tuple(Trajectories(store).exchanges())) == len(exchanges), "a stored reply was asked for again"
        assert store.verify() == ()
    assert first.stopped == "finished"
    assert exchanges
    for exchange in exchanges:
        assert exchange.reply.text.strip()
        assert exchange.reply.counted
        assert exchange.reply.input_tokens > 300  # the whole prompt was read
        assert 0 < exchange.reply.output_tokens <= MOST_TOKENS
        assert exchange.reply.faults == ()
        attempt = attempts[digest(exchange.request)]
        assert attempt.candidate or attempt.fault, "a reply without an outcome"
    assert first.spending is not None
    assert (first.spending.calls, first.spending.usd) == (len(exchanges), 0.0)
    assert again.spending is not None
    assert again.spending.reused == len(exchanges)
    assert again.judged == 0
