"""From a candidate's texts to something that can be called, and its state from the judge's; faults as values.

Runs in the witness worker only. Not here: calling it (holder.py).
"""

from __future__ import annotations

import ctypes
import linecache
import os
import random
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from kernelwright.reference_program import CarriedFiles
from kernelwright.types import SourceFile

NEW = "ModelNew"
MODULE = "kernelwright_candidate"
DETAIL_LIMIT = 4000
MESSAGE_LIMIT = 300
_Module, _Parameter, _Tensor, _no_grad = torch.nn.Module, torch.nn.Parameter, torch.Tensor, torch.no_grad
_copy, _shape, _dtype = torch._C.TensorBase.copy_, torch._C.TensorBase.size, vars(torch._C.TensorBase)["dtype"].__get__
_is_contiguous, _data_ptr, _numel = (getattr(torch._C.TensorBase, n) for n in ("is_contiguous", "data_ptr", "numel"))
_element_size, _is_cpu = torch._C.TensorBase.element_size, vars(torch._C.TensorBase)["is_cpu"].__get__
_memmove = ctypes.CDLL(None).memmove
_memmove.argtypes, _memmove.restype = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t), ctypes.c_void_p
COPY = "aten::copy_"
_kernels_of = torch._C._dispatch_dump
_copying = _kernels_of(COPY)

_finder = CarriedFiles((), "")


class Stopped(Exception):
    """A fault of the candidate; `failure` holds the fields of a `Failure`."""

    def __init__(self, stage: str, kind: str, message: str, location: str = "", detail: str = "") -> None:
        super().__init__(message)
        self.failure = {
            "stage": stage,
            "kind": kind,
            "message": message[:MESSAGE_LIMIT],
            "location": location,
            "detail": detail[-DETAIL_LIMIT:],
        }


def execute(sources: Sequence[SourceFile]) -> types.ModuleType:
    """Returns the module that the first source makes; the others can be imported by it.

    Raises:
        Stopped: for whatever goes wrong in it, with file and line.
    """
    first, carried = sources[0], CarriedFiles(sources[1:], "")
    for name in carried.texts:
        sys.modules.pop(name, None)
    _finder.texts = carried.texts
    if carried.texts and _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    for source in sources:
        lines = source.text.splitlines(keepends=True)
        linecache.cache[source.path] = (len(source.text), None, lines, source.path)
    module = types.ModuleType(MODULE)
    module.__file__ = first.path
    sys.modules[MODULE] = module
    try:
        exec(compile(first.text, first.path, "exec", dont_inherit=True), vars(module))
    except BaseException as error:  # noqa: BLE001  (SystemExit too: it is the candidate's fault, not our end)
        raise blame("load", f"executing {first.path}", error, sources) from None
    return module


def make(module: types.ModuleType, *, entry: str, init: Sequence[Any], evaluation: bool, sources: Any) -> Any:
    """Returns what is called: a `ModelNew` made with the reference's arguments, or the function itself.

    Raises:
        Stopped: when there is neither, or making it fails.
    """
    made_by = vars(module).get(NEW)
    if made_by is None and entry != "Model":
        function = vars(module).get(entry)
        if not callable(function):
            raise Stopped("load", "contract", f"{sources[0].path} defines neither {NEW} nor a function {entry!r}")
        return function
    if not isinstance(made_by, type) or not issubclass(made_by, _Module):
        what = f"defines no class {NEW}" if made_by is None else f"defines {NEW}, but not as a torch.nn.Module"
        raise Stopped("load", "contract", f"{sources[0].path} {what}; write `class {NEW}(torch.nn.Module)`")
    seed(int.from_bytes(os.urandom(6), "little"))
    try:
        made = made_by(*init)
        if evaluation:
            _Module.eval(made)
    except BaseException as error:  # noqa: BLE001
        raise blame("load", f"{NEW}({', '.join(map(_short, init))})", error, sources) from None
    if type(made) is not made_by and not isinstance(made, _Module):
        raise Stopped("load", "contract", f"{NEW}(...) makes a {type(made).__name__}, not a module")
    return made


def move(made: Any, device: str, sources: Sequence[SourceFile]) -> None:
    """Brings a module to its device, as whoever uses it would.

    Raises:
        Stopped: when that fails.
    """
    if device != "cpu" and isinstance(made, _Module):
        try:
            _Module.to(made, device)
        except BaseException as error:  # noqa: BLE001
            raise blame("load", f"moving it to {device}", error, sources) from None


def seed(number: int) -> None:
    """Seeds every generator with a number that nobody else has."""
    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number % 2**32)


def state_tensors(made: Any, wanted: Mapping[str, tuple[tuple[int, ...], torch.dtype, bool]]) -> dict[str, Any]:
    """Returns a module's parameters and buffers by name, held to the reference's strictly.

    Args:
        made: the candidate's module (or a function, which has none).
        wanted: for each of the reference's names its shape, dtype and whether it must be there.

    Raises:
        Stopped: for a name that is missing or too many, another shape or dtype, or a tensor of another type.
    """
    found = _walk(made) if isinstance(made, _Module) else {}
    needed = {name for name, (_, _, must) in wanted.items() if must}
    missing, extra = (
        sorted(needed - set(found)),
        sorted(n for n, (_, kept) in found.items() if kept and n not in wanted),
    )
    if missing or extra:
        parts = [f"lacks {', '.join(missing[:4])}"] if missing else []
        parts += [f"has {', '.join(extra[:4])}, which the reference has not"] if extra else []
        why = "parameters and buffers are drawn by the judge and go by the reference's names (strict)"
        hint = "; scratch memory can be a plain attribute or register_buffer(..., persistent=False)" if extra else ""
        raise Stopped("load", "state", f"the state of {NEW} {' and '.join(parts)}: {why}{hint}")
    kept = {name: tensor for name, (tensor, _) in found.items() if name in wanted}
    for name, tensor in kept.items():
        shape, dtype, _ = wanted[name]
        if type(tensor) is not _Tensor and type(tensor) is not _Parameter:
            raise Stopped("load", "state", f"{name} of {NEW} is a {type(tensor).__name__}, not a plain parameter")
        if tuple(_shape(tensor)) != shape or _dtype(tensor) is not dtype:
            is_ = f"{_dtype(tensor)}{list(_shape(tensor))}"
            raise Stopped("load", "state", f"{name} of {NEW} is {is_}; the reference's is {dtype}{list(shape)}")
    return kept


def _walk(module: Any, prefix: str = "", seen: tuple[int, ...] = ()) -> dict[str, tuple[Any, bool]]:
    """Parameters and buffers by dotted name with whether they belong to the state; asks no method of the module."""
    if id(module) in seen:
        return {}
    held = object.__getattribute__(module, "__dict__")
    volatile = held.get("_non_persistent_buffers_set", ())
    found: dict[str, tuple[Any, bool]] = {}
    for kind in ("_parameters", "_buffers"):
        table = held[kind] if isinstance(held.get(kind), dict) else getattr(module, kind)
        for name, tensor in table.items():
            if tensor is not None:
                found[prefix + name] = (tensor, kind == "_parameters" or name not in volatile)
    children = held["_modules"] if isinstance(held.get("_modules"), dict) else module._modules
    for name, child in children.items():
        if child is not None:
            found |= _walk(child, f"{prefix}{name}.", (*seen, id(module)))
    return found


def copy_state(into: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Copies the judge's values into a candidate's state, by name.

    Raises:
        Stopped: for a tensor that has become another kind of tensor, or when copying was made something else.
    """
    for name, tensor in into.items():
        if type(tensor) is not _Tensor and type(tensor) is not _Parameter:
            raise Stopped("run", "state", f"{name} has become a tensor of another class")
        value = values[name]
        if _is_cpu(tensor) and _is_contiguous(tensor) and _is_contiguous(value):
            # No operator of torch: its kernel could have been exchanged for one that does the candidate's work.
            _memmove(_data_ptr(tensor), _data_ptr(value), _numel(value) * _element_size(value))
        elif _kernels_of(COPY) != _copying:
            raise Stopped("run", "environment", f"the kernels registered for {COPY} were changed")
        else:
            with _no_grad():
                _copy(tensor, value)


def blame(stage: str, what: str, error: BaseException, sources: Sequence[SourceFile]) -> Stopped:
    """Returns an exception of the candidate's code as a fault, at the last line of the candidate that it passed."""
    if isinstance(error, SyntaxError) and error.filename in {source.path for source in sources}:
        return Stopped(stage, "syntax", f"{error.msg}", f"{error.filename}:{error.lineno}")
    paths, place, trace, lines = {source.path for source in sources}, "", error.__traceback__, []
    while trace is not None:
        file, line = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        if file in paths:
            place = f"{file}:{line}"
            lines.append(f"{place} in {trace.tb_frame.f_code.co_name}: {linecache.getline(file, line).strip()}")
        trace = trace.tb_next
    try:
        text = str(error).strip()
    except BaseException:  # noqa: BLE001  (its __str__ is the candidate's, too)
        text = ""
    told = "\n".join([*lines, f"{type(error).__name__}: {text}"])
    return Stopped(stage, _kind(error, text), _message(what, error, text), place, told)


def _kind(error: BaseException, text: str) -> str:
    if isinstance(error, MemoryError) or "not enough memory" in text or "can't allocate memory" in text:
        return "memory"
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return "memory"
    if isinstance(error, ImportError):
        return "import"
    if isinstance(error, SystemExit):
        return "exit"
    return "exception"


def _message(what: str, error: BaseException, text: str) -> str:
    first = text.splitlines()[0] if text else ""
    said = f"{what} raised {type(error).__name__}{': ' + first if first else ''}"
    if isinstance(error, NameError) and getattr(error, "name", "") == "Model":
        return f"{said}; the reference's class is not there for a candidate: derive {NEW} from torch.nn.Module"
    return said


def _short(item: object) -> str:
    text = repr(item)
    return text if len(text) < 40 else f"{text[:36]}..."
