"""The all-stream span: what records are held to, how CUPTI's are read, and whose fault it is when they do not hold.

The device is a model: streams run what they are given in order. What only a device has is in tests/gpu/test_spans.py.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernelwright.judge.findings import Findings, Unfit
from kernelwright.judge.runner import RunnerStopped
from kernelwright.judge.witness import activities, examine
from kernelwright.judge.witness.spans import SLACK_NS, span_check
from kernelwright.types import Check, Failure

MARKS = (5003, 6007)
CALLS, CALL_NS, LAUNCH_NS = 4, 100_000, 3_000


class Device:
    """Streams that run their work in order; the host needs a little for each launch. Stream 7 is the harness's."""

    def __init__(self) -> None:
        self.rows: list[list[int]] = []
        self.free: dict[int, int] = {}
        self.host = 1_764_552_000_000_000_000
        self.events: list[int] = []

    def run(self, work_ns: int, stream: int = 7, size: int = 0) -> None:
        self.host += LAUNCH_NS
        start = max(self.host, self.free.get(stream, 0))
        self.free[stream] = start + work_ns
        self.rows.append([start, start + work_ns, stream, size])

    def event(self) -> None:
        self.host += LAUNCH_NS
        self.events.append(max(self.host, self.free.get(7, 0)))

    def wait(self, stream: int, other: int) -> None:
        self.free[stream] = max(self.free.get(stream, 0), self.free.get(other, 0))


def told(call: Callable[[Device], None], *, before: Callable[[Device], None] = lambda device: None) -> dict[str, Any]:
    """What a recorder tells of a block: mark, event, calls, event, mark; the events are on the harness's stream."""
    device = Device()
    before(device)
    device.run(1_500, size=MARKS[0])
    device.event()
    for _ in range(CALLS):
        call(device)
    device.event()
    device.run(1_500, size=MARKS[1])
    clock_ns = device.events[1] - device.events[0]
    return {"activities": device.rows, "dropped": 0, "code": 0, "clock_ns": clock_ns}


def checked(what: object, least: int = CALLS) -> Check:
    return span_check(what, marks=MARKS, calls=CALLS, least=least)


def plain(device: Device) -> None:
    device.run(CALL_NS // 2)
    device.run(CALL_NS // 2, size=4096)  # a copy that is no mark


def two_streams(device: Device) -> None:
    device.wait(9, 7)
    device.run(CALL_NS, stream=9)
    device.run(CALL_NS // 2)
    device.wait(7, 9)


def hidden_stream(device: Device) -> None:
    """The work is on a stream that nobody waits for; what the events see is a small kernel."""
    device.run(CALL_NS, stream=9)
    device.run(2_000)


def graph_on_a_side_stream(device: Device) -> None:
    device.run(CALL_NS, stream=11)


def tiny(device: Device) -> None:
    device.run(2_000)


@pytest.mark.parametrize(("call", "streams"), [(plain, 1), (two_streams, 2), (tiny, 1)])
def test_work_within_the_time_of_its_calls_passes(call: Callable[[Device], None], streams: int) -> None:
    found = checked(told(call))
    assert found.passed, found.evidence
    assert f"on {streams} streams" in found.evidence
    assert "0.0 µs outside" in found.evidence


@pytest.mark.parametrize("call", [hidden_stream, graph_on_a_side_stream])
def test_work_that_nobody_waits_for_is_named_with_its_figures(call: Callable[[Device], None]) -> None:
    found = checked(told(call))
    assert not found.passed
    assert found.name == "span"
    assert found.evidence.startswith("it has work outside the time of its calls: ")
    assert "µs by the clock" in found.evidence


def test_work_enqueued_before_the_first_event_is_named() -> None:
    found = checked(told(tiny, before=lambda device: device.run(CALLS * CALL_NS, stream=9)))
    assert not found.passed
    assert "outside the time of its calls" in found.evidence
    # As much as the slack is no finding, and begun before but over a moment later is.
    assert checked(told(tiny, before=lambda device: device.run(SLACK_NS, stream=9))).passed


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_clock_that_the_records_contradict_is_named(factor: float) -> None:
    what = told(plain)
    found = checked(what | {"clock_ns": int(what["clock_ns"] * factor)})
    assert not found.passed
    assert found.evidence.startswith("clock and records disagree")


def changed(number: int, **values: int) -> Callable[[dict[str, Any]], object]:
    """Says what becomes of one activity of those that were told."""
    places = {"start": 0, "end": 1, "stream": 2, "size": 3}

    def change(what: dict[str, Any]) -> object:
        for name, number_there in values.items():
            what["activities"][number][places[name]] = number_there
        return what

    return change


BROKEN: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "nothing": (lambda what: None, "nothing was told"),
    "another form": (lambda what: [1, 2], "nothing was told"),
    "not to be had": (lambda what: {"why": "it is not installed", "clock_ns": 1}, "it is not installed"),
    "without activities": (lambda what: what | {"activities": None}, "another form"),
    "ragged": (lambda what: what | {"activities": [[1, 2, 3, 4], [5]]}, "another form"),
    "words": (lambda what: what | {"activities": [["a", "b", "c", "d"]]}, "another form"),
    "beyond all numbers": (lambda what: what | {"activities": [[1, 2, 3, 10**30]]}, "another form"),
    "no clock": (lambda what: what | {"clock_ns": "soon"}, "another form"),
    "empty": (lambda what: what | {"activities": []}, "recorded 0 and 0 times"),
    "dropped": (lambda what: what | {"dropped": 3}, "records were lost (3, code 0)"),
    "an error": (lambda what: what | {"code": 15}, "code 15"),
    "only the marks": (
        lambda what: what | {"activities": [what["activities"][0], what["activities"][-1]]},
        "calls without",
    ),
    "no first mark": (lambda what: what | {"activities": what["activities"][1:]}, "recorded 0 and 1 times"),
    "no last mark": (lambda what: what | {"activities": what["activities"][:-1]}, "recorded 1 and 0 times"),
    "a mark twice": (changed(1, size=MARKS[0]), "recorded 2 and 1 times"),
    "marks on two streams": (changed(-1, stream=3), "not once on one stream"),
    "no time": (changed(1, start=0, end=0), "a time that none can have"),
    "backwards": (changed(1, end=1), "a time that none can have"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_records_that_are_missing_lost_or_impossible_fail(name: str) -> None:
    change, why = BROKEN[name]
    found = checked(change(told(plain)))
    assert not found.passed
    assert why in found.evidence
    assert len(found.evidence) < 400


def test_a_call_that_only_gives_a_view_needs_no_activity() -> None:
    assert checked(told(lambda device: None), least=0).passed


# ----------------------------------------------------------------------------------------------- CUPTI's records


class Memcpy(ctypes.Structure):
    """The head of CUpti_ActivityMemcpy to CUpti_ActivityMemcpy6; a memset's is like it."""

    _fields_ = [
        ("kind", ctypes.c_uint32), ("sorts", ctypes.c_uint8 * 4), ("bytes", ctypes.c_uint64),
        ("start", ctypes.c_uint64), ("end", ctypes.c_uint64), ("device", ctypes.c_uint32),
        ("context", ctypes.c_uint32), ("stream", ctypes.c_uint32), ("rest", ctypes.c_uint8 * 52),
    ]  # fmt: skip


class Kernel(ctypes.Structure):
    """The head of CUpti_ActivityKernel4 to CUpti_ActivityKernel10."""

    _fields_ = [
        ("kind", ctypes.c_uint32), ("cache", ctypes.c_uint8 * 2), ("registers", ctypes.c_uint16),
        ("asked", ctypes.c_uint32), ("executed", ctypes.c_uint32), ("start", ctypes.c_uint64),
        ("end", ctypes.c_uint64), ("completed", ctypes.c_uint64), ("device", ctypes.c_uint32),
        ("context", ctypes.c_uint32), ("stream", ctypes.c_uint32), ("rest", ctypes.c_uint8 * 164),
    ]  # fmt: skip


class Library:
    """CUPTI's part: it asks for a buffer, fills it when it is flushed, and walks through it."""

    def __init__(self, records: list[ctypes.Structure]) -> None:
        self.records, self.on, self.dropped, self.refuses = records, set[int](), 0, ""
        self.functions = {name: getattr(self, name) for name in activities.NAMES}

    def RegisterCallbacks(self, request: Any, complete: Any) -> int:  # noqa: N802
        self.request, self.complete = request, complete
        return 2 if self.refuses == "RegisterCallbacks" else 0

    def Enable(self, kind: int) -> int:  # noqa: N802
        self.on.add(kind)
        return 0

    def Disable(self, kind: int) -> int:  # noqa: N802
        self.on.discard(kind)
        return 0

    def FlushAll(self, forced: int) -> int:  # noqa: N802
        assert forced == 1
        rest = list(self.records)
        while rest:
            buffer, size, most = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t(9)
            self.request(ctypes.byref(buffer), ctypes.byref(size), ctypes.byref(most))
            if not buffer.value:
                self.dropped += len(rest)
                return 0
            assert buffer.value % 8 == most.value == 0
            self.sizes, at = {}, 0
            while rest and at + ctypes.sizeof(rest[0]) <= size.value:
                record = rest.pop(0)
                ctypes.memmove(buffer.value + at, ctypes.addressof(record), ctypes.sizeof(record))
                self.sizes[at] = ctypes.sizeof(record)
                at += ctypes.sizeof(record)
            self.complete(None, 0, buffer.value, size.value, at)
        return 0

    def GetNextRecord(self, buffer: Any, valid: Any, record: Any) -> int:  # noqa: N802
        place = ctypes.cast(record, ctypes.POINTER(ctypes.c_void_p))
        at = place[0] - buffer.value if place[0] else None
        after = 0 if at is None else at + self.sizes[at]
        if after >= valid.value:
            return 12
        place[0] = buffer.value + after
        return 0

    def GetNumDroppedRecords(self, context: Any, stream: Any, count: Any) -> int:  # noqa: N802
        ctypes.cast(count, ctypes.POINTER(ctypes.c_size_t))[0] = self.dropped
        self.dropped = 0
        return 0


RECORDS: list[ctypes.Structure] = [
    Memcpy(kind=1, bytes=5003, start=10, end=12, device=1, context=2, stream=7),
    Kernel(kind=10, asked=77, start=20, end=40, device=1, context=2, stream=9),
    Memcpy(kind=2, bytes=64, start=41, end=42, device=1, context=2, stream=13),
    Memcpy(kind=22, bytes=128, start=43, end=44, device=1, context=2, stream=14),
]
TOLD = [(10, 12, 7, 5003), (20, 40, 9, 0), (41, 42, 13, 64), (43, 44, 14, 128)]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library(RECORDS)
    monkeypatch.setattr(activities, "FUNCTIONS", made.functions)
    return made


def test_records_are_read_where_every_layout_has_their_fields(library: Library) -> None:
    recorder = activities.Cupti()
    for _ in range(2 * activities.BUFFERS):  # buffers come back
        assert recorder.start() == ""
        assert library.on == {1, 2, 10, 22}
        assert recorder.stop() == {"activities": TOLD, "dropped": 0, "code": 0}
        assert library.on == set()


def test_records_beyond_a_replys_room_and_beyond_the_buffers_are_lost(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activities, "MOST", 3)
    recorder = activities.Cupti()
    recorder.start()
    assert recorder.stop() == {"activities": TOLD[:3], "dropped": 1, "code": 0}
    monkeypatch.setattr(activities, "BUFFERS", 0)
    recorder = activities.Cupti()
    recorder.start()
    assert recorder.stop() == {"activities": [], "dropped": 4, "code": 0}


def test_why_there_is_no_recorder_is_said(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    library.refuses = "RegisterCallbacks"
    assert activities.Cupti().start() == "it cannot be switched on, code 2"
    monkeypatch.setattr(activities, "FUNCTIONS", {})
    assert activities.Cupti().start() == "torch's CUPTI is not installed"


# ---------------------------------------------------------------------------------------------------- whose fault


class Slots:
    count = 6

    def poison(self, slots: list[int], byte: int) -> None: ...


class Session:
    device = "cuda:0"

    def __init__(self) -> None:
        self.rng = np.random.default_rng(3)


class Witness:
    """Is asked for a block, and tells what a call of this kind would be recorded as."""

    def __init__(self, call: Callable[[Device], None] | None) -> None:
        self.call, self.asked, self.closed = call, 0, False

    def rest(self) -> None: ...

    def recorded(self, slots: list[int], marks: list[int]) -> object:
        self.asked += 1
        if self.call is None:
            raise RunnerStopped(Failure(stage="run", kind="signal", message="it was ended by SIGSEGV"))
        what = told(self.call)
        for row in what["activities"]:
            row[3] = marks[MARKS.index(row[3])] if row[3] in MARKS else row[3]
        return what

    def close(self) -> None:
        self.closed = True


class Examination(examine._Witnessed):
    """An examination of which only the span is left."""

    def __init__(self, session: Session, call: Callable[[Device], None] | None, own: Any = plain) -> None:
        self.session, self.slots, self.found = session, Slots(), Findings()  # type: ignore[assignment]
        self.witness, self.own = Witness(call), Witness(own)  # type: ignore[assignment]
        self.fault: str | None = None

    def _witness(self) -> Any:
        return self.own

    def _refresh(self, called: object) -> None: ...

    def _inspect(self, called: object) -> str | None:
        return self.fault


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setattr(examine, "describe", lambda session: {"aliases": [False, True]})
    monkeypatch.setattr(examine, "CALLS", CALLS)
    return Session()


def test_an_honest_candidate_is_recorded_once_and_says_so(session: Session) -> None:
    made = Examination(session, two_streams)
    made._check_span()
    assert "on 2 streams" in made.found.evidence["span"]
    assert made.span == "; an all-stream span by CUPTI agrees"
    assert made.own.asked == 0


@pytest.mark.parametrize("call", [hidden_stream, graph_on_a_side_stream, None])
def test_what_the_harness_does_not_do_is_the_candidates_fault(
    call: Callable[[Device], None] | None, session: Session
) -> None:
    made = Examination(session, call)
    with pytest.raises(Unfit) as unfit:
        made._check_span()
    assert unfit.value.check.name == "span"
    assert ("SIGSEGV" if call is None else "outside the time") in unfit.value.check.evidence
    assert made.own.asked == 1
    assert made.own.closed


def test_where_nothing_can_be_recorded_the_method_says_so_and_nobody_is_blamed(session: Session) -> None:
    for number in range(2):
        made = Examination(session, hidden_stream, own=None)
        made._check_span()
        assert "span" not in made.found.evidence
        assert "no all-stream span by CUPTI (while it was recorded, it was ended by SIGSEGV)" in made.span
        assert made.witness.asked == made.own.asked == 1 - number  # type: ignore[attr-defined]


def test_another_answer_in_the_recorded_block_is_no_way_out(session: Session) -> None:
    made = Examination(session, plain)
    made.fault = "another answer"
    with pytest.raises(Unfit, match="timed outputs: another answer"):
        made._check_span()
