"""The values that every part of kernelwright exchanges, and their identity.

Frozen, keyword-only, slots; tuples, never lists or dicts; standard library only; no I/O.
The text form of these values is in ``codec.py``; where they are kept is in ``store.py``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, TypeVar, dataclass_transform

DIGEST_TAG = "k1:"
"""Names the rule that made a digest, so that a later change of the rule is detectable."""

T = TypeVar("T")


def note(**kwargs: Any) -> Any:
    """Returns a dataclass field that is recorded but is no part of what the value is."""
    return field(metadata={"identity": False}, compare=False, **kwargs)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field, note))
def value(cls: type[T]) -> type[T]:
    """Makes a class one of kernelwright's values: frozen, keyword-only, with slots."""
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)


def identity(item: object) -> object:
    """Returns what `item` is, as JSON data: every field that is not a note, with its type's name.

    Raises:
        TypeError: for a list, dict, set or any other object that cannot be part of an identity.
    """
    if is_dataclass(item) and not isinstance(item, type):
        kept = [f.name for f in fields(item) if f.metadata.get("identity", True)]
        return {"": type(item).__name__, **{name: identity(getattr(item, name)) for name in kept}}
    if isinstance(item, tuple):
        return [identity(element) for element in item]
    if item is None or isinstance(item, str | int | bool):
        return item
    if isinstance(item, float):
        return item.hex()
    raise TypeError(f"{type(item).__name__} cannot be part of an identity; use a tuple or a value")


def digest(item: object) -> str:
    """Returns the tagged SHA-256 of an item's identity: equal for equal values, in every process."""
    text = json.dumps(identity(item), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return DIGEST_TAG + hashlib.sha256(text.encode()).hexdigest()


def replace(item: T, /, **changes: Any) -> T:
    """Returns a copy of a value with some fields changed."""
    return dataclasses.replace(item, **changes)  # type: ignore[type-var]


# ---------------------------------------------------------------------------- problems

Dtype = str
"""A dtype by its NumPy/PyTorch name: float32, float64, float16, bfloat16, int64, int32, uint8, bool."""

Role = Literal["input", "parameter", "buffer", "output"]


@value
class TensorSpec:
    """One tensor that a problem takes or gives, always with a concrete shape."""

    name: str
    """The name that launch plans and kernels use; a valid C identifier, unique in its problem."""
    shape: tuple[int, ...]
    dtype: Dtype
    role: Role
    strides: tuple[int, ...] | None = None
    """In elements; None means contiguous row-major."""
    low: float | None = None
    """Smallest value that may be drawn; None: the family decides. Integers: inclusive."""
    high: float | None = None
    """Largest value that may be drawn; None: the family decides. Integers: inclusive."""


@value
class SourceFile:
    """One text file, carried by value."""

    path: str
    """Relative, with forward slashes and without '..'."""
    text: str


@value
class Workload:
    """How the inputs of a problem are made; never the seed, which the judge draws."""

    name: str
    generator: Literal["source", "spec"]
    """`source`: the reference's own `get_inputs`; `spec`: drawn from the tensors' specs."""


@value
class ToleranceRule:
    """How exact is exact enough: multiples of the error that the reference itself makes."""

    max_factor: float = 8.0
    """The largest error in a group of elements may be this multiple of the reference's own."""
    rms_factor: float = 4.0
    """The root-mean-square error may be this multiple of the reference's own."""
    floor_ulps: float = 4.0
    """Errors up to this many units in the last place of the truth always pass."""


@value
class Problem:
    """What must be computed: a reference program, its tensors, and how near is right."""

    name: str
    inputs: tuple[TensorSpec, ...]
    """The arguments of the reference, in order (tensors only)."""
    parameters: tuple[TensorSpec, ...]
    """The reference's parameters and buffers, in the order of its state; all are drawn by the judge."""
    outputs: tuple[TensorSpec, ...]
    reference: tuple[SourceFile, ...]
    """The first file defines the reference; the others are what it imports."""
    entry: str
    """`Model` for the class contract (`Model`, `get_inputs`, `get_init_inputs`), else a function's name."""
    evaluation: bool = False
    """True: `.eval()` is called on the module before use."""
    tolerance: ToleranceRule = ToleranceRule()
    workloads: tuple[Workload, ...]
    flops: int | None = None
    """Floating-point operations of one call, where they could be counted."""
    min_bytes: int
    """Fewest bytes that must move: each input and parameter read once, each output written once."""
    description: str = note(default="")
    origin: str = note(default="")
    """Folder that the reference came from, so that its imports resolve; empty for built-ins."""

    @property
    def arguments(self) -> tuple[TensorSpec, ...]:
        """Every tensor that a kernel may bind: inputs, then parameters, then outputs."""
        return self.inputs + self.parameters + self.outputs


# -------------------------------------------------------------------------- candidates


@value
class Binding:
    """One argument of a kernel: a tensor of the problem, a workspace, or a number."""

    kind: Literal["tensor", "workspace", "scalar"]
    name: str
    """The tensor's or workspace's name; for a scalar, its parameter name."""
    ctype: str
    """The element's C type for pointers, the type itself for scalars: float, double, int64_t ..."""
    scalar: int | float | None = None
    """The scalar's value; None for pointers."""


@value
class Workspace:
    """Scratch memory that a plan needs; its contents are undefined before every call."""

    name: str
    size_bytes: int


@value
class Step:
    """One kernel call of a launch plan."""

    symbol: str
    arguments: tuple[Binding, ...]


@value
class LaunchPlan:
    """What is called, in order, with what. It is data: no host code of the author exists."""

    steps: tuple[Step, ...]
    workspaces: tuple[Workspace, ...] = ()


OptionValue = str | int | float | bool


@value
class Candidate:
    """One attempt at a problem: device source, a launch plan, and how to build it."""

    problem: str
    """The problem's digest."""
    language: str
    sources: tuple[SourceFile, ...]
    """The first file is the one that is compiled; the others can be included from it."""
    plan: LaunchPlan
    options: tuple[tuple[str, OptionValue], ...] = ()
    """Build options that the language knows by name; an unknown one is refused."""
    author: str = note(default="person")
    template: str = note(default="")
    point: tuple[tuple[str, OptionValue], ...] = note(default=())
    """The schedule parameters that made the sources, where a template did."""
    parents: tuple[str, ...] = note(default=())
    """Digests of the candidates that this one came from."""


@value
class Parameter:
    """One axis of a schedule space: a name and the values it may take, in a meaningful order."""

    name: str
    values: tuple[OptionValue, ...]


Point = tuple[tuple[str, OptionValue], ...]
"""One choice for each parameter of a space, in the space's order."""


@value
class Space:
    """The schedules that a template can emit."""

    parameters: tuple[Parameter, ...]

    def default(self) -> Point:
        """Returns the point made of every parameter's first value: the author's best guess."""
        return tuple((p.name, p.values[0]) for p in self.parameters)

    def size(self) -> int:
        """Returns the number of points."""
        count = 1
        for parameter in self.parameters:
            count *= len(parameter.values)
        return count


@value
class Template:
    """A family of candidates: a space and the function that turns a point of it into sources.

    `emit` is pure and quick (no compiler). It returns a Failure of stage "emit" for a point
    that cannot be emitted, so that a search can pass over it.
    """

    name: str
    space: Space
    emit: Callable[[Point], Candidate | Failure]


@value
class Refusal:
    """Something that an expert cannot do, said by name."""

    subject: str
    """The operator, option or problem that was refused."""
    reason: str


Effort = Literal["screen", "measure"]
"""How much a search asks the judge to spend: `screen` is quick and coarse."""


@value
class Proposal:
    """What a strategy asks for: one candidate, judged with one effort."""

    candidate: Candidate
    effort: Effort


# ---------------------------------------------------------------- targets and policies


@value
class Target:
    """Where a candidate runs: what decides whether two times may be compared."""

    kind: Literal["cpu", "cuda"]
    architecture: str
    """The processor's model name, or sm_90a and the like."""
    features: tuple[str, ...]
    """Sorted instruction-set features that code may use."""
    threads: int
    """Threads that candidate and baselines may both use."""
    toolchain: tuple[tuple[str, str], ...]
    """(name, version) of compilers and frameworks whose version changes code or times."""
    host: str = note(default="")
    cache_bytes: int = note(default=0)
    """Size of the last-level cache, 0 where unknown."""


@value
class Policy:
    """How a candidate is judged. Records under different policies are never compared."""

    name: str
    families: tuple[str, ...]
    """Input families that are checked, by name."""
    draws: int
    """Independent draws for each family."""
    baselines: tuple[str, ...]
    """Contenders to time beside the candidate: eager, and torch.compile modes as `compile:MODE`."""
    rounds: int
    """Rounds of interleaved blocks; each contender has one block in each round."""
    block_us: float
    """Shortest time a block should take; the number of calls follows from it."""
    confidence: float = 0.95
    deadline_s: float = 120.0
    """The candidate is killed when its whole judgement takes longer."""
    call_deadline_s: float = 10.0
    """The candidate is killed when one request to its runner takes longer."""
    protocol: int = 1
    """Version of the judge's procedure, raised with every change that could change a verdict or a time, so
    that records of an older judge are not taken for this one's."""


# --------------------------------------------------------------------------- artifacts


@value
class Artifact:
    """What a compiler made of a candidate; the bytes lie in a file named by their digest."""

    candidate: str
    """The candidate's digest."""
    key: str
    """Digest of everything that the build depended on: sources, flags, compiler, features."""
    blob: str
    """sha256:... of the binary."""
    entry: str
    """The symbol that runs the whole plan."""
    plan: LaunchPlan
    log: str = note(default="")
    path: str = note(default="")
    """Where the binary lies on this machine."""
    build_s: float = note(default=0.0)
    cached: bool = note(default=False)


# ------------------------------------------------------------------------------ records

Stage = Literal["emit", "plan", "build", "inspect", "load", "run", "judge"]


@value
class Failure:
    """Why a candidate stopped: its own fault, as a value."""

    stage: Stage
    kind: str
    """A short stable word: syntax, symbol, type, import, signal, timeout, memory ..."""
    message: str
    """One line: what happened, where, and what to do next."""
    location: str = ""
    """file:line, where known."""
    detail: str = note(default="")
    """The longer log."""


@value
class Check:
    """One named check of a verdict, with its evidence."""

    name: str
    passed: bool
    evidence: str
    """One line with the numbers that decided."""


@value
class Verdict:
    """Right and honest? Every check that ran; a candidate passes when all of them do."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """True when there is at least one check and none failed."""
        return bool(self.checks) and all(check.passed for check in self.checks)


@value
class Measurement:
    """How fast one contender was, and how sure that is."""

    contender: str
    """`candidate`, or a baseline's name."""
    workload: str
    mode: str
    """The timing mode, `cold` or `warm`."""
    median_us: float
    low_us: float
    high_us: float
    """The 95 % bootstrap interval of the median."""
    samples: int
    """Rounds behind the median."""
    calls: int
    """Calls in each round."""
    method: str
    """The clock and protocol."""


@value
class Comparison:
    """Candidate against one baseline, from blocks that alternated in the same rounds."""

    baseline: str
    speedup: float
    """Baseline's time over the candidate's: above 1 the candidate is faster."""
    low: float
    high: float
    """The bootstrap interval of the ratio, at the policy's confidence."""


@value
class Judgement:
    """What the judge found about a candidate that could be run."""

    verdict: Verdict
    measurements: tuple[Measurement, ...] = ()
    """Empty when the verdict did not pass: a wrong kernel has no time."""
    comparisons: tuple[Comparison, ...] = ()
    noise: float | None = None
    """Half-width of the A/A run's interval around 1: wins below it are ties."""
    notes: tuple[str, ...] = note(default=())
    """What was left out and why: input families that do not apply, baselines that do not work here."""

    def against(self, baseline: str) -> Comparison | None:
        """Returns the comparison with one baseline, None where it was not timed."""
        return next((c for c in self.comparisons if c.baseline == baseline), None)


@value
class Record:
    """One evaluation, never changed once written."""

    problem: str
    candidate: str
    target: str
    policy: str
    """Digests of the four values."""
    outcome: Failure | Judgement
    when: str = note(default="")
    """UTC, ISO 8601."""
    host: str = note(default="")
    duration_s: float = note(default=0.0)

    @property
    def passed(self) -> bool:
        """True when the candidate ran and every check held."""
        return isinstance(self.outcome, Judgement) and self.outcome.verdict.passed
