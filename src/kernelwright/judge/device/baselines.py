"""What the user could have had for free on this device, each in the form in which it is fastest.

`eager` and `compile:default` are called from Python, as a user calls them. `graph:eager` is a CUDA graph of
eager. `compile:reduce-overhead` and `compile:max-autotune` are the same compiler's code captured into one graph
by us: what these modes do themselves, without their copies of the inputs. So the candidate, which is a
replayed graph too, has no advantage of launching over them.
"""

from __future__ import annotations

import gc
import importlib
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from kernelwright.errors import KernelwrightError
from kernelwright.judge.baselines import COMPILE, EAGER, Unavailable, disagreement, sharing_module
from kernelwright.judge.device.arena import DeviceSlots
from kernelwright.judge.device.executor import Executor, Replay
from kernelwright.judge.device.turns import Turns, during
from kernelwright.reference_program import Reference, load_problem, outputs_of
from kernelwright.types import Problem

GRAPH_EAGER = "graph:eager"
LIBRARY = "library:"
MODES = {
    "default": ("default", False),
    "reduce-overhead": ("default", True),
    "max-autotune": ("max-autotune-no-cudagraphs", True),
    "max-autotune-no-cudagraphs": ("max-autotune-no-cudagraphs", False),
}
"""torch.compile's mode, and whether its code is captured into a graph, by the name after `compile:`."""
BLAS = {"cublas": "cublas", "cublaslt": "cublaslt"}
WARM_CALLS = 3
MOST_AIMS = 4
"""Choices of slots whose graphs are kept: the blocks of three policies and the warm one."""
SETTLING_S = 30.0


@dataclass
class Aim:
    """What a baseline does for one choice of slots."""

    slots: tuple[int, ...]
    replay: Replay | None = None
    results: list[object] = field(default_factory=list)
    shown: bool = False
    """Whether the results hold answers since they were hidden last."""


class DeviceBaseline:
    """One contender that runs in the judge worker through torch.

    Args:
        name: as in a policy.
        call: the module or compiled code.
        slots: whose inputs it is called on.
        arguments: the full argument list of each slot.
        executor: the device.
        captured: whether it is replayed as a graph.
        inputs: addresses of the slots' inputs and parameters, which a result may be a view of.
    """

    def __init__(
        self,
        name: str,
        call: Callable[..., Any],
        arguments: Sequence[tuple[object, ...]],
        executor: Executor,
        *,
        captured: bool,
        inputs: range = range(0),
    ) -> None:
        self.name, self.captured, self._inputs = name, captured, inputs
        self._call, self._arguments, self._executor = call, arguments, executor
        self._aims: OrderedDict[tuple[int, ...], Aim] = OrderedDict()
        self._aim = Aim(())
        self.estimate_us = 0.0

    def call(self, slot: int) -> object:
        """Enqueues one call on a slot."""
        with torch.inference_mode():
            return self._call(*self._arguments[slot])

    def outputs(self, slot: int) -> tuple[torch.Tensor, ...]:
        """Returns the outputs of a call on a slot's present contents."""
        return outputs_of(self.call(slot))

    def settle(self) -> None:
        """Runs until code is compiled and memory is warm; sets `estimate_us`."""
        for slot in range(min(WARM_CALLS, len(self._arguments))):
            self.call(slot)
            self._executor.wait(deadline_s=SETTLING_S, during=f"warming {self.name}")
        slots = range(min(2 * WARM_CALLS, len(self._arguments)))
        spans = []
        for _ in range(2):
            self.aim(tuple(slots))
            self.launch()
            spans.append(self._executor.timed(self.launch, deadline_s=SETTLING_S, during=f"warming {self.name}"))
        self.estimate_us = min(span.device_us for span in spans) / len(slots)

    def aim(self, slots: tuple[int, ...]) -> None:
        """Chooses the slots of the next launches; a graph is captured for those that have none yet."""
        found = self._aims.get(slots)
        if found is None:
            found = self._aims[slots] = Aim(slots)
            if self.captured:
                found.replay = self._executor.capture(partial(self._all, found))
            while len(self._aims) > MOST_AIMS:
                self._aims.popitem(last=False)
        self._aim = found

    def launch(self) -> None:
        """Enqueues one call on each of the chosen slots."""
        self._aim.shown = True
        if self._aim.replay is not None:
            self._aim.replay.launch()
        else:
            self._all(self._aim)

    def _all(self, aim: Aim) -> None:
        call, arguments = self._call, self._arguments
        with torch.inference_mode():
            aim.results = [call(*arguments[slot]) for slot in aim.slots]

    def hide(self) -> None:
        """Makes its last answers unreadable: zeroed where a graph holds them, else given back to the allocator."""
        for aim in self._aims.values():
            if not aim.shown:
                continue
            aim.shown = False
            if aim.replay is None:
                aim.results = []
                continue
            memory = self._memory_of(aim.results)
            if memory:
                torch._foreach_zero_(memory)

    def _memory_of(self, results: Sequence[object]) -> list[torch.Tensor]:
        """Returns the bytes behind some results, except where they are the inputs' own; a result may be any view."""
        answers = [t for result in results for t in outputs_of(result) if t.data_ptr() not in self._inputs]
        storages = {t.untyped_storage().data_ptr(): t.untyped_storage() for t in answers if t.numel()}
        empty = torch.empty(0, dtype=torch.uint8, device=self._executor.device)
        return [empty.new_empty(0).set_(storage) for storage in storages.values()]


def make_device_baseline(
    name: str,
    problem: Problem,
    reference: Reference,
    slots: DeviceSlots,
    executor: Executor,
    *,
    context: Callable[[], Any],
    eager: DeviceBaseline | None,
    turns: Turns,
) -> DeviceBaseline | Unavailable:
    """Returns a baseline ready to be timed, or why there is none.

    Args:
        name: `eager`, `graph:eager`, `compile:MODE`, or `library:NAME` (eager with that BLAS, captured).
        problem: whose reference is run.
        reference: an already loaded reference, which knows the arguments that are not tensors.
        slots: where inputs and parameters lie.
        executor: the device.
        context: what a call of the reference must be wrapped in.
        eager: what another baseline is compared with once.
        turns: who else uses the device: it is left to them while code is compiled.

    Raises:
        KernelwrightError: for an unknown name.
    """
    mode, captured = form_of(name)
    # Plain problems are called with the full arguments, prepared beforehand; gradients go through the reference.
    plain = not problem.gradients
    tensors = [slots.inputs(slot) for slot in range(slots.count)]
    arguments = [reference.arguments_with(given) if plain else tuple(given) for given in tensors]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with executor.device:
                own = load_problem(problem)
                module: Any = sharing_module(own, slots.parameters)
                if not plain:
                    own.make_inputs(0)  # so that it knows the arguments that are no tensors
            called: Any = _wrapped(module, context) if plain else module
            if mode:
                called = torch.compile(called, mode=mode, dynamic=False)
            if not plain:
                called = _wrapped(own.caller(called), context)
            if name.startswith(LIBRARY):
                called = _with_blas(called, BLAS[name.removeprefix(LIBRARY)])
            made = DeviceBaseline(name, called, arguments, executor, captured=captured, inputs=slots.input.addresses)
            if mode:
                _compile(made, turns)
            made.settle()
            reason = disagreement(made, eager) if eager else ""
    except Exception as error:  # noqa: BLE001  (a compiler may fail in any way; it is said, not hidden)
        lines = str(error).strip().splitlines() or [""]
        return Unavailable(name, f"{type(error).__name__}: {lines[0][:300]}")
    finally:
        gc.collect()
    return Unavailable(name, reason) if reason else made


def _compile(made: DeviceBaseline, turns: Turns) -> None:
    """Has a baseline's code compiled. What the compiler measures meanwhile it measures alone."""
    benchmarking: Any = importlib.import_module("torch._inductor.runtime.benchmarking")
    alone = partial(turns.taken, "alone")
    if hasattr(benchmarking, "set_gpu_benchmark_lock_context"):
        benchmarking.set_gpu_benchmark_lock_context(alone)
    else:
        for kind in (benchmarking.TritonBenchmarker, benchmarking.InductorBenchmarker):
            work = vars(kind).get("benchmark_gpu")
            if work and not hasattr(work, "in_turn"):
                taking = during(turns, "alone", work)
                taking.in_turn = True  # type: ignore[attr-defined]
                kind.benchmark_gpu = taking
    with turns.taken("left"):
        made.call(0)


def form_of(name: str) -> tuple[str, bool]:
    """Returns torch.compile's mode, empty for none, and whether a graph is captured."""
    if name in (EAGER, GRAPH_EAGER):
        return "", name == GRAPH_EAGER
    if name.startswith(COMPILE) and name.removeprefix(COMPILE) in MODES:
        return MODES[name.removeprefix(COMPILE)]
    if name.startswith(LIBRARY) and name.removeprefix(LIBRARY) in BLAS:
        return "", True
    known = (EAGER, GRAPH_EAGER, *(COMPILE + mode for mode in MODES), *(LIBRARY + blas for blas in BLAS))
    raise KernelwrightError(f"unknown baseline {name!r}", f"known are {', '.join(known)}")


def _wrapped(module: Callable[..., Any], context: Callable[[], Any]) -> Callable[..., Any]:
    probe = context()
    if probe is None:
        return module

    def call(*arguments: object) -> object:
        with context():
            return module(*arguments)

    return call


def _with_blas(call: Callable[..., Any], library: str) -> Callable[..., Any]:
    def chosen(*arguments: object) -> object:
        before = torch.backends.cuda.preferred_blas_library()
        torch.backends.cuda.preferred_blas_library(library)
        try:
            return call(*arguments)
        finally:
            torch.backends.cuda.preferred_blas_library(before)

    return chosen
