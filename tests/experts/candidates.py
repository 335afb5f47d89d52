"""From a function or module to candidates that run: captured with torch, compiled with g++, called by ctypes."""

from __future__ import annotations

import ctypes
import subprocess
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from kernelwright.capture import tracing
from kernelwright.experts import attention, bag, topk, window
from kernelwright.graph import Graph
from kernelwright.judge.truth import nudge
from kernelwright.types import (
    Candidate,
    Failure,
    Point,
    Problem,
    Refusal,
    SourceFile,
    Space,
    Target,
    Template,
    TensorSpec,
    Workload,
)

FLAGS = (
    *("-std=c++17", "-O3", "-march=native", "-fopenmp", "-fPIC", "-shared"),
    *("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"),
)


def _features() -> tuple[str, ...]:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return tuple(sorted(line.split(":")[1].split()))
    return ()


TARGET = Target(kind="cpu", architecture="here", features=_features(), threads=2, toolchain=())
CTYPES = {
    torch.float32: "float", torch.float64: "double", torch.int64: "int64_t", torch.int32: "int32_t", torch.bool: "bool"
}  # fmt: skip


class Wrapped(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: torch.Tensor) -> object:
        return self.function(*arguments)


class Traced:
    """A reference with its problem and graph.

    Args:
        reference: a module or a function of tensors.
        inputs: example arguments.
    """

    def __init__(self, reference: object, *inputs: torch.Tensor) -> None:
        self.module = reference if isinstance(reference, torch.nn.Module) else Wrapped(reference)  # type: ignore[arg-type]
        self.module.eval()
        self.inputs = inputs
        self.state = {n.replace(".", "_"): t.detach() for n, t in self.module.state_dict().items()}
        names = [f"x{i}" for i in range(len(inputs))]
        dotted = {n: n.replace(".", "_") for n in self.module.state_dict()}
        self.graph: Graph = tracing.trace(self.module, inputs, inputs=names, state=dotted)
        outs = self.run()
        out_names = ["out"] if len(outs) == 1 else [f"out{i}" for i in range(len(outs))]
        self.problem = Problem(
            name="unknown",
            inputs=tuple(_spec(n, t, "input") for n, t in zip(names, inputs, strict=True)),
            parameters=tuple(_spec(n, t, "parameter") for n, t in self.state.items()),
            outputs=tuple(_spec(n, t, "output") for n, t in zip(out_names, outs, strict=True)),
            reference=(SourceFile(path="reference.py", text=""),),
            entry="reference",
            workloads=(Workload(name="w", generator="spec"),),
            min_bytes=0,
        )

    def run(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Returns the reference's outputs in its own precision."""
        with torch.no_grad():
            result = self.module(*(inputs or self.inputs))
        return result if isinstance(result, tuple) else (result,)

    def truth(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Returns the reference's outputs in float64."""
        wide = tuple(t.double() if t.is_floating_point() else t for t in (inputs or self.inputs))
        self.module.double()
        try:
            with torch.no_grad():
                result = self.module(*wide)
        finally:
            self.module.float()
        return result if isinstance(result, tuple) else (result,)


def _spec(name: str, tensor: torch.Tensor, role: str) -> TensorSpec:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorSpec(name=name, shape=tuple(tensor.shape), dtype=dtype, role=role)  # type: ignore[arg-type]


def points(space: Space, count: int, *, seed: str) -> tuple[Point, ...]:
    """Returns the default point and others drawn from a space, always the same for one seed."""
    found = [space.default()]
    state = zlib.crc32(seed.encode())
    for _ in range(count):
        point = []
        for parameter in space.parameters:
            state = (state * 1103515245 + 12345) % 2**31
            point.append((parameter.name, parameter.values[(state >> 8) % len(parameter.values)]))
        found.append(tuple(point))
    return tuple(dict.fromkeys(found))


def emitted(template: Template, *, others: int = 2) -> tuple[Candidate, ...]:
    """Returns candidates of the default point, which must be one, and of others that can be emitted."""
    first = template.emit(template.space.default())
    assert isinstance(first, Candidate), first
    made = [template.emit(point) for point in points(template.space, 3 * others, seed=template.name)[1:]]
    good = [item for item in made if not isinstance(item, Failure)]
    return (first, *good[:others])


def _compile(job: tuple[Path, Candidate]) -> Path:
    folder, candidate = job
    folder.mkdir(parents=True, exist_ok=True)
    for source in candidate.sources:
        (folder / source.path).write_text(source.text)
    # Unrolled tails make this compiler see accesses that their conditions exclude: no array-bounds.
    command = ["g++", *FLAGS, "-Wall", "-Wno-array-bounds", "kernel.cpp", "-o", "kernel.so", "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000] + candidate.sources[0].text
    assert "warning" not in done.stderr, done.stderr[:4000]
    return folder / "kernel.so"


def build(folder: Path, candidates: tuple[Candidate, ...]) -> tuple[Path, ...]:
    """Returns the libraries of candidates, compiled two at a time."""
    jobs = [(folder / str(i), candidate) for i, candidate in enumerate(candidates)]
    with ThreadPoolExecutor(max_workers=2) as pool:
        return tuple(pool.map(_compile, jobs))


def call(traced: Traced, candidate: Candidate, library: Path, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Returns a candidate's outputs; outputs and a guard band behind them are filled with NaN or -1 before."""
    tensors = {s.name: t.contiguous() for s, t in zip(traced.problem.inputs, inputs or traced.inputs, strict=True)}
    tensors |= {name: tensor.contiguous() for name, tensor in traced.state.items()}
    guarded = {}
    for spec in traced.problem.outputs:
        size = max(int(torch.Size(spec.shape).numel()), 1)
        dtype = getattr(torch, spec.dtype)
        guarded[spec.name] = torch.full((size + 64,), float("nan") if dtype.is_floating_point else -1).to(dtype)
    before = {name: tensor.clone() for name, tensor in tensors.items()}
    loaded = ctypes.CDLL(str(library))
    scratch = {w.name: torch.full((int(w.size_bytes) // 4 + 16,), float("nan")) for w in candidate.plan.workspaces}
    for step in candidate.plan.steps:
        arguments = []
        for binding in step.arguments:
            if binding.kind == "workspace":
                arguments.append(ctypes.c_void_p(-(-scratch[binding.name].data_ptr() // 64) * 64))
                continue
            tensor = guarded.get(binding.name, tensors.get(binding.name))
            assert tensor is not None
            assert CTYPES[tensor.dtype] == binding.ctype
            arguments.append(ctypes.c_void_p(tensor.data_ptr()))
        getattr(loaded, step.symbol)(*arguments)
    for name, tensor in tensors.items():
        assert torch.equal(_bits(tensor), _bits(before[name])), f"{name} was changed"
    outs = []
    for spec in traced.problem.outputs:
        size = int(torch.Size(spec.shape).numel())
        behind = guarded[spec.name][size:]
        assert bool(torch.isnan(behind).all() if behind.is_floating_point() else (behind == -1).all()), "wrote beyond"
        outs.append(guarded[spec.name][:size].reshape(spec.shape).clone())
    return tuple(outs)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8) if tensor.numel() else tensor


def assert_as_accurate(got: torch.Tensor, own: torch.Tensor, truth: torch.Tensor, moved: float = 0.0) -> None:
    """Checks the judge's rule: 8 times the reference's own largest error, 4 times its rms, at least 4 ulp.

    Args:
        got: the candidate's answer.
        own: the reference's.
        truth: the reference's in float64.
        moved: how much the truth changes when the inputs move by one rounding; 6 sqrt(64) times that passes as well,
            for sums of about 64 numbers.
    """
    if not got.is_floating_point():
        assert torch.equal(got, own)
        return
    finite = torch.isfinite(own) & torch.isfinite(truth)
    assert torch.equal(torch.isnan(got), torch.isnan(own))
    strange = ~torch.isfinite(own) & ~torch.isnan(own)
    assert torch.equal(got[strange], own[strange])
    error, mine = ((t.double() - truth)[finite].abs() for t in (own, got))
    if not finite.any():
        return
    ulp = torch.finfo(torch.float32).eps * truth[finite].abs().clamp_min(1e-38)
    limit = (8 * error.max()).clamp_min(48 * moved) + 4 * ulp
    assert bool((mine <= limit).all()), f"largest {mine.max():.3g}, allowed {limit.max():.3g}"
    rms, rms_mine = error.square().mean().sqrt(), mine.square().mean().sqrt()
    assert rms_mine <= max(4 * float(rms), 16 * moved) + 4 * ulp.square().mean().sqrt()


def _answers(traced: Traced) -> list[Template | Refusal]:
    """Returns what the experts for special operations say, whatever the loop expert can do."""
    found: list[Template | Refusal] = []
    for module in (window, attention, topk, bag):
        answer = module.propose(traced.problem, traced.graph, TARGET)
        found.extend(answer if isinstance(answer, tuple) else () if answer is None else (answer,))
    return found


def only(traced: Traced) -> Template:
    """Returns the one template that the special experts have for a reference."""
    (found,) = _answers(traced)
    assert isinstance(found, Template), found
    return found


def refusal(reference: object, *inputs: torch.Tensor) -> str:
    """Returns why a reference is refused: operator and reason."""
    (found,) = _answers(Traced(reference, *inputs))
    assert isinstance(found, Refusal), found
    return f"{found.subject}: {found.reason}"


def check(
    folder: Path, traced: Traced, *more: tuple[torch.Tensor, ...], others: int = 1, template: Template | None = None
) -> tuple[Candidate, ...]:
    """Checks the default schedule and others on the traced inputs and on more; each must also repeat its bits.

    Returns:
        the candidates, for further checks of their text.
    """
    candidates = emitted(template or only(traced), others=others)
    libraries = build(folder, candidates)
    for inputs in (traced.inputs, *more):
        own, truth = traced.run(*inputs), traced.truth(*inputs)
        moved = _moved(traced, inputs, truth)
        for candidate, library in zip(candidates, libraries, strict=True):
            got = call(traced, candidate, library, *inputs)
            for mine, theirs, exact, change in zip(got, own, truth, moved, strict=True):
                assert_as_accurate(mine, theirs, exact, change)
            again = call(traced, candidate, library, *inputs)
            assert all(torch.equal(_bits(a), _bits(b)) for a, b in zip(got, again, strict=True))
    return candidates


def _moved(traced: Traced, inputs: tuple[torch.Tensor, ...], truth: tuple[torch.Tensor, ...]) -> list[float]:
    """Returns for each output its largest change when the inputs move by one rounding."""
    generator = torch.Generator().manual_seed(1)
    nearby = traced.truth(*(nudge(item, 2.0**-24, generator) for item in inputs))
    changes = [(a.double() - b.double()).abs().nan_to_num(0.0, 0.0) for a, b in zip(nearby, truth, strict=True)]
    return [float(change.max()) if change.numel() else 0.0 for change in changes]


def strange(*shape: int, seed: int = 0) -> torch.Tensor:
    """Returns normal numbers with a few NaN and infinities among them."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randn(shape, generator=generator)
    chance = torch.rand(shape, generator=generator)
    numbers[chance < 0.01] = float("nan")
    numbers[(chance > 0.01) & (chance < 0.02)] = float("inf")
    numbers[(chance > 0.02) & (chance < 0.03)] = float("-inf")
    return numbers
