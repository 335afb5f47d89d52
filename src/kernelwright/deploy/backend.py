"""The backend of torch.compile that puts verified kernels where they win, and leaves the rest to Inductor.

Whether a kernel wins is measured in the model itself, with the first call's own tensors: the whole graph with and
without it, forward and backward where gradients are needed, in alternating rounds. Only a kernel whose interval lies
wholly above 1 stays; then all that stay are held against plain Inductor together.
A mode of Inductor that captures CUDA graphs is for what stays: without and with a kernel are timed uncaptured, since
captures that take turns would keep each other's memory.
**Does not cover**: graphs with sizes that vary (Inductor has them alone).
"""

from __future__ import annotations

import copy
import functools
import logging
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from kernelwright import environment
from kernelwright.deploy import decisions
from kernelwright.deploy.decisions import Placed
from kernelwright.deploy.operator import KNOWN, Operator
from kernelwright.deploy.regions import Pattern, Region, digest_of, pattern_of, regions_of, replaced, trace
from kernelwright.deploy.tidying import sizes_fixed
from kernelwright.errors import words_of

NAME = "kernelwright"
LOG = logging.getLogger("kernelwright")
ROUNDS = 15
LEAST_ROUND_S = {"cuda": 0.002, "cpu": 0.02}
"""A round of one contender repeats its calls until it takes so long; a processor is shared with others."""
MOST_CALLS = 200
LEAST_CALLS = 5
"""On a processor a round is the least of so many calls: whoever loses the processor in one of them has not lost."""
CAPTURING = ("reduce-overhead", "max-autotune")
"""Modes of Inductor that capture CUDA graphs."""
_patterns: dict[Operator, Pattern | None] = {}
Compiled = Callable[..., Any]
Compiler = Callable[[torch.fx.GraphModule, Sequence[Any]], Compiled]


def patterns() -> tuple[Pattern, ...]:
    """Returns the patterns of all operators that this process has loaded."""
    for operator in tuple(KNOWN):
        if operator not in _patterns:
            _patterns[operator] = pattern_of(operator)
    return tuple(found for operator in KNOWN if (found := _patterns[operator]) is not None)


def backend(module: torch.fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Compiled:
    """Compiles one graph of torch.compile; `options={"measure": False}` puts every kernel that fits in its place.

    What was measured is remembered (decisions.py); {"measure": "again"} measures anew. A mode of Inductor is
    torch.compile's `mode`, or {"mode": "reduce-overhead"} among these options.
    """
    given = dict(options.get("options") or {})
    measure = given.pop("measure", True)
    mode = given.pop("mode", options.get("mode")) or "default"
    compile_fx = inductor(mode)
    if environment.disabled() or not KNOWN or not sizes_fixed(inputs):
        return compile_fx(module, list(inputs))
    try:
        traced = traced_graph(module, inputs)
        regions = [region for region in regions_of(traced, patterns(), leaves=leaves_of(inputs)) if not region.reason]
    except Exception as error:  # noqa: BLE001  (what cannot be traced again is Inductor's alone)
        LOG.info("this graph is left to Inductor: %s", error)
        regions = []
    if not regions:
        return compile_fx(module, list(inputs))
    return Chosen(module, traced, regions, mode=mode, measure=bool(measure), remember=measure != "again")


def traced_graph(module: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> torch.fx.GraphModule:
    """Returns a graph of torch.compile as regions.py compares it, traced apart from the compilation that goes on."""
    with torch._guards.tracing(None), FakeTensorMode():
        fakes = [
            torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device, requires_grad=t.requires_grad)
            for t in inputs
        ]
        return trace(module, fakes)


def inductor(mode: str = "default", *, captures: bool = True) -> Compiler:
    """Returns what compiles a graph when nothing of it, or the rest of it, is ours.

    Args:
        mode: of Inductor.
        captures: False leaves the mode's captured graphs out.
    """
    from torch._inductor import list_mode_options
    from torch._inductor.compile_fx import compile_fx

    patches = dict(list_mode_options(mode)) | ({} if captures else {"triton.cudagraphs": False})
    compiler: Any = functools.partial(compile_fx, config_patches=patches)
    return compiler  # type: ignore[no-any-return]


def leaves_of(inputs: Sequence[torch.Tensor]) -> list[bool]:
    """Returns which of a graph's inputs need a gradient now."""
    return [torch.is_grad_enabled() and tensor.requires_grad for tensor in inputs]


class Chosen:
    """A compiled graph that decides at its first call which regions are replaced."""

    def __init__(
        self, module: torch.fx.GraphModule, traced: torch.fx.GraphModule, regions: Sequence[Region], *, mode: str,
        measure: bool, remember: bool = True,
    ) -> None:  # fmt: skip
        self._module, self._traced, self._regions, self._mode = module, traced, tuple(regions), mode
        self._measure, self._remember = measure, remember
        self._compiled: Compiled | None = None
        self._lock = threading.Lock()
        self.kept: tuple[Region, ...] = ()

    def __call__(self, *inputs: torch.Tensor) -> Any:
        """Runs the graph."""
        if self._compiled is None:
            with self._lock:
                if self._compiled is None:
                    self._compiled = self._choose(inputs)
        return self._compiled(*inputs)

    def _choose(self, inputs: Sequence[torch.Tensor]) -> Compiled:
        if not self._measure:
            self.kept = self._regions
            return self._with(self._regions, inputs, captures=True)
        groups: dict[Operator, list[Region]] = {}
        for region in self._regions:
            groups.setdefault(region.pattern.operator, []).append(region)
        made: dict[tuple[str, ...], Compiled] = {}
        winners: list[Region] = []
        for operator, group in groups.items():
            if self._decided([operator], group, inputs, made).kept:
                winners += group
        kept = list(dict.fromkeys(region.pattern.operator for region in winners))
        if len(kept) > 1 and not self._decided(kept, winners, inputs, made).kept:
            winners = []
        self.kept = tuple(winners)
        names = tuple(region.pattern.operator.name for region in winners)
        found = made.get(tuple(dict.fromkeys(names)))
        made.clear()  # what lost need not keep its memory
        has_captures = inputs[0].is_cuda and self._mode in CAPTURING
        return self._with(winners, inputs, captures=True) if found is None or has_captures else found

    def _decided(
        self, group: Sequence[Operator], regions: Sequence[Region], inputs: Sequence[torch.Tensor],
        made: dict[tuple[str, ...], Compiled],
    ) -> Placed:  # fmt: skip
        """Returns whether operators win together in this graph: as remembered, or as measured now."""
        names = tuple(operator.name for operator in group)
        key = decisions.key_of(digest_of(self._traced.graph), names, inputs, self._mode)
        found = decisions.recall(key) if self._remember else None
        if found is None:
            found = self._timed(names, regions, inputs, made)
            decisions.keep(key, found)
        decisions.DECIDED.append(found)
        LOG.info("%s", found)
        return found

    def _timed(
        self, names: tuple[str, ...], regions: Sequence[Region], inputs: Sequence[torch.Tensor],
        made: dict[tuple[str, ...], Compiled],
    ) -> Placed:  # fmt: skip
        for what, group in (((), ()), (names, regions)):
            if what not in made:
                try:
                    made[what] = self._with(group, inputs)
                except Exception as error:
                    if not what:
                        raise
                    return Placed(names=names, calls=len(regions), reason=f"it does not compile: {words_of(error)}")
        low, middle, high = ratio(made[()], made[names], inputs)
        return Placed(names=names, calls=len(regions), low=low, middle=middle, high=high)

    def _with(self, regions: Sequence[Region], inputs: Sequence[torch.Tensor], *, captures: bool = False) -> Compiled:
        compiler = inductor(self._mode, captures=captures)
        made = replaced(self._traced, regions) if regions else copy.deepcopy(self._module)
        return compiler(described(made, self._module), copied(inputs))


def described(made: torch.fx.GraphModule, module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Returns a graph with what torch.compile knows of another's inputs: which are parameters, and so never move.

    Without it a captured graph would copy all parameters for each call.
    """
    old, new = (graph.find_nodes(op="placeholder") for graph in (module.graph, made.graph))
    told = "dynamo_compile_id" in module.meta and hasattr(module, "_param_name_to_source")
    if told and all(hasattr(place, "_dynamo_source") for place in old):
        made.meta["dynamo_compile_id"] = module.meta["dynamo_compile_id"]
        made._param_name_to_source = module._param_name_to_source
        for its, mine in zip(old, new, strict=True):
            mine._dynamo_source = its._dynamo_source
            if "tensor_dict" in its.meta:
                mine.meta["tensor_dict"] = its.meta["tensor_dict"]
    return made


def copied(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns copies that a graph may change: leaves that need gradients where the originals do."""
    return [t.detach().clone(memory_format=torch.preserve_format).requires_grad_(t.requires_grad) for t in inputs]


def ratio(slow: Compiled, fast: Compiled, inputs: Sequence[torch.Tensor]) -> tuple[float, float, float]:
    """Returns how often `fast` fits into `slow`: low, median, high over rounds in which both take turns.

    Low and high are the order statistics that enclose the median with 95 % (a sign test over the rounds).
    """
    given = copied(inputs)
    on_device = any(t.is_cuda for t in given)
    train = torch.is_grad_enabled() and any(t.requires_grad for t in given)

    def once(compiled: Compiled) -> None:
        outputs = compiled(*given)
        if train:
            flat = [
                o for o in torch.utils._pytree.tree_leaves(outputs) if isinstance(o, torch.Tensor) and o.requires_grad
            ]
            torch.autograd.backward(flat, [torch.ones_like(o) for o in flat])
            for tensor in given:
                tensor.grad = None

    def timed(compiled: Compiled, calls: int) -> float:
        if not on_device:
            return min(_seconds(lambda: once(compiled)) for _ in range(calls))
        _wait(given)
        begun = time.perf_counter()
        for _ in range(calls):
            once(compiled)
        _wait(given)
        return time.perf_counter() - begun

    for compiled in (slow, fast, slow, fast):
        once(compiled)
    least_s = LEAST_ROUND_S["cuda" if on_device else "cpu"]
    calls = max(1 if on_device else LEAST_CALLS, min(MOST_CALLS, int(least_s / max(timed(slow, 1), 1e-7))))
    ratios = sorted(timed(slow, calls) / timed(fast, calls) for _ in range(ROUNDS))
    return ratios[3], statistics.median(ratios), ratios[-4]


def _seconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def _wait(tensors: Sequence[torch.Tensor]) -> None:
    if any(t.is_cuda for t in tensors):
        torch.cuda.synchronize()


def register() -> None:
    """Makes the backend known to this process's torch.compile, where no entry point did."""
    from torch._dynamo.backends.registry import _BACKENDS, list_backends, register_backend

    if NAME not in list_backends(exclude_tags=()) and NAME not in _BACKENDS:
        register_backend(backend, name=NAME)
