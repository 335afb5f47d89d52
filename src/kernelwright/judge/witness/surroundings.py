"""What a candidate must leave as it found it: flags, modes, threads, hooks, and the functions of torch and Python.

A snapshot is taken before the candidate is loaded; every look compares and names what has changed. The readers
are C functions taken at import, before any candidate.

Covers: precision and determinism flags, thread counts, default dtype and device, autocast, gradient and inference
    mode, modes left on, rounding and subnormals, hooks, signals, timers, working folder, environment variables,
    import paths, warning filters, replaced functions (and their code) of torch, Python and this package.
Does not cover: a candidate that rewrites this module's own memory; nothing is gained by that (see __init__.py).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import gc
import operator
import os
import signal
import sys
import types
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import _C

from kernelwright.judge.witness.guard import OURS, Table

Reader = Callable[[], object]
LIMIT = 3
"""Names that a finding lists."""

FLAGS: dict[str, str] = {
    "the float32 matmul precision": "_get_float32_matmul_precision",
    "allow_tf32 of cuBLAS": "_get_cublas_allow_tf32",
    "allow_tf32 of cuDNN": "_get_cudnn_allow_tf32",
    "allow_tf32 of oneDNN": "_get_onednn_allow_tf32",
    "reduced-precision reduction in float16": "_get_cublas_allow_fp16_reduced_precision_reduction",
    "reduced-precision reduction in bfloat16": "_get_cublas_allow_bf16_reduced_precision_reduction",
    "float16 accumulation": "_get_cublas_allow_fp16_accumulation",
    "reduced-precision reduction on the CPU": "_get_cpu_allow_fp16_reduced_precision_reduction",
    "cuDNN enabled": "_get_cudnn_enabled",
    "cuDNN benchmark": "_get_cudnn_benchmark",
    "cuDNN deterministic": "_get_cudnn_deterministic",
    "oneDNN enabled": "_get_mkldnn_enabled",
    "oneDNN deterministic": "_get_mkldnn_deterministic",
    "deterministic algorithms": "_get_deterministic_algorithms",
    "filling of uninitialised memory": "_get_deterministic_fill_uninitialized_memory",
    "flash attention": "_get_flash_sdp_enabled",
    "memory-efficient attention": "_get_mem_efficient_sdp_enabled",
    "plain attention": "_get_math_sdp_enabled",
    "cuDNN attention": "_get_cudnn_sdp_enabled",
    "reduced precision in plain attention": "_get_math_sdp_allow_fp16_bf16_reduction",
    "the default dtype": "get_default_dtype",
    "the thread count": "get_num_threads",
    "the gradient mode": "is_grad_enabled",
    "the inference mode": "is_inference_mode_enabled",
    "anomaly detection": "is_anomaly_enabled",
    "a torch function mode left on": "_len_torch_function_stack",
    "a torch dispatch mode left on": "_len_torch_dispatch_stack",
    "use of torch functions": "_is_torch_function_enabled",
    "autocast's cache": "is_autocast_cache_enabled",
    "saved-tensor hooks": "_autograd._saved_tensors_hooks_is_enabled",
}
"""What is read, by the name of the C function that reads it; those that this torch does not have are left out."""

WATCHED_MODULES = (
    "builtins", "time", "sys", "gc", "os", "signal", "threading", "torch", "torch.nn.functional", "torch.cuda",
    "torch.testing", "torch.autograd", "numpy",
)  # fmt: skip
WATCHED_CLASSES: tuple[type, ...] = (
    torch.Tensor, _C.TensorBase, torch.nn.Module, torch.nn.Parameter, torch.cuda.Event, torch.cuda.Stream,
    torch.cuda.CUDAGraph, torch.autograd.Function,
)  # fmt: skip
REPLACED_BY_TORCH = frozenset(
    ("torch.manual_seed", *(f"torch.nn.modules.module.Module.{name}" for name in ("__init__", "__setstate__")))
)
"""What torch's own compiler replaces when it is imported and used; none has a part in the judgement."""


class Surroundings:
    """A snapshot to compare with."""

    def __init__(self) -> None:
        self._readers = _readers()
        self._states = {name: read() for name, read in self._readers.items()}
        self._modules = {name: _modules[name] for name in WATCHED_MODULES if name in _modules}
        ours = {n: m for n, m in _modules.items() if n.startswith(OURS)}
        self._ours = ours | {"__main__": _modules["__main__"]}
        self._functions = [
            Functions(name, owner)
            for name, owner in (
                *self._modules.items(),
                *self._ours.items(),
                *((f"{c.__module__}.{c.__qualname__}", c) for c in WATCHED_CLASSES),
            )
        ]
        self._own = _own_states()

    def changes(self, *, own: bool = True) -> list[str]:
        """Returns what differs from the snapshot, in words.

        Args:
            own: also what only this process's later imports and children see: variables, warnings, import paths.
        """
        # First what is asked through functions that could have been replaced; the readers come after.
        found = [] if vars(sys).get("modules") is _modules else ["the table of modules was replaced"]
        for name, module in {**self._modules, **self._ours}.items():
            if _modules.get(name) is not module:
                found.append(f"the module {name} was replaced")
        for functions in self._functions:
            found += functions.replaced()
        own = own and not found
        found += [
            f"{name} was changed{_from_to(before, now)}"
            for name, before in self._states.items()
            if (not found or type(self._readers[name]) is types.BuiltinFunctionType)
            and not _equal(now := _safe(self._readers[name]), before)
        ]
        return found + (self.own_changes() if own else [])

    def own_changes(self) -> list[str]:
        """Returns what was changed of variables, warning filters and import paths."""
        return [f"{n} was changed" for n, now in _own_states().items() if not _equal(now, self._own[n])]

    def tables(self) -> list[Table]:
        """Returns what must stay as it is for an answer to be true (guard.py)."""
        tables = [Table("the surroundings", vars(self), ("_readers", "_states", "_modules", "_ours", "_functions"))]
        return [*tables, Table("the readers", self._readers), Table("the states", self._states)]

    def functions(self) -> list[types.FunctionType]:
        """Returns the readers that are Python functions."""
        return [read for read in self._readers.values() if type(read) is types.FunctionType]

    def accept(self) -> None:
        """Takes what loading the candidate did to its own process's variables, warnings and paths as given."""
        self._own = _own_states()


def _readers() -> dict[str, Reader]:
    found: dict[str, Reader] = {}
    for name, path in FLAGS.items():
        owner: Any = _C
        for part in path.split("."):
            owner = getattr(owner, part, None)
        if callable(owner):
            found[name] = owner
    for device in ("cpu", "cuda"):
        for name, reader in (("autocast", _C.is_autocast_enabled), ("autocast's dtype", _C.get_autocast_dtype)):
            found[f"{name} on {device}"] = lambda reader=reader, device=device: reader(device)  # type: ignore[misc]
    found |= {
        "the default device": lambda: _held(vars(_device_context).get("device_context")),
        "subnormal numbers": _subnormal,
        "the rounding of floating-point numbers": _rounding,
        "the working folder": os.getcwd,
        "the trace function": lambda: _held(_gettrace()),
        "the profile function": lambda: _held(_getprofile()),
        "the collector's callbacks": lambda: _held(vars(gc).get("callbacks")),
        "the handlers of signals": _handlers,
        "the timers": _timers,
        "the processors it may use": lambda: os.sched_getaffinity(0),
        "the scheduling priority": lambda: (os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)),
        "the switch interval of threads": sys.getswitchinterval,
    }
    return found


_is, _code = operator.is_, operator.attrgetter("__code__")
_smallest = sys.float_info.min
_tiny = 2.0**-60


def _subnormal() -> bool:
    return _smallest / 4.0 > 0.0


def _rounding() -> tuple[float, float]:
    return 1.0 + _tiny, 1.0 - _tiny


_SIGNALS = tuple(sorted(map(int, signal.valid_signals())))
# C functions: the module signal's own would make names of what they return.
_getsignal, _getitimer = _signal.getsignal, signal.getitimer
_gettrace, _getprofile = sys.gettrace, sys.getprofile
_modules, _environ, _device_context = sys.modules, os.environ, torch._GLOBAL_DEVICE_CONTEXT


def _handlers() -> object:
    return Held(tuple(map(_getsignal, _SIGNALS)))


def _timers() -> tuple[bool, ...]:
    clocks = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
    return tuple(_getitimer(clock)[0] > 0 for clock in clocks)


def _own_states() -> dict[str, object]:
    return {
        "os.environ": Held(
            (vars(os).get("environ"), *_held(vars(_environ)).parts, *_held(vars(_environ)["_data"]).parts)
        ),
        "warnings.filters": _held(vars(warnings).get("filters")),
        "sys.path": _held(vars(sys).get("path")),
        "sys.meta_path": _held(vars(sys).get("meta_path")),
        "sys.path_hooks": _held(vars(sys).get("path_hooks")),
    }


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Objects that are compared by identity: what they say of themselves may be a candidate's code."""

    parts: tuple[object, ...]


def _held(item: object) -> Held:
    """An object, and what it holds where it is a plain list or dictionary."""
    if type(item) is list:
        return Held((item, *item))
    if type(item) is dict:
        return Held((item, *item.keys(), *item.values()))
    return Held((item,))


def _equal(now: object, before: object) -> bool:
    if type(now) is Held and type(before) is Held:
        return len(now.parts) == len(before.parts) and all(map(_is, now.parts, before.parts))
    return now == before


class Functions:
    """The functions, methods and classes of one module or class, with their code.

    Plain data may change (caches, lazily made tables).
    """

    def __init__(self, owner: str, holder: Any) -> None:
        members: Mapping[str, object] = vars(holder)
        self._owner, self._members, self._count = owner, members, len(members)
        bases = holder.__mro__[1:] if isinstance(holder, type) else ()
        # A class may get new names, but none that hides what it has inherited so far.
        self._inherited = frozenset(name for base in bases for name in vars(base)) - set(members)
        kept: dict[str, Any] = {
            name: held
            for name, held in members.items()
            if f"{owner}.{name}" not in REPLACED_BY_TORCH
            and (isinstance(held, type | staticmethod | classmethod | property) or callable(held))
        }
        self._names, self._held = tuple(kept), tuple(kept.values())
        self._plain = tuple(held for held in self._held if type(held) is types.FunctionType)
        self._codes = tuple(map(_code, self._plain))

    def replaced(self) -> list[str]:
        """Returns which of them are not what they were."""
        # Compared by identity in C: this is done after every block.
        if (
            all(map(_is, map(self._members.get, self._names), self._held))
            and all(map(_is, map(_code, self._plain), self._codes))
            and (len(self._members) == self._count or self._inherited.isdisjoint(self._members))
        ):
            return []
        changed = [n for n, held in zip(self._names, self._held, strict=True) if self._members.get(n) is not held]
        changed += [f.__name__ for f, code in zip(self._plain, self._codes, strict=True) if _code(f) is not code]
        changed += [name for name in self._members if name in self._inherited]
        return [f"{self._owner}.{name} was replaced" for name in changed[:LIMIT]]


def _safe(read: Reader) -> object:
    try:
        return read()
    except Exception as error:  # noqa: BLE001  (a folder that is gone, a mode that refuses: both are changes)
        return f"{type(error).__name__}"


def _from_to(before: object, now: object) -> str:
    plain = (bool, int, str, float, torch.dtype, torch.device)
    if isinstance(before, plain) and isinstance(now, plain):
        return f" from {before} to {now}"
    return ""
