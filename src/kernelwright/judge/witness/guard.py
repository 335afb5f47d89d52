"""Whether the judge's own part of a witness worker is still its own: asked before every answer to the judge.

The judge's clock runs from one signal to another. In what lies between an answer and the next call (arguments,
looking at results, copying them) nothing of a candidate may run, or work could be done there that nobody times. What
a candidate has replaced to run there may put itself back once it has run, so looking afterwards is too late: the worker
looks before it answers, while the time is still the candidate's.

`watch` is a generator, and it is asked from the worker's own loop: both run in frames that are older than the
candidate, whose code nobody can exchange, and call nothing but C functions that they hold themselves.

Covers: functions, classes, defaults and data of this package's modules, their objects, ctypes functions, builtins,
    handlers of signals, timers, trace and profile functions, modes, kernels registered for what arguments are made by;
    audit hooks are refused.
Does not cover: memory that is written through ctypes, and a worker whose loop was taken over altogether: what they do
    late is seen from outside (looking.py).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import builtins
import ctypes
import operator
import signal
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import _C

OURS = ("kernelwright.judge.witness", "kernelwright.reference_program")
VIEW = "aten::view"
"""What an argument's tensor is made by."""
NEW_HOOKS = ("sys.addaudithook", "sys.monitoring.register_callback")
"""The latter from Python 3.12 on: what it calls runs inside everybody's code, as a trace function does."""


@dataclass(frozen=True, slots=True)
class Table:
    """A dictionary of which some values must stay the same objects."""

    name: str
    held: Mapping[str, Any]
    keys: tuple[str, ...] = ()
    """Which; none: all of them, and no further ones may come."""


def refuse_hooks(event: str, arguments: object) -> None:
    """Is the first audit hook, and lets nobody add another one, nor what is called for each line or function."""
    del arguments
    if event in NEW_HOOKS:
        raise RuntimeError("no hooks here that run inside other code")


def own_tables() -> list[Table]:
    """Returns the tables of this package's modules and classes, as far as they are loaded, and of Python's builtins."""
    ours = {name: module for name, module in sys.modules.items() if name.startswith(OURS)}
    found = [Table("builtins", vars(builtins), tuple(vars(builtins)))]
    for name, module in {**ours, "__main__": sys.modules["__main__"]}.items():
        # Where a warning of a candidate's call is laid to a caller of it, Python keeps it there.
        vars(module).setdefault("__warningregistry__", {})
        # A package gets the names of its modules when they are imported.
        found.append(Table(name, vars(module), tuple(vars(module)) if hasattr(module, "__path__") else ()))
        for key, value in vars(module).items():
            if isinstance(value, type) and value.__module__ == module.__name__:
                found.append(Table(f"{name}.{key}", vars(value)))
            elif type(value) is dict and key.isupper():
                found.append(Table(f"{name}.{key}", value))
    return found


def functions_of(tables: Iterable[Table]) -> list[types.FunctionType]:
    """Returns the plain functions that tables hold."""
    found: list[types.FunctionType] = []
    for table in tables:
        for value in table.held.values():
            inner = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
            if type(inner) is types.FunctionType:
                found.append(inner)
    return found


def watch(tables: Iterable[Table], functions: Iterable[types.FunctionType]) -> Iterator[str]:
    """Yields what has been changed since it was made, in words, empty where nothing was; the first time at once."""
    is_, all_, map_, len_ = operator.is_, all, map, len
    code_of, defaults_of, keywords_of = map(operator.attrgetter, ("__code__", "__defaults__", "__kwdefaults__"))
    plain = tuple(functions)
    tables = [*tables, *(Table(f.__name__, f.__kwdefaults__) for f in plain if f.__kwdefaults__)]
    kept = tuple(
        (t.name, t.held, t.held.get, keys, tuple(t.held[key] for key in keys), not t.keys)
        for t in tables
        for keys in [t.keys or tuple(t.held)]
    )
    of_functions = tuple((read, tuple(map(read, plain))) for read in (code_of, defaults_of, keywords_of))
    foreign_reads = tuple(map(operator.attrgetter, ("restype", "argtypes", "errcheck")))
    foreign = tuple({id(v): v for *_, values, _ in kept for v in values if isinstance(v, ctypes._CFuncPtr)}.values())  # type: ignore[attr-defined]
    of_foreign = tuple((read, tuple(map(read, foreign))) for read in foreign_reads)
    getsignal, numbers = _signal.getsignal, tuple(sorted(map(int, signal.valid_signals())))
    handlers = tuple(map(getsignal, numbers))
    getitimer, clocks = signal.getitimer, (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
    running = tuple(getitimer(clock)[0] > 0 for clock in clocks)
    getprofile, gettrace, trace = sys.getprofile, sys.gettrace, sys.gettrace()
    of_frames = getattr(_C._dynamo.eval_frame, "get_eval_frame_callback", gettrace)
    compiler = of_frames()
    modes = (_C._len_torch_function_stack, _C._len_torch_dispatch_stack)
    left_on = tuple(count() for count in modes)
    kernels_of = _C._dispatch_dump
    view, kernels = VIEW, kernels_of(VIEW)
    found = ""
    while True:
        yield found
        found = ""
        for name, held, get, keys, values, whole in kept:
            if not all_(map_(is_, map_(get, keys), values)) or (whole and len_(held) != len_(keys)):
                found = name + " was changed"
        for read, values in of_functions:
            if not all_(map_(is_, map_(read, plain), values)):
                found = "a function of the judge's was given other code or defaults"
        for read, values in of_foreign:
            if not all_(map_(is_, map_(read, foreign), values)):
                found = "a C function that the judge calls was changed"
        if not all_(map_(is_, map_(getsignal, numbers), handlers)):
            found = "the handlers of signals were changed"
        for place in (0, 1, 2):
            if (getitimer(clocks[place])[0] > 0) is not running[place]:
                found = "the timers were changed"
        if getprofile() is not None or gettrace() is not trace:
            found = "the profile function was changed"
        if of_frames() is not compiler:
            found = "what torch asks of every frame was changed"
        if modes[0]() != left_on[0] or modes[1]() != left_on[1]:
            found = "a torch mode was left on"
        if kernels_of(view) != kernels:
            found = "the kernels registered for " + view + " were changed"
