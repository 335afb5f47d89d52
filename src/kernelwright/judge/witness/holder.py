"""Holds one candidate in the witness worker: loads it, calls it, looks at its results and copies them away.

Device-independent; what depends on the device is the engine's. Everything here was bound before the candidate was
loaded. Not here: what the messages look like (worker.py).
"""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import torch

from kernelwright.judge.witness import loading, structure
from kernelwright.judge.witness.engine import Engine
from kernelwright.judge.witness.guard import Table
from kernelwright.judge.witness.handover import LEAF, from_json
from kernelwright.judge.witness.memory import Memory
from kernelwright.judge.witness.structure import Extent, Output, Wrong
from kernelwright.judge.witness.surroundings import Surroundings
from kernelwright.types import SourceFile

Finding = tuple[str, str]
"""The name of a check that failed, and why."""
_Base, _Tensor, _Parameter = torch._C.TensorBase, torch.Tensor, torch.nn.Parameter
_data_ptr, _numel, _element_size = _Base.data_ptr, _Base.numel, _Base.element_size
_empty, _collect = torch.empty, gc.collect
_mallopt = ctypes.CDLL(None).mallopt
M_PERTURB = -6
NAMED = 3
CAREFUL_CALLS = 4


class Holder:
    """One candidate and what it is held to.

    Args:
        memory: the judge's regions.
        engine: the device's way of calling.
        setup: what the judge says of the problem (witness.py, `_setup`).
    """

    def __init__(self, memory: Memory, engine: Engine, setup: Mapping[str, Any]) -> None:
        self._memory, self._engine = memory, engine
        self._tree = setup["tree"]
        self._entry, self._evaluation = str(setup["entry"]), bool(setup["evaluation"])
        self._init = from_json(setup["init"])
        self._fixed = [from_json(item) for item in setup["fixed"]]
        self._outputs = [
            Output(p.name, p.shape, p.dtype, structure.dense(p.shape, order), engine.device, bool(alias))
            for p, order, alias in zip(memory.outputs, setup["orders"], setup["aliases"], strict=True)
        ]
        self._places = {str(name): memory.parameters[index] for name, index, _ in setup["state"]}
        self._wanted = {
            str(name): (memory.parameters[i].shape, memory.parameters[i].dtype, bool(must))
            for name, i, must in setup["state"]
        }
        self._given = {name: memory.view(place, 0) for name, place in self._places.items()}
        # Until a candidate is loaded the calls are empty, so that the judge can learn what its own part costs.
        self._call: Callable[..., Any] = self._stand_in
        self._state: dict[str, Any] = {
            name: _empty(place.shape, dtype=place.dtype, device=engine.device) for name, place in self._places.items()
        }
        self._kept: list[Any] = []
        self._room = setup["keep"]
        self._latest = 0
        self._next: tuple[tuple[int, ...], list[tuple[Any, ...]], bool] = ((), [], False)
        self._sources: tuple[SourceFile, ...] = ()
        self._threads = threading._active  # type: ignore[attr-defined]
        self._known_threads: set[int] = set(self._threads)
        self._around = Surroundings()
        self._results: list[Any] = []
        self._loaded = self._accepted = False

    @property
    def inputs_at(self) -> int:
        """Where the candidate's mapping of the inputs begins."""
        return self._memory.input_range()[0]

    def _stand_in(self, *_: object) -> object:
        made = [_empty(o.shape, dtype=o.dtype, device=o.device).fill_(1) for o in self._outputs]
        return _planted(self._tree, iter(made))

    # ------------------------------------------------------------------------------------------------ loading

    def load(self, sources: Sequence[Mapping[str, str]]) -> list[Finding]:
        """Executes the sources, makes the candidate and takes its state; returns what it left changed.

        Raises:
            Stopped: when that fails.
        """
        self._sources = tuple(SourceFile(path=s["path"], text=s["text"]) for s in sources)
        self._loaded = True
        return self.renew()

    def renew(self) -> list[Finding]:
        """Does the same again from the texts, so that nothing of earlier calls is left; see `load`."""
        self._kept, self._state = [], {}
        module = loading.execute(self._sources)
        made = loading.make(
            module, entry=self._entry, init=self._init, evaluation=self._evaluation, sources=self._sources
        )
        loading.move(made, self._engine.device, self._sources)
        self._state = loading.state_tensors(made, self._wanted)
        for tensor in self._state.values():
            if type(tensor) is torch.nn.Parameter:
                tensor.requires_grad_(False)
        self._call = made
        return self._changes(own=False)

    def accept(self) -> list[str]:
        """After the first call: takes variables, warnings and paths as they are; returns what was changed of them."""
        changed = self._around.own_changes()
        self._around.accept()
        self._accepted = True
        return changed

    # ------------------------------------------------------------------------------------------------- calling

    def ready(self, slots: Sequence[int], *, moved: bool) -> None:
        """Makes the next block's arguments and gives parameters their present values; nothing is timed.

        Nothing is freed here: what a candidate has tied to a tensor would run, with the next contents before it.
        """
        loading.copy_state(self._state, self._given)
        made = [self._engine.arguments(slot, moved=moved) for slot in slots]
        self._next = (tuple(slots), made, moved)
        self._engine.prepare(self._call, [self._filled(given) for given in made])
        self._latest = slots[0] if slots else 0

    def go(self) -> tuple[int, list[list[int]]]:
        """Calls the candidate on the block that is ready; returns how often, and where the results lie.

        Stamps go to the judge's memory. The judge reads the results there as soon as its clock has stopped.

        Raises:
            Stopped: when a call raises.
        """
        slots, tensors, _ = self._next
        arguments = [self._filled(given) for given in tensors]
        try:
            results, starts, ends = self._engine.run(self._call, arguments)
        except BaseException as error:  # noqa: BLE001  (whatever it raises is the candidate's)
            raise loading.blame("run", "calling it", error, self._sources) from None
        stamps = self._memory.stamps
        stamps[: len(slots), 0] = starts
        stamps[: len(slots), 1] = ends
        self._results = results
        return len(results), self._addresses(results)

    def record(self, marks: Sequence[int]) -> dict[str, Any]:
        """Does what `go` does; returns what the device ran for it between copies of so many bytes (spans.py)."""
        return self._engine.recorded(self.go, marks)

    def _addresses(self, results: Sequence[Any]) -> list[list[int]]:
        """Where the results of a block lie; empty where they cannot be read from outside, or are not what they should.

        Whatever of a candidate's runs here, runs in its own time.
        """
        if self._engine.device != "cpu":
            return []
        try:
            return [[_data_ptr(leaf) for leaf in structure.leaves_of(result, self._tree)] for result in results]
        except Exception:  # noqa: BLE001  (`hand_in` says what is wrong with them)
            return []

    def rest(self) -> None:
        """Frees what has been kept long enough, and collects garbage: the collector is off else, as for baselines.

        The judge asks for it when it has looked at the results, and before the next contents are written.
        """
        self._next = ((), [], False)
        del self._kept[: -self._room]
        _collect()

    def _filled(self, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
        """The whole argument list: tensors in their places among what is not a tensor."""
        if not self._fixed:
            return tensors
        rest = iter(tensors)
        return tuple(next(rest) if item == LEAF_MARK else item for item in self._fixed)

    def hand_in(self) -> list[Finding]:
        """Looks at the results of a block, copies them into the judge's memory, and returns what was wrong."""
        slots, tensors, moved = self._next
        results, self._results = self._results, []
        # First of all: with a mode left on, every question to a tensor would be answered by the candidate.
        if findings := self._changes(own=self._accepted) + self._left_running():
            return findings
        try:
            self._copy_out(slots, tensors, results)
        except Wrong as wrong:
            return [("structure", str(wrong))]
        except Exception as error:  # noqa: BLE001  (a wrapped tensor refuses to say where its memory is)
            return [("structure", f"a result cannot be read: {type(error).__name__}: {str(error)[:120]}")]
        return self._spoiled(slots, tensors, moved)

    def _copy_out(self, slots: Sequence[int], tensors: Sequence[tuple[Any, ...]], results: Sequence[Any]) -> None:
        low, high = self._memory.input_range()
        for tensor in (*self._state.values(), *(tensor for given in tensors for tensor in given)):
            if type(tensor) is not _Tensor and type(tensor) is not _Parameter:
                raise Wrong(f"an argument or parameter was made a {type(tensor).__name__}")
        state = [_extent_of(tensor, name) for name, tensor in self._state.items()]
        made: list[Extent] = []
        if self._engine.kept and not all(wanted.may_alias for wanted in self._outputs):
            raise Wrong("two calls returned the same memory: every result must be memory of its own")
        for slot, given, result in zip(slots, tensors, results, strict=True):
            leaves = structure.leaves_of(result, self._tree)
            theirs = [_extent_of(tensor, p.name) for tensor, p in zip(given, self._memory.inputs, strict=True)]
            for index, (leaf, wanted) in enumerate(zip(leaves, self._outputs, strict=True)):
                extent = structure.check_tensor(leaf, wanted)
                if not wanted.may_alias:
                    if other := structure.meets(extent, theirs) or structure.meets(extent, state):
                        raise Wrong(f"{wanted.name} shares memory with {other.name}")
                    if low <= extent.start < high:
                        raise Wrong(f"{wanted.name} lies in the memory of inputs")
                    made.append(extent)
                self._engine.fetch(index, slot, leaf)
            self._kept.append(result)
        if pair := structure.overlap(made):
            what = "two calls returned" if pair[0].name == pair[1].name else f"{pair[0].name} and {pair[1].name} share"
            raise Wrong(f"{what} the same memory ({pair[0].name}): every result must be memory of its own")

    def _spoiled(self, slots: Sequence[int], tensors: Sequence[tuple[Any, ...]], moved: bool) -> list[Finding]:
        # Of long blocks the judge looks at the pages from outside: the comparison would take longer than the calls.
        for slot, given in zip(slots, tensors, strict=True) if len(slots) <= CAREFUL_CALLS and not moved else ():
            if name := self._engine.spoiled(slot, given):
                return [("inputs unchanged", f"a call wrote to its input {name}")]
        for name, tensor in self._state.items() if self._loaded else ():
            if not self._engine.same(self._places[name], 0, tensor):
                return [("inputs unchanged", f"a call changed the parameter or buffer {name}")]
        return []

    def _changes(self, *, own: bool) -> list[Finding]:
        if self._engine.left_on:
            return [("environment", "autocast or the gradient mode was changed and left so")]
        return [("environment", text) for text in self._around.changes(own=own)[:NAMED]]

    def _left_running(self) -> list[Finding]:
        names = [str(t.name) for ident, t in list(self._threads.items()) if ident not in self._known_threads]
        if names:
            return [("threads", f"Python threads were left running: {', '.join(names[:NAMED])}")]
        return []

    # --------------------------------------------------------------------------------------------------- others

    def perturb(self, byte: int) -> None:
        """Fills what malloc gives from now on with a pattern; 0 switches that off."""
        _mallopt(M_PERTURB, byte)

    def allow_gradients(self) -> None:
        """Lets calls run under no_grad instead of inference_mode."""
        self._engine.inference = False

    def operators(self) -> list[str]:
        """Returns the names of torch's operators that one more call uses: a label, not a proof."""
        from kernelwright.judge.witness.recording import operators_of

        return operators_of(self._call, self._filled(self._engine.arguments(self._latest, moved=False)))

    # ---------------------------------------------------------------------------------------------------- guard

    def tables(self) -> list[Table]:
        """Returns the objects that the judge's own part of a block uses, as far as they always stay the same."""
        own = ("_memory", "_engine", "_tree", "_outputs", "_places", "_wanted", "_given", "_threads", "_room")
        memory = self._memory
        return [
            Table("the holder", vars(self), own),
            Table("the judge's memory", vars(memory), tuple(vars(memory))),
            Table("the engine", vars(self._engine), tuple({"_memory", "_recorder"} & {*vars(self._engine)})),
            Table("the parameters' places", self._places),
            Table("the given parameters", self._given),
            Table("the holder", vars(self), ("_around",)),
            *self._around.tables(),
        ]

    def functions(self) -> list[FunctionType]:
        """Returns functions that stand in no module or class."""
        return self._around.functions()


LEAF_MARK = f"<{LEAF} of the problem>"
"""Stands for a tensor among the arguments that are handed over."""


def _planted(tree: Any, leaves: Any) -> Any:
    """Returns a result of a tree's form."""
    if tree == LEAF:
        return next(leaves)
    if "dict" in tree:
        return {from_json(key): _planted(branch, leaves) for key, branch in tree["dict"]}
    if "list" in tree:
        return [_planted(branch, leaves) for branch in tree["list"]]
    return tuple(_planted(branch, leaves) for branch in tree["tuple"])


def _extent_of(tensor: Any, name: str) -> Extent:
    """The memory of a tensor of ours; a parameter's may be anywhere, so only what is contiguous is looked at."""
    count = _numel(tensor) * _element_size(tensor)
    start = int(_data_ptr(tensor))
    return Extent(start, start + count, name)
