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
from kernelwright.judge.witness.spans import span_check

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


MARKS = (4099, 4111)


class Recorded:
    """A recorder of what this device, the processor, does: replays, and copies between tensors of bytes."""

    def __init__(self) -> None:
        self.rows: list[list[int]] = []
        self.why, self.on, self.aside = "", False, False
        self.later: list[Graph] = []

    def _seen(self, size: int, work: Any) -> None:
        start = time.perf_counter_ns()
        work()
        if self.on:
            self.rows.append([start, time.perf_counter_ns(), 7, size])

    def replay(self, graph: Graph) -> None:
        if self.aside:
            self.later.append(graph)  # as on a stream that nobody waits for
        else:
            self._seen(0, graph.replay)

    def copy(self, to: torch.Tensor, source: torch.Tensor) -> None:
        self._seen(to.numel() if to.dtype is torch.uint8 else 0, lambda: to.copy_(source))

    def synchronize(self) -> None:
        for graph in self.later:
            self._seen(0, lambda g=graph: [g.replay() for _ in range(100)])
        self.later.clear()

    def start(self) -> str:
        self.on = not self.why
        return self.why

    def stop(self) -> dict[str, Any]:
        assert self.on
        self.on = False
        return {"activities": self.rows, "dropped": 0, "code": 0}


class GraphStand(Stand):
    def _engine(self, device: str) -> Engine:
        return cuda.Accelerator(self.memory, device)


@pytest.fixture
def recorder() -> Recorded:
    return Recorded()


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch, recorder: Recorded) -> Stand:
    fakes = {
        "_Graph": Graph, "_graph": recording, "_Event": Event, "_Stream": Stream, "_replay": recorder.replay,
        "_stream": lambda _: contextlib.nullcontext(), "_synchronize": recorder.synchronize, "_record": Event.record,
        "_elapsed": lambda first, last: (last.at - first.at) / 1e6, "_copy": recorder.copy, "Cupti": lambda: recorder,
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


def record(stand: Stand) -> dict[str, Any]:
    stand.draw(1)
    stand.holder.ready((0, 1, 2), moved=False)
    told = stand.holder.record(MARKS)
    assert stand.holder.hand_in() == []
    assert_right(stand, 2)
    return told


def test_a_recorded_block_lies_between_its_marks_and_a_timed_one_has_none(stand: Stand, recorder: Recorded) -> None:
    stand.draw(0)
    stand.load(HONEST)
    found = span_check(record(stand), marks=MARKS, calls=3, least=3)
    assert found.passed, found.evidence
    assert [size for *_, size in recorder.rows] == [MARKS[0], 0, 0, 0, MARKS[1]]
    recorder.rows.clear()
    recorder.on = True
    assert stand.call((0,)) == []
    assert [size for *_, size in recorder.rows if size] == []


def test_graphs_that_run_where_the_events_are_not_are_named(stand: Stand, recorder: Recorded) -> None:
    stand.draw(0)
    stand.load(HONEST)
    recorder.aside = True
    found = span_check(record(stand), marks=MARKS, calls=3, least=3)
    assert not found.passed
    assert "outside the time of its calls" in found.evidence


def test_direct_calls_are_recorded_with_the_walls_time(stand: Stand, recorder: Recorded) -> None:
    stand.draw(0)
    stand.load(f"{BODY}        assert float(m.sum()) == float(m.sum())\n        return y, m\n")
    told = record(stand)
    assert [size for *_, size in recorder.rows] == list(MARKS)
    stamps = stand.memory.stamps[:3]
    assert told["clock_ns"] == stamps[2, 1] - stamps[0, 0] > 0
    assert told["method"].startswith("called directly")


def test_without_a_recorder_the_block_runs_all_the_same(stand: Stand, recorder: Recorded) -> None:
    recorder.why = "it is not there"
    stand.draw(0)
    stand.load(HONEST)
    assert record(stand)["why"] == "it is not there"
