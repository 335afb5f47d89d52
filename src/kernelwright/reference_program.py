"""Loading a problem's reference: from texts to a module that can be called in any precision.

Runs the user's own code, so only worker processes import this module (capture/worker.py and
judge/worker.py); it is the single place that knows the class contract, the function contract, the
order of a module's state and how inputs are drawn. Not here: tracing (capture) and truth (judge).
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import linecache
import os
import random
import sys
import types as python_types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import torch

from kernelwright.errors import SourceError, words_of
from kernelwright.types import Problem, SourceFile, TensorSpec, Workload

SAID = 300
"""Of what an exception of the user's code says, so much is repeated."""
MODULE_NAME = "kernelwright_reference"

DISTINCT_SAMPLE = 1024

_loaded = 0

DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, name)
    for name in ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
}
NAMES: dict[torch.dtype, str] = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class Backward:
    """Which gradients are asked for, by position."""

    inputs: tuple[int, ...]
    """Positions of the wanted tensors among the inputs of the forward pass ..."""
    state: tuple[int, ...]
    """... and among the module's state."""
    order: tuple[tuple[str, int], ...]
    """("input" or "state", position) in the order of the gradients."""
    given: tuple[TensorSpec, ...]
    """The gradients of the forward's floating outputs: the last inputs."""


def backward_of(problem: Problem) -> Backward | None:
    """Returns which gradients a problem asks for, None for none."""
    if not problem.gradients:
        return None
    forward = problem.outputs[: len(problem.outputs) - len(problem.gradients)]
    count = len(problem.inputs) - sum("float" in spec.dtype for spec in forward)
    places = {spec.name: ("input", i) for i, spec in enumerate(problem.inputs[:count])}
    places |= {spec.name: ("state", i) for i, spec in enumerate(problem.parameters)}
    order = tuple(places[name] for name in problem.gradients)
    return Backward(
        inputs=tuple(i for kind, i in order if kind == "input"),
        state=tuple(i for kind, i in order if kind == "state"),
        order=order,
        given=problem.inputs[count:],
    )


class Reference:
    """A loaded reference. Calls take the tensor arguments only; other arguments are remembered.

    Where gradients are asked for, a call is forward and backward together: the last tensors are the gradients
    of the outputs, the last outputs those of the wanted tensors.
    """

    def __init__(
        self,
        module: python_types.ModuleType,
        entry: str,
        *,
        evaluation: bool,
        specs: Sequence[TensorSpec],
        shapes: Sequence[tuple[int, ...]] = (),
        backward: Backward | None = None,
    ):
        self._module = module
        self._entry = getattr(module, entry)
        self._evaluation = evaluation
        self._specs = tuple(specs)
        self._shapes = tuple(shapes)
        self._backward = backward
        self.is_class = isinstance(self._entry, type)
        self._fixed: tuple[object, ...] = ()

    @property
    def has_backward(self) -> bool:
        """Tells whether calls give gradients as well."""
        return self._backward is not None

    @property
    def namespace(self) -> python_types.ModuleType:
        """Returns what the reference's first file defines."""
        return self._module

    @property
    def function(self) -> Callable[..., Any]:
        """Returns what is called: the class's `forward`, or the function itself."""
        return self._entry.forward if self.is_class else self._entry  # type: ignore[no-any-return]

    def make_module(self, seed: int, dtype: torch.dtype | None = None) -> torch.nn.Module:
        """Returns a new module without gradients; `dtype` converts its floating state, None leaves it.

        Raises:
            SourceError: when the user's constructor or `get_init_inputs` fails.
        """
        seed_everything(seed)
        if self.is_class:
            made = _user_code("Model(*get_init_inputs())", lambda: self._entry(*_as_args(self._initial())))
        else:
            made = FunctionModule(self._entry)
        if not isinstance(made, torch.nn.Module):
            raise SourceError(f"{self._entry.__name__} is not a torch.nn.Module", "derive it from torch.nn.Module")
        if self._evaluation:
            made.eval()
        made.requires_grad_(False)
        return made if dtype is None else made.to(dtype)

    def make_arguments(self, seed: int) -> tuple[object, ...]:
        """Returns a fresh draw of every argument, tensors or not, in the forward's order.

        Raises:
            SourceError: when the user's `get_inputs` fails or gives no tensor.
        """
        seed_everything(seed)
        if self._specs:
            generator = torch.Generator(torch.get_default_device()).manual_seed(seed)
            return tuple(draw(spec, generator) for spec in self._specs)
        if not hasattr(self._module, "get_inputs"):
            raise SourceError("no inputs are known", 'add --input "float32[4096,1024]" once for each argument')
        arguments = _as_args(_user_code("get_inputs()", self._module.get_inputs))
        if not any(isinstance(a, torch.Tensor) for a in arguments):
            raise SourceError("get_inputs() gives no tensor", "return a list of tensors")
        return arguments

    def make_inputs(self, seed: int) -> tuple[torch.Tensor, ...]:
        """Returns a fresh draw of the tensor arguments, contiguous and without gradients."""
        arguments = self.make_arguments(seed)
        self._fixed = arguments
        drawn = tuple(a.detach().contiguous() for a in arguments if isinstance(a, torch.Tensor))
        generator = torch.Generator().manual_seed(seed)
        if self._backward:
            given = self._backward.given
            near = generator.device
            drawn += tuple(torch.randn(s.shape, generator=generator, device=near).to(DTYPES[s.dtype]) for s in given)
        if not self._shapes:
            return drawn
        return tuple(resized(t, shape, generator) for t, shape in zip(drawn, self._shapes, strict=True))

    def arguments_with(self, tensors: Sequence[torch.Tensor]) -> tuple[object, ...]:
        """Returns the full argument list with `tensors` in the places of the tensor arguments."""
        if not self._fixed:
            return tuple(tensors)
        rest = iter(tensors)
        return tuple(next(rest) if isinstance(a, torch.Tensor) else a for a in self._fixed)

    def call(self, module: torch.nn.Module, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Returns the outputs of one call as a tuple of tensors.

        Raises:
            SourceError: when the user's forward fails or returns something else than tensors.
        """
        result = _user_code("the reference", lambda: self.caller(module)(*tensors))
        return outputs_of(result)

    def caller(self, module: torch.nn.Module) -> Callable[..., Any]:
        """Returns what computes the outputs from all tensors: the module, with its backward pass where it is wanted.

        A compiled module can be given as well; its backward pass is then compiled too.
        """
        if self._backward is None:
            return lambda *tensors: module(*self.arguments_with(tensors))
        state = [tensor for _, tensor in state_of(module)]
        return lambda *tensors: self.differentiate(lambda leaves: module(*self.arguments_with(leaves)), tensors, state)

    def differentiate(
        self,
        forward: Callable[[Sequence[torch.Tensor]], Any],
        tensors: Sequence[torch.Tensor],
        state: Sequence[torch.Tensor],
    ) -> tuple[torch.Tensor, ...]:
        """Returns the outputs of a forward pass and then the wanted gradients.

        Args:
            forward: takes the forward's tensors.
            tensors: those, and then the gradients of the outputs.
            state: the module's parameters and buffers.

        Raises:
            SourceError: where an output does not depend on a wanted tensor at all.
        """
        backward = self._backward
        assert backward is not None
        count = len(tensors) - len(backward.given)
        # Whoever differentiates the whole (sensitivity.py) gets tensors that can be differentiated again.
        again = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
        with torch.inference_mode(False), torch.enable_grad():
            leaves = [t if again else t.detach() for t in tensors[:count]]
            sources = {"input": leaves, "state": state}
            wanted = [sources[kind][place] for kind, place in backward.order]
            for tensor in wanted:
                if not tensor.requires_grad:
                    tensor.requires_grad_(True)
            outputs = outputs_of(forward(leaves))
            floats = [t for t in outputs if t.is_floating_point()]
            pairs = [(t, g) for t, g in zip(floats, tensors[count:], strict=True) if t.requires_grad]
            if not pairs:
                raise SourceError("no output has a gradient", "remove detach() and no_grad() from the reference")
            found = torch.autograd.grad(
                [t for t, _ in pairs], wanted, [g for _, g in pairs], allow_unused=True, create_graph=again
            )
        if none := tuple(place for place, g in enumerate(found) if g is None):
            raise NoGradient(none)
        return (*(t if again else t.detach() for t in outputs), *found)

    def initial_arguments(self) -> tuple[object, ...]:
        """Returns what the class is made with."""
        return _as_args(self._initial())

    def _initial(self) -> object:
        return getattr(self._module, "get_init_inputs", list)()


class NoGradient(SourceError):
    """No output depends on tensors whose gradients are asked for.

    Args:
        places: of these, among the wanted ones.
    """

    def __init__(self, places: tuple[int, ...]) -> None:
        super().__init__("an output does not depend on a tensor whose gradient is asked for", "name the others")
        self.places = places


class FunctionModule(torch.nn.Module):
    """A plain function as a module, so that both contracts are called alike."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: object) -> object:
        """Returns what the function returns."""
        return self.function(*arguments)


def load_reference(
    files: Sequence[SourceFile],
    entry: str,
    *,
    evaluation: bool = False,
    origin: str = "",
    specs: Sequence[TensorSpec] = (),
    shapes: Sequence[tuple[int, ...]] = (),
    backward: Backward | None = None,
) -> Reference:
    """Executes the reference's first file and returns what it defines under `entry`.

    Args:
        files: the first defines the reference; the others can be imported by it.
        entry: `Model`, or a function's name.
        evaluation: call `.eval()` on every module made.
        origin: folder for imports and data files that are not carried by value.
        specs: how inputs are drawn where the file has no `get_inputs` of its own to use.
        shapes: what the inputs' shapes are to be, where they may be others than the file draws.
        backward: which gradients a call gives as well.

    Raises:
        SourceError: for a syntax error, a failing import, or a missing name, with file and line.
    """
    global _loaded  # every load is a module of its own, since compiled code is kept per code object
    _loaded += 1
    first = files[0]
    filename = str(PurePosixPath(origin) / first.path) if origin else first.path
    # Behind everything that is installed: a random.py beside the reference must not stand for Python's own.
    sys.path += [folder for folder in (origin, os.getcwd()) if folder and folder not in sys.path]
    sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, CarriedFiles)]
    carried = CarriedFiles(files[1:], origin)
    for name in carried.texts:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, carried)
    module = python_types.ModuleType(f"{MODULE_NAME}_{_loaded}")
    module.__file__ = filename
    sys.modules[module.__name__] = module
    _execute(first.text, filename, module)
    if not hasattr(module, entry):
        defined = [
            n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module.__name__
        ]
        raise SourceError(f"{first.path} does not define {entry!r}", f"it defines: {', '.join(defined) or 'nothing'}")
    return Reference(module, entry, evaluation=evaluation, specs=specs, shapes=shapes, backward=backward)


def load_problem(problem: Problem, workload: Workload | None = None) -> Reference:
    """Returns a problem's reference, drawing inputs as the workload (default: the first) says."""
    workload = workload or problem.workloads[0]
    backward = backward_of(problem)
    own = problem.inputs[: len(problem.inputs) - len(backward.given)] if backward else problem.inputs
    specs = own if workload.generator == "spec" else ()
    shapes = tuple(spec.shape for spec in problem.inputs) if problem.axes and not specs else ()
    return load_reference(
        problem.reference,
        problem.entry,
        evaluation=problem.evaluation,
        origin=problem.origin,
        specs=specs,
        shapes=shapes,
        backward=backward,
    )


class CarriedFiles(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serves a problem's further files to `import` from their texts."""

    def __init__(self, files: Iterable[SourceFile], origin: str) -> None:
        self.texts: dict[str, tuple[str, str, bool]] = {}
        for file in files:
            path = PurePosixPath(file.path)
            package = path.name == "__init__.py"
            name = ".".join(path.parent.parts if package else path.with_suffix("").parts)
            self.texts[name] = (file.text, str(PurePosixPath(origin) / path) if origin else file.path, package)

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> Any:
        """Returns a spec for a carried module, None for any other."""
        if fullname not in self.texts:
            return None
        _, filename, package = self.texts[fullname]
        return importlib.machinery.ModuleSpec(fullname, self, origin=filename, is_package=package)

    def exec_module(self, module: python_types.ModuleType) -> None:
        """Executes a carried file's text as the module."""
        text, filename, _ = self.texts[module.__name__]
        module.__file__ = filename
        _execute(text, filename, module)


def _execute(text: str, filename: str, module: python_types.ModuleType) -> None:
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    try:
        exec(compile(text, filename, "exec"), vars(module))
    except SyntaxError as error:
        raise SourceError(f"{error.filename}:{error.lineno}: {error.msg}", "correct the syntax") from error
    except SourceError:
        raise
    except BaseException as error:
        raise _blame(f"executing {filename}", error) from error


def _user_code(what: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except NoGradient:
        raise
    except MemoryError as error:
        raise SourceError(f"{what} ran out of memory", "use smaller shapes") from error
    except BaseException as error:  # SystemExit too: the worker is ended by its parent only
        if any(words in words_of(error) for words in ("not enough memory", "can't allocate memory")):
            raise SourceError(f"{what} ran out of memory", "use smaller shapes") from error
        raise _blame(what, error) from error


def _blame(what: str, error: BaseException) -> SourceError:
    place, trace = "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_globals.get("__name__", "")
        if str(name).startswith(MODULE_NAME):
            place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}: "
        trace = trace.tb_next
    raised = ": ".join([type(error).__name__, *(line[:SAID] for line in words_of(error).strip().splitlines()[:1])])
    return SourceError(f"{place}{what} raised {raised}", "correct the reference")


def _as_args(given: object) -> tuple[object, ...]:
    return tuple(given) if isinstance(given, list | tuple) else (given,)


def outputs_of(result: object) -> tuple[torch.Tensor, ...]:
    """Returns a forward's result as a flat tuple of tensors, dictionaries in their order.

    Raises:
        SourceError: when the result holds anything that is not a tensor, or nothing.
    """
    if isinstance(result, torch.Tensor):
        return (result,)
    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, list | tuple) and result:
        return tuple(t for item in result for t in outputs_of(item))
    raise SourceError(f"the reference returns a {type(result).__name__}", "return a tensor or a tuple of tensors")


def seed_everything(seed: int) -> None:
    """Seeds every generator that a reference may draw from."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def draw(spec: TensorSpec, generator: torch.Generator) -> torch.Tensor:
    """Returns a plain draw of a tensor: standard normal floats, integers and bools over their range.

    Floats with both limits are uniform between them; integers default to 0..9, both ends included.
    """
    dtype, device = DTYPES[spec.dtype], generator.device
    if dtype is torch.bool:
        return torch.rand(spec.shape, generator=generator, device=device) < 0.5
    if not dtype.is_floating_point:
        low = int(spec.low) if spec.low is not None else 0
        high = int(spec.high) if spec.high is not None else max(low, 9)
        return torch.randint(low, high + 1, spec.shape, generator=generator, dtype=dtype, device=device)
    if spec.low is not None and spec.high is not None:
        unit = torch.rand(spec.shape, generator=generator, dtype=torch.float64, device=device)
        return (spec.low + (spec.high - spec.low) * unit).to(dtype)
    drawn = torch.randn(spec.shape, generator=generator, dtype=torch.float64, device=device)
    return (
        drawn.clamp(min=spec.low, max=spec.high).to(dtype) if (spec.low, spec.high) != (None, None) else drawn.to(dtype)
    )


def resized(tensor: torch.Tensor, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Returns a draw for other sizes of some dimensions: entries along each are left out or repeated at random.

    They stay in their order, so that what is sorted stays sorted and a padding mask remains one; but not in free
    numbers, where equal ones side by side would let rounding errors of a sum add up.
    """
    free = mostly_distinct(tensor)
    for dim, (size, wanted) in enumerate(zip(tensor.shape, shape, strict=True)):
        if size != wanted:
            fewer = wanted < size
            near = generator.device
            kept = torch.randperm(size, generator=generator, device=near)[:wanted] if fewer else None
            kept = torch.randint(0, size, (wanted,), generator=generator, device=near) if kept is None else kept
            tensor = tensor.index_select(dim, (kept if free else kept.sort().values).to(tensor.device))
    return tensor


def mostly_distinct(tensor: torch.Tensor) -> bool:
    """Tells whether a tensor holds free numbers: floating, finite, and mostly distinct."""
    if not tensor.is_floating_point() or not tensor.numel():
        return False
    flat = tensor.reshape(-1)
    # float32 would round the last place of a large tensor to one beyond it.
    places = torch.linspace(0, len(flat) - 1, min(len(flat), DISTINCT_SAMPLE), dtype=torch.float64).long()
    sample = flat[places.to(flat.device)]
    # bfloat16 has few distinct values near 1, so that a quarter is already many.
    return bool(sample.isfinite().all()) and len(set(sample.tolist())) * 4 >= len(sample)


def state_of(module: torch.nn.Module) -> tuple[tuple[str, torch.Tensor], ...]:
    """Returns a module's parameters, then its buffers, each once, with their dotted names.

    `Problem.parameters` has the same tensors in the same order.
    """
    return tuple(module.named_parameters()) + tuple(module.named_buffers())
