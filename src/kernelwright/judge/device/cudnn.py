"""cuDNN's convolutions through its backend API, by the engine that was the fastest when they were measured here.

Over ctypes on the library that torch has loaded; numbers are those of cudnn_graph.h (cuDNN 9). PyTorch's own measuring
(benchmark) makes no candidate: all its convolutions of one shape share a cache, so that what eager ran before is not
measured again, and what was found makes eager quicker. Not here: whether arguments fit (languages/library_steps.py).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, islice
from operator import mul
from typing import Any

import torch

from kernelwright.errors import KernelwrightError

HANDLE, DATA_TYPE, INT64, FLOAT, POINTER, CONV_MODE, HEUR_MODE, NOTE, DESCRIPTOR = 0, 1, 3, 4, 6, 7, 8, 11, 15
"""Types of attributes; those without an entry below are enumerations."""
FORMS: dict[int, Any] = dict.fromkeys((HANDLE, POINTER, DESCRIPTOR), ctypes.c_void_p)
FORMS |= {INT64: ctypes.c_int64, FLOAT: ctypes.c_float}
CONVOLUTION, ENGINE, CONFIGURATION, HEURISTIC, PLAN, FORWARD, GRAPH, VARIANT, TENSOR = 1, 2, 3, 4, 5, 10, 15, 16, 17
"""Kinds of descriptors."""
MODES = (3, 2)
"""The heuristic's ranking (A), then what works for every shape (fallback)."""
CROSS_CORRELATION, FLOAT32, ALIGNMENT_BYTES = 1, 0, 16
DATA_TYPES = {torch.float32: FLOAT32, torch.float16: 2, torch.bfloat16: 9}
TENSOR_CORE = 0
"""A numerical note of engines; in float32 it means TF32."""
UNUSED = frozenset((1, 2, 3, 4, 5, 6, 7, 8))
"""Other notes: inputs or sums of fewer bits, answers that vary, and FFT and Winograd, where a number that is not finite
spoils its neighbours, which the judge refuses."""
MOST_NOTES, MOST_RANKED, MOST_MEASURED, REPEATS, CALLS = 16, 64, 16, 3, 4


@dataclass(frozen=True)
class Engine:
    """One way in which the library would do a convolution."""

    plan: int
    workspace_bytes: int
    notes: frozenset[int]


class Cudnn:
    """The library with a handle of its own; every method raises KernelwrightError when a call is refused."""

    def __init__(self, library: Any) -> None:
        self._library, self._lock, handle = library, threading.Lock(), ctypes.c_void_p()
        self._call("cudnnCreate", ctypes.byref(handle))
        self._handle = handle.value

    def _call(self, name: str, *arguments: Any) -> None:
        if status := getattr(self._library, name)(*arguments):
            raise KernelwrightError(f"{name} answered with status {status}")

    def _new(self, kind: int) -> int:
        made = ctypes.c_void_p()
        self._call("cudnnBackendCreateDescriptor", kind, ctypes.byref(made))
        return made.value or 0

    def drop(self, descriptor: int) -> None:
        """Gives a descriptor back."""
        self._library.cudnnBackendDestroyDescriptor(ctypes.c_void_p(descriptor))

    def _made(self, kind: int, *attributes: tuple[Any, ...]) -> int:
        """Returns a descriptor with attributes: name, type, values."""
        made = self._new(kind)
        try:
            for name, form, *values in attributes:
                given, count = (FORMS.get(form, ctypes.c_int) * len(values))(*values), ctypes.c_int64(len(values))
                self._call("cudnnBackendSetAttribute", ctypes.c_void_p(made), name, form, count, given)
            self._call("cudnnBackendFinalize", ctypes.c_void_p(made))
        except KernelwrightError:
            self.drop(made)
            raise
        return made

    def _read(self, of: int, name: int, form: int, *room: int) -> list[int]:
        """Returns an attribute's values; descriptors are filled in where they stand."""
        found, count = (FORMS.get(form, ctypes.c_int) * len(room))(*room), ctypes.c_int64()
        size, told = ctypes.c_int64(len(room)), ctypes.byref(count)
        self._call("cudnnBackendGetAttribute", ctypes.c_void_p(of), name, form, size, told, found)
        return list(found[: count.value])

    def engines(self, shapes: Iterable[tuple[int, ...]], dtype: int, windows: list[list[int]]) -> Iterator[Engine]:
        """Yields engines for dense x, weight, out and windows (stride, padding, dilation), favourites first."""
        x, weight, out = (self._tensor(number, shape, dtype) for number, shape in enumerate(shapes, start=1))
        stride, padding, dilation = windows
        convolution = self._made(
            CONVOLUTION, (106, INT64, len(stride)), (100, DATA_TYPE, FLOAT32), (101, CONV_MODE, CROSS_CORRELATION),
            (105, INT64, *padding), (104, INT64, *padding), (102, INT64, *dilation), (103, INT64, *stride),
        )  # fmt: skip
        operation = self._made(
            FORWARD, (702, DESCRIPTOR, convolution), (704, DESCRIPTOR, x), (703, DESCRIPTOR, weight),
            (705, DESCRIPTOR, out), (700, FLOAT, 1.0), (701, FLOAT, 0.0),
        )  # fmt: skip
        graph = self._made(GRAPH, (801, DESCRIPTOR, operation), (800, HANDLE, self._handle))
        for mode in MODES:
            try:
                heuristic = self._made(HEURISTIC, (201, DESCRIPTOR, graph), (200, HEUR_MODE, mode))
                room = [self._new(CONFIGURATION) for _ in range(MOST_RANKED)]
                ranked = self._read(heuristic, 202, DESCRIPTOR, *room)
            except KernelwrightError:  # no ranking for this shape
                continue
            for configuration in ranked:
                try:
                    plan = self._made(PLAN, (401, DESCRIPTOR, configuration), (400, HANDLE, self._handle))
                except KernelwrightError:  # the heuristic also names what this device or version cannot do
                    continue
                (engine,) = self._read(configuration, 300, DESCRIPTOR, self._new(ENGINE))
                notes = self._read(engine, 1303, NOTE, *([0] * MOST_NOTES))
                yield Engine(plan, self._read(plan, 402, INT64, 0)[0], frozenset(notes))

    def _tensor(self, number: int, shape: tuple[int, ...], dtype: int) -> int:
        strides = list(accumulate(shape[:0:-1], mul, initial=1))[::-1]
        return self._made(
            TENSOR, (906, INT64, number), (901, DATA_TYPE, dtype), (902, INT64, *shape), (903, INT64, *strides),
            (900, INT64, ALIGNMENT_BYTES),
        )  # fmt: skip

    def run(self, engine: Engine, tensors: list[torch.Tensor]) -> None:
        """Enqueues a convolution of x, weight, out with a workspace on the current stream."""
        *operands, work = (tensor.data_ptr() for tensor in tensors)
        stream = ctypes.c_void_p(int(torch.cuda.current_stream(tensors[0].device).cuda_stream))
        pack = self._made(VARIANT, (1000, INT64, 1, 2, 3), (1001, POINTER, *operands), (1003, POINTER, work))
        handle = ctypes.c_void_p(self._handle)
        try:
            with self._lock:
                self._call("cudnnSetStream", handle, stream)
                self._call("cudnnBackendExecute", handle, ctypes.c_void_p(engine.plan), ctypes.c_void_p(pack))
        finally:
            self.drop(pack)


def usable(engines: Iterable[Engine], *, room_bytes: int, exact: bool) -> Iterator[Engine]:
    """Returns the engines that fit into a workspace and whose notes do not speak against them; `exact` forbids TF32."""
    bad = UNUSED | ({TENSOR_CORE} if exact else set())
    return (one for one in engines if one.workspace_bytes <= room_bytes and not one.notes & bad)


def fastest(engines: Iterable[Engine], time_us: Callable[[Engine], float]) -> Engine:
    """Returns the quickest of the first engines, KernelwrightError without any; one that fails has no time."""
    timed: list[tuple[float, int, Engine]] = []
    for place, engine in enumerate(islice(engines, MOST_MEASURED)):
        with suppress(KernelwrightError):
            timed.append((time_us(engine), place, engine))
    if not timed:
        raise KernelwrightError("cuDNN has no engine for this convolution that fits into the plan's workspace")
    return min(timed)[2]


def loaded(*names: str) -> ctypes.CDLL:
    """Returns the first of these libraries that is there, by its name alone: torch has loaded it."""
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise KernelwrightError(f"none of {', '.join(names)} can be loaded", "torch for CUDA brings one")


@cache
def on_device(ordinal: int) -> Cudnn:
    """Returns the library with a handle on a device; KernelwrightError where there is no cuDNN 9."""
    torch.backends.cudnn.version()  # type: ignore[no-untyped-call]  # has torch load it
    with torch.cuda.device(ordinal):
        return Cudnn(loaded("libcudnn.so.9"))


_chosen: dict[tuple[Any, ...], Engine] = {}


def prepared(tensors: list[torch.Tensor], options: Mapping[str, object]) -> Callable[[], None]:
    """Returns the call of a convolution of dense x, weight, out with a workspace, by the engine that was fastest here.

    Raises:
        KernelwrightError: without a library or engine, or in a capture before one was chosen.
    """
    x, weight, out, work = tensors
    library = on_device(x.device.index or 0)
    texts = [str(options[name]) for name in ("stride", "padding", "dilation")]
    shapes = tuple(tuple(tensor.shape) for tensor in (x, weight, out))
    key = (x.device, x.dtype, shapes, work.numel(), *texts)
    if key not in _chosen:
        if torch.cuda.is_current_stream_capturing():
            raise KernelwrightError("cuDNN's engines cannot be measured inside a capture", "call it once before")
        found = list(library.engines(shapes, DATA_TYPES[x.dtype], [[int(n) for n in t.split("x")] for t in texts]))
        kept = usable(found, room_bytes=work.numel(), exact=x.dtype == torch.float32)
        # What is measured writes to memory of its own: a slot's output is the judge's to look at.
        aside = [x, weight, torch.empty_like(out), work]
        _chosen[key] = fastest(kept, lambda engine: time_us(library, engine, aside))
        for engine in found:
            if engine is not _chosen[key]:
                library.drop(engine.plan)
    engine = _chosen[key]
    return lambda: library.run(engine, tensors)


def time_us(library: Cudnn, engine: Engine, tensors: list[torch.Tensor]) -> float:
    """Returns the least time of one call, after some that are not counted."""
    spans = []
    for _ in range(1 + REPEATS):
        begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begun.record()
        for _ in range(CALLS):
            library.run(engine, tensors)
        ended.record()
        ended.synchronize()
        spans.append(1e3 * float(begun.elapsed_time(ended)) / CALLS)
    return min(spans[1:])
