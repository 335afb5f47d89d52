"""A candidate on a CUDA device: what is timed is the replay of the graph captured from its call.

A graph is captured for each slot on a stream of the harness's, so that neither the candidate's Python nor the launch
path is in the time, and hidden streams are refused by the capture itself (work that does not join the captured
stream cannot be captured). The graphs of a block are replayed back to back, with an event after each, so that the
stamps explain what the judge's clock sees of the block. Inputs are rewritten before every replay: reused addresses with
new contents; arguments that have moved get a graph of their own: new addresses. Results are poisoned before every
replay, and must not lie where an earlier call's lie. After the timed blocks one more is recorded (`recorded`).

What cannot be captured (synchronisation inside, data-dependent Python) is called directly, and the time is the wall's
round the call and a synchronisation of the whole device: all streams count. `method` says which it was.

Not here: the processor's way (engine.py), what results must be (structure.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernelwright.judge.witness.activities import Cupti, Recorder
from kernelwright.judge.witness.engine import Calls, modes
from kernelwright.judge.witness.memory import Memory, Place

_Base = torch._C.TensorBase
_clone, _copy, _contiguous, _data_ptr = _Base.clone, _Base.copy_, _Base.contiguous, _Base.data_ptr
_clock, _Graph, _graph = time.perf_counter_ns, torch.cuda.CUDAGraph, torch.cuda.graph
_Event, _Stream, _stream, _synchronize = torch.cuda.Event, torch.cuda.Stream, torch.cuda.stream, torch.cuda.synchronize
_replay, _record, _elapsed = torch.cuda.CUDAGraph.replay, torch.cuda.Event.record, torch.cuda.Event.elapsed_time
_inference_mode, _no_grad, _empty = torch.inference_mode, torch.no_grad, torch.empty
_Tensor = torch.Tensor
WARM_CALLS = 3
POISON = 0xFF
APART, APART_NS = 1.5, 100_000
"""How much longer the wall may take than the events before the wall is believed: launching and waking up."""
MOST_MOVED = 16
"""Graphs of arguments at new addresses that are kept: their memory must not come again while somebody compares."""
GRAPHS = "CUDA graph replays back to back, events on the harness's stream cross-checked with the wall"
DIRECT = "called directly (it cannot be captured: {why}), wall time round a synchronisation of the whole device"


class Accelerator:
    """One CUDA device, with the interface of engine.Engine.

    Args:
        memory: the judge's regions, in host memory.
        device: `cuda:0` and the like.
        direct: why calls are never captured; empty where they are, if they can be.
    """

    def __init__(self, memory: Memory, device: str, *, direct: str = "") -> None:
        self._memory, self.device = memory, device
        self._stream: Any = _Stream(device)  # type: ignore[no-untyped-call]
        self._events: list[Any] = []
        self._recorder: Recorder = Cupti()
        self._marks: list[Any] = []
        self._clock_ns = 0
        self._slots: dict[int, tuple[Any, ...]] = {}
        self._own: set[tuple[int, ...]] = set()
        self._graphs: dict[tuple[int, ...], tuple[Any, Any]] = {}
        self._captured_call: Callable[..., Any] | None = None
        self._direct = self._refused = direct
        self.inference, self.left_on, self.kept = True, False, False
        _start_autograd(device)
        _synchronize()

    @property
    def method(self) -> str:
        """How calls are timed."""
        return DIRECT.format(why=self._refused) if self._refused else GRAPHS

    # ------------------------------------------------------------------------------------------------ arguments

    def arguments(self, slot: int, *, moved: bool) -> tuple[Any, ...]:
        """Returns a slot's tensors on the device with its present contents; moved: at addresses not used before."""
        host = [self._memory.view(place, slot) for place in self._memory.inputs]
        if moved or slot not in self._slots:
            made = tuple(view.to(self.device, copy=True) for view in host)
            if moved:
                return made
            self._slots[slot] = made
            self._own.add(_key(made))
        for tensor, view in zip(self._slots[slot], host, strict=True):
            _copy(tensor, view)
        # New tensors over the same memory: a candidate may have changed the old ones' shape.
        return tuple(tensor.detach() for tensor in self._slots[slot])

    def spoiled(self, slot: int, arguments: tuple[Any, ...]) -> str:
        """Returns the name of an input that a call has written to."""
        _synchronize()
        for place, tensor in zip(self._memory.inputs, arguments, strict=True):
            if not self.same(place, slot, tensor):
                return place.name
        return ""

    def same(self, place: Place, slot: int, tensor: Any) -> bool:
        """Tells whether a tensor still holds what the judge gave, bit for bit."""
        host = _contiguous(tensor).cpu()
        return self._memory.matches(place, slot, int(_data_ptr(host)))

    # -------------------------------------------------------------------------------------------------- calling

    def prepare(self, call: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> None:
        """Captures a graph for each of the arguments that has none, where the call lets itself be captured."""
        if call is not self._captured_call:
            self._graphs, self._refused, self._captured_call, self.kept = {}, self._direct, call, False
        self.left_on = False
        if self._refused:
            return
        with _inference_mode() if self.inference else _no_grad():
            before = modes()
            try:
                for given in arguments:
                    self._capture(call, given)
                    _poison(self._graphs[_key(given)][1][0], given)
            except RuntimeError as error:
                # Either it cannot be captured, or it is wrong in itself: then the direct call says so.
                _synchronize()
                self._refused = (str(error).splitlines() or ["no reason given"])[0][:120]
                self._graphs = {}
            finally:
                self.left_on = modes() != before
        _synchronize()

    def run(self, call: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Calls:
        """Replays the call once on each of the arguments, or calls it directly where it cannot be captured."""
        if not self._refused:
            return self._replay_all(arguments)
        with _inference_mode() if self.inference else _no_grad():
            before = modes()
            try:
                return self._call_all(call, arguments)
            finally:
                self.left_on = modes() != before

    def _replay_all(self, arguments: Sequence[tuple[Any, ...]]) -> Calls:
        ready = [self._graphs[_key(given)] for given in arguments]
        while len(self._events) <= len(ready):
            self._events.append(_Event(enable_timing=True))  # type: ignore[no-untyped-call]
        first, *after = self._events[: len(ready) + 1]
        self._mark(0)
        begun = _clock()
        _record(first, self._stream)
        with _stream(self._stream):
            for (graph, _), event in zip(ready, after, strict=True):
                _replay(graph)
                _record(event, self._stream)
        self._mark(-1)
        _synchronize()
        ended = _clock()
        stamps = [begun + int(_elapsed(first, event) * 1e6) for event in after]
        self._clock_ns = stamps[-1] - begun if stamps else 0
        if stamps and ended - begun > APART * (stamps[-1] - begun) + APART_NS:
            # The device did something that the events do not see: all of the wall's time is the candidate's.
            stamps = [begun + (ended - begun) * (number + 1) // len(ready) for number in range(len(ready))]
        ends = [min(stamp, ended) for stamp in stamps]
        return [result for _, (result, _) in ready], [begun, *ends[:-1]][: len(ends)], ends

    def _capture(self, call: Callable[..., Any], given: tuple[Any, ...]) -> None:
        key = _key(given)
        if key in self._graphs:
            return
        self._stream.wait_stream(torch.cuda.current_stream(self.device))
        with _stream(self._stream):
            for _ in range(WARM_CALLS):
                earlier = call(*given)
        _synchronize()
        graph = _Graph()
        with _graph(graph, stream=self._stream):
            result = call(*given)
        self.kept = self.kept or _meet(_tensors(earlier), _tensors(result), _tensors(list(given)))
        moved = [known for known in self._graphs if known not in self._own]
        if key not in self._own and len(moved) >= MOST_MOVED:
            del self._graphs[moved[0]]
        # The arguments are kept: their memory belongs to the graph as long as it lives.
        self._graphs[key] = (graph, (result, given))

    def _call_all(self, call: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Calls:
        results: list[Any] = []
        starts: list[int] = []
        ends: list[int] = []
        self._mark(0)
        for given in arguments:
            _synchronize()
            start = _clock()
            result = call(*given)
            _synchronize()
            end = _clock()
            results.append(result)
            starts.append(start)
            ends.append(end)
        self._mark(-1)
        self._clock_ns = ends[-1] - starts[0] if ends else 0
        return results, starts, ends

    def recorded(self, go: Callable[[], object], marks: Sequence[int]) -> dict[str, Any]:
        """Runs a block; returns what the device ran for it between copies of so many bytes, its time, and `method`."""
        sides = [_empty((2, size), dtype=torch.uint8, device=self.device) for size in marks]
        _synchronize()
        why = self._recorder.start()
        self._marks = [(side[0], side[1]) for side in sides]
        try:
            go()
        finally:
            self._marks = []
            _synchronize()
            told = self._recorder.stop() if not why else {"why": why}
        return {**told, "clock_ns": self._clock_ns, "method": self.method}

    def _mark(self, which: int) -> None:
        if self._marks:
            with _stream(self._stream):
                _copy(*self._marks[which])

    def fetch(self, index: int, slot: int, tensor: Any) -> None:
        """Copies an output to the host, row-major, and into the judge's memory."""
        host = _contiguous(tensor).cpu()
        self._memory.write(index, slot, int(_data_ptr(host)))


def _key(given: tuple[Any, ...]) -> tuple[int, ...]:
    """The addresses of an argument list's tensors."""
    return tuple(int(_data_ptr(tensor)) for tensor in given if type(tensor) is _Tensor)


def _meet(earlier: Sequence[Any], results: Sequence[Any], given: Sequence[Any]) -> bool:
    """Tells whether a result lies where one of another call lies that is still held, and no argument does."""
    inputs = {int(tensor.untyped_storage().data_ptr()) for tensor in given if tensor.numel()}
    held = {int(tensor.untyped_storage().data_ptr()) for tensor in earlier if tensor.numel()} - inputs
    return any(int(tensor.untyped_storage().data_ptr()) in held for tensor in results if tensor.numel())


def _tensors(result: Any) -> list[Any]:
    """The plain tensors of a result; what else it holds is refused later."""
    if type(result) is _Tensor:
        return [result]
    if type(result) in (list, tuple):
        return [tensor for part in result for tensor in _tensors(part)]
    if type(result) is dict:
        return [tensor for part in result.values() for tensor in _tensors(part)]
    return []


def _poison(result: Any, given: Sequence[Any]) -> None:
    """Fills outputs' memory with a pattern that is a NaN, or -1; dense memory only, and none of the arguments'."""
    inputs = {int(tensor.untyped_storage().data_ptr()) for tensor in _tensors(list(given))}
    for tensor in _tensors(result):
        if tensor.is_contiguous() and tensor.numel() and int(tensor.untyped_storage().data_ptr()) not in inputs:
            tensor.view(-1).view(torch.uint8).fill_(POISON) if tensor.dtype is not torch.bool else tensor.fill_(True)


def _start_autograd(device: str) -> None:
    """Has autograd start its thread for the device, which would be taken for the candidate's otherwise."""
    with torch.enable_grad():
        one = torch.ones((), device=device, requires_grad=True)
        torch.autograd.grad(one * one, one)
