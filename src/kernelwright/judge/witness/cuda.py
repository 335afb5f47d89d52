"""A candidate on a CUDA device: what is timed is the replay of the graph captured from its call.

A graph is captured for each slot on a stream of the harness's, so that neither the candidate's Python nor the launch
path is in the time, and hidden streams are refused by the capture itself (work that does not join the captured
stream cannot be captured). Inputs are rewritten before every replay: reused addresses with new contents; arguments
that have moved get a graph of their own: new addresses. Results are poisoned before every replay.

What cannot be captured (synchronisation inside, data-dependent Python) is called directly, and the time is the wall's
round the call and a synchronisation of the whole device: all streams count. `method` says which it was.

Not here: the processor's way (engine.py), what results must be (structure.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernelwright.judge.witness.engine import Calls, modes
from kernelwright.judge.witness.memory import Memory, Place

_Base = torch._C.TensorBase
_clone, _copy, _contiguous, _data_ptr = _Base.clone, _Base.copy_, _Base.contiguous, _Base.data_ptr
_clock, _Graph, _graph = time.perf_counter_ns, torch.cuda.CUDAGraph, torch.cuda.graph
_Event, _Stream, _stream, _synchronize = torch.cuda.Event, torch.cuda.Stream, torch.cuda.stream, torch.cuda.synchronize
_replay, _record, _elapsed = torch.cuda.CUDAGraph.replay, torch.cuda.Event.record, torch.cuda.Event.elapsed_time
_inference_mode, _no_grad, _equal, _frombuffer = torch.inference_mode, torch.no_grad, torch.equal, torch.frombuffer
_Tensor = torch.Tensor
WARM_CALLS = 3
POISON = 0xFF
APART, APART_NS = 1.5, 100_000
"""How much longer the wall may take than the events before the wall is believed: launching and waking up."""
GRAPHS = "CUDA graph replay, events on the harness's stream cross-checked with the wall; no CUPTI span"
DIRECT = "called directly (it cannot be captured: {why}), wall time round a synchronisation of the whole device"


class Accelerator:
    """One CUDA device, with the interface of engine.Engine.

    Args:
        memory: the judge's regions, in host memory.
        device: `cuda:0` and the like.
    """

    def __init__(self, memory: Memory, device: str) -> None:
        self._memory, self.device = memory, device
        self._stream: Any = _Stream(device)  # type: ignore[no-untyped-call]
        self._begin: Any = _Event(enable_timing=True)  # type: ignore[no-untyped-call]
        self._end: Any = _Event(enable_timing=True)  # type: ignore[no-untyped-call]
        self._slots: dict[int, tuple[Any, ...]] = {}
        self._graphs: dict[tuple[int, ...], tuple[Any, Any]] = {}
        self._captured_call: Callable[..., Any] | None = None
        self._refused = ""
        self.inference, self.left_on = True, False
        self._begin.record(self._stream)
        self._end.record(self._stream)
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
            made = tuple(view.to(self.device) for view in host)
            if moved:
                return made
            self._slots[slot] = made
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

    def run(self, call: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Calls:
        """Replays the call once on each of the arguments, or calls it directly where it cannot be captured."""
        if call is not self._captured_call:
            self._graphs, self._refused, self._captured_call = {}, "", call
        self.left_on = False
        with _inference_mode() if self.inference else _no_grad():
            before = modes()
            try:
                return self._run(call, arguments)
            finally:
                self.left_on = modes() != before

    def _run(self, call: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Calls:
        if not self._refused:
            try:
                return self._replay_all(call, arguments)
            except RuntimeError as error:
                # Either it cannot be captured, or it is wrong in itself: then the direct call says so.
                _synchronize()
                self._refused = (str(error).splitlines() or ["no reason given"])[0][:120]
                self._graphs = {}
        return self._call_all(call, arguments)

    def _replay_all(self, call: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Calls:
        ready = [self._graph_of(call, given) for given in arguments]
        results: list[Any] = []
        starts: list[int] = []
        ends: list[int] = []
        for graph, result in ready:
            for tensor in _tensors(result):
                _poison(tensor)
            _synchronize()
            start = _clock()
            _record(self._begin, self._stream)
            with _stream(self._stream):
                _replay(graph)
            _record(self._end, self._stream)
            _synchronize()
            end = _clock()
            device_ns = int(_elapsed(self._begin, self._end) * 1e6)
            believed = device_ns if end - start <= APART * device_ns + APART_NS else end - start
            results.append(result)
            starts.append(start)
            ends.append(start + max(1, min(believed, end - start)))
        return results, starts, ends

    def _graph_of(self, call: Callable[..., Any], given: tuple[Any, ...]) -> tuple[Any, Any]:
        key = tuple(int(_data_ptr(tensor)) for tensor in given if type(tensor) is _Tensor)
        if key not in self._graphs:
            self._stream.wait_stream(torch.cuda.current_stream(self.device))
            with _stream(self._stream):
                for _ in range(WARM_CALLS):
                    call(*given)
            _synchronize()
            graph = _Graph()
            with _graph(graph, stream=self._stream):
                result = call(*given)
            # The arguments are kept: their memory belongs to the graph as long as it lives.
            self._graphs[key] = (graph, (result, given))
        graph, (result, _) = self._graphs[key]
        return graph, result

    def _call_all(self, call: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Calls:
        results: list[Any] = []
        starts: list[int] = []
        ends: list[int] = []
        for given in arguments:
            _synchronize()
            start = _clock()
            result = call(*given)
            _synchronize()
            end = _clock()
            results.append(result)
            starts.append(start)
            ends.append(end)
        return results, starts, ends

    def fetch(self, index: int, slot: int, tensor: Any) -> None:
        """Copies an output to the host, row-major, and into the judge's memory."""
        host = _contiguous(tensor).cpu()
        self._memory.write(index, slot, int(_data_ptr(host)))


def _tensors(result: Any) -> list[Any]:
    """The plain tensors of a result; what else it holds is refused later."""
    if type(result) is _Tensor:
        return [result]
    if type(result) in (list, tuple):
        return [tensor for part in result for tensor in _tensors(part)]
    if type(result) is dict:
        return [tensor for part in result.values() for tensor in _tensors(part)]
    return []


def _poison(tensor: Any) -> None:
    """Fills an output's memory with a pattern that is a NaN, or -1; dense memory only."""
    if tensor.is_contiguous() and tensor.numel():
        tensor.view(-1).view(torch.uint8).fill_(POISON) if tensor.dtype is not torch.bool else tensor.fill_(True)
