"""The CUDA engine's own logic with graphs that are recorded on the processor: contents, poison, kept memory, stamps.

What only a device has (streams, events, real capture) is in tests/gpu/test_witness_cuda.py.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.judge.python_files import python_files, python_problem
from tests.judge.test_witness_holder import assert_right
from tests.judge.witness_stand import Stand
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.judge.witness import cuda
from kernelwright.judge.witness.engine import Engine

HONEST = next(f for f in python_files("honest_python") if f.path.stem == "plain").path.read_text()
BODY = HONEST.replace("        return F.layer_norm", "        y, m = F.layer_norm")


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, graph: Graph) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._graph = graph

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.item.default):
            raise RuntimeError("operation not permitted when stream is capturing")
        result = func(*args, **(kwargs or {}))
        self._graph.steps.append((func, args, kwargs or {}, result))
        return result


class Graph:
    """Operators with their arguments; a replay writes into the memory of the first results."""

    def __init__(self) -> None:
        self.steps: list[tuple[Any, Any, Any, Any]] = []

    @torch.inference_mode()
    def replay(self) -> None:
        for func, args, kwargs, result in self.steps:
            again = func(*args, **kwargs)
            pairs = zip(again, result, strict=True) if isinstance(result, tuple) else ((again, result),)
            for new, old in pairs:
                if isinstance(new, torch.Tensor) and new.data_ptr() != old.data_ptr():
                    old.copy_(new)


class Event:
    def __init__(self, **_: object) -> None:
        self.at = 0

    def record(self, _: object) -> None:
        self.at = time.perf_counter_ns()


class Stream:
    def __init__(self, *_: object) -> None: ...

    def wait_stream(self, _: object) -> None: ...


@contextlib.contextmanager
def recording(graph: Graph, stream: object) -> Iterator[None]:
    with Recorder(graph):
        yield


class GraphStand(Stand):
    def _engine(self, device: str) -> Engine:
        return cuda.Accelerator(self.memory, device)


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Stand:
    fakes = {
        "_Graph": Graph, "_graph": recording, "_Event": Event, "_Stream": Stream, "_replay": Graph.replay,
        "_stream": lambda _: contextlib.nullcontext(), "_synchronize": lambda: None, "_record": Event.record,
        "_elapsed": lambda first, last: (last.at - first.at) / 1e6,
    }  # fmt: skip
    for name, fake in fakes.items():
        monkeypatch.setattr(cuda, name, fake)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: None)
    return GraphStand(python_problem())


def test_replays_follow_fresh_contents_at_old_and_new_addresses(stand: Stand) -> None:
    stand.draw(0)
    assert stand.load(f"{BODY}        CALLS.append(1)\n        return y, m\n\nCALLS = []\n") == []
    for seed, moved in ((1, False), (2, False), (3, True), (4, False)):
        stand.draw(seed)
        assert stand.call((0, 1, 2), moved=moved) == []
        for slot in (0, 1, 2):
            assert_right(stand, slot)
    assert stand.engine.method.startswith("CUDA graph replays")
    stamps = stand.memory.stamps[:3]
    assert (stamps[:, 1] >= stamps[:, 0]).all()
    assert (stamps[1:, 0] >= stamps[:-1, 1]).all()


def test_a_graph_that_leaves_a_result_alone_leaves_poison(stand: Stand) -> None:
    stand.draw(0)
    stand.load(HONEST)
    assert stand.call((0,)) == []
    (graph, _), *_ = stand.engine._graphs.values()  # type: ignore[attr-defined]
    graph.steps.clear()
    stand.draw(1)
    assert stand.call((0,)) == []
    assert bool(stand.slots.outputs[0][0].isnan().all())


def test_memory_that_a_candidate_keeps_is_seen_when_it_is_captured(stand: Stand) -> None:
    stand.draw(0)
    stand.load(f"{BODY}        KEPT.append((y, m))\n        return KEPT[0]\n\nKEPT = []\n")
    (found, *_) = stand.call((0,))
    assert found[0] == "structure"
    assert "two calls returned the same memory" in found[1]


def test_what_cannot_be_captured_is_called_directly_and_says_so(stand: Stand) -> None:
    stand.draw(0)
    stand.load(f"{BODY}        assert float(m.sum()) == float(m.sum())\n        return y, m\n")
    for seed in (1, 2):
        stand.draw(seed)
        assert stand.call((0, 1)) == []
        assert_right(stand, 1)
    assert "called directly (it cannot be captured: operation not permitted" in stand.engine.method


@pytest.mark.parametrize(
    ("body", "check"),
    [
        ("x.add_(1); return y, m", "inputs unchanged"),
        ("return y, x.view(-1)[:64]", "structure"),
        ("torch.set_grad_enabled(True); return y, m", "environment"),
    ],
)
def test_what_a_call_must_not_do(body: str, check: str, stand: Stand) -> None:
    stand.draw(0)
    stand.load(f"{BODY}        {body}\n")
    (found, *_) = stand.call((0, 1))
    assert found[0] == check
