"""The values that every part of kernelwright exchanges, and their identity.

Frozen, keyword-only, slots; tuples, never lists or dicts; standard library only; no I/O.
The text form of these values is in ``codec.py``; where they are kept is in ``store.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from kernelwright.plans import Binding, Launch, LaunchPlan, Size, Step, TensorMap, Workspace
from kernelwright.values import DIGEST_TAG, digest, identity, note, replace, value

__all__ = [
    "DIGEST_TAG",
    "Artifact",
    "Axis",
    "Binding",
    "Candidate",
    "Check",
    "Comparison",
    "Dtype",
    "Effort",
    "Failure",
    "Judgement",
    "KernelResources",
    "Launch",
    "LaunchPlan",
    "Measurement",
    "OptionValue",
    "Parameter",
    "Point",
    "Policy",
    "Problem",
    "Proposal",
    "Record",
    "Refusal",
    "Role",
    "Size",
    "SourceFile",
    "Space",
    "Stage",
    "Step",
    "Target",
    "Template",
    "TensorMap",
    "TensorSpec",
    "ToleranceRule",
    "Verdict",
    "Workload",
    "Workspace",
    "digest",
    "identity",
    "note",
    "replace",
    "value",
]

# ---------------------------------------------------------------------------- problems

Dtype = str
"""A dtype by its NumPy/PyTorch name: float32, float64, float16, bfloat16, int64, int32, uint8, bool."""

Role = Literal["input", "parameter", "buffer", "output"]


@value
class Axis:
    """One size of a problem that may vary: a kernel must be right for every value, not for one."""

    name: str
    """A C identifier, unique among axes and tensors of its problem."""
    size: int
    """The value that tensors' shapes have in the problem as it stands, and that is timed."""
    low: int = 1
    high: int
    """Smallest and largest value that the reference admits; the judge draws hidden ones between them."""
    places: tuple[tuple[str, int], ...]
    """(tensor, dimension) of every place where this size stands."""


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
    axes: tuple[Axis, ...] = ()
    """Sizes that may vary; without any, the shapes are fixed."""
    gradients: tuple[str, ...] = ()
    """Inputs and parameters whose gradients are asked for. Then the reference is forward and backward together:
    the last inputs are gradients of the forward's outputs, the last outputs those of the named tensors."""
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
    """Without steps for language `python`, whose candidates are witnessed, not sealed."""
    options: tuple[tuple[str, OptionValue], ...] = ()
    """Build options that the language knows by name; an unknown one is refused."""
    author: str = note(default="person")
    template: str = note(default="")
    point: tuple[tuple[str, OptionValue], ...] = note(default=())
    """The schedule parameters that made the sources, where a template did."""
    parents: tuple[str, ...] = note(default=())
    """Digests of the candidates that this one came from."""
    rewrites: tuple[str, ...] = note(default=())
    """Rules that changed the program before it became kernels: what they gain is no kernel's merit."""
    independent: tuple[str, ...] = note(default=())
    """Tensors that the reference reads and no answer of this candidate depends on: work left out, not made faster."""

    @property
    def witnessed(self) -> bool:
        """True for a candidate whose author's own Python runs where it is measured; all others are sealed."""
        return self.language == "python"


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

    @property
    def text(self) -> str:
        """Both in one line; a subject that the reason names is not said twice."""
        return self.reason if self.subject in self.reason else f"{self.subject}: {self.reason}"


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
    device: str = ""
    """The accelerator's product name; empty for a CPU."""
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
    hidden_shapes: int = 0
    """Draws of other sizes for a problem's dynamic axes."""
    memory_checkers: tuple[str, ...] = ()
    """Instrumented runs that a finalist must pass: address, undefined, thread; memcheck, racecheck ..."""
    modes: tuple[str, ...] = ("cold",)
    """How contenders are timed on a device: cold, warm, server (isolated calls, what launching costs included).
    The first is the one that is compared; on a CPU there is only one."""
    protocol: int = 2
    """Version of the judge's procedure, raised with every change that could change a verdict or a time, so
    that records of an older judge are not taken for this one's."""


# --------------------------------------------------------------------------- artifacts


@value
class KernelResources:
    """What one kernel of an artifact needs of a device."""

    symbol: str
    registers: int
    """Per thread."""
    shared_bytes: int
    """Static shared memory of a block."""
    spill_bytes: int
    """Local memory per thread that is there because registers ran out."""
    stack_bytes: int = 0


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
    resources: tuple[KernelResources, ...] = note(default=())
    log: str = note(default="")
    path: str = note(default="")
    """Where the binary lies on this machine."""
    build_s: float = note(default=0.0)
    cached: bool = note(default=False)


# ------------------------------------------------------------------------------ records

Stage = Literal["emit", "plan", "build", "inspect", "load", "run", "judge"]


KILLED = "killed"
"""The kind of a failure that something outside is to blame for: a process was killed or stopped. It is not kept."""


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
    conditions: tuple[tuple[str, float], ...] = note(default=())
    """What the device was like meanwhile: sm_clock_mhz, power_w, temperature_c, throttle_reasons ..."""


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
    floor_us: float | None = None
    """The time below which moving the necessary bytes (or doing the operations) is impossible here."""
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
