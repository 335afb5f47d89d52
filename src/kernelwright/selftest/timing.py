"""Whether the judge's times can be believed: copies of one kernel tie, and a known delay is seen as what it is.

One kernel is judged several times under different sources of the same meaning; their ratios against eager must lie
together (the A/A spread). The same kernel with a chain of dependent multiplications in front of it, whose length is
known from a program of ours with a clock of its own, must lose by that much. On a GPU a chain twice as long says how
much its first half takes.
**Covers**: bias between candidates, and time that is counted twice or not at all.
**Does not cover**: the truth of the machine's clock.
"""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from kernelwright.errors import KernelwrightError
from kernelwright.judge import SCREEN, Judge, policies_for
from kernelwright.languages import build_program
from kernelwright.selftest.small_problems import make_problem
from kernelwright.types import (
    Binding,
    Candidate,
    Judgement,
    Launch,
    LaunchPlan,
    Measurement,
    Problem,
    Record,
    SourceFile,
    Step,
    Target,
    digest,
    replace,
    value,
)

POLICY = replace(SCREEN, name="timing", families=("given",), rounds=24, block_us=2000.0, deadline_s=60.0)
COPIES = 4
PROBLEM = "softmax"
DELAY_US = 60.0
"""What the slowed kernel is made to lose: about what it takes itself."""
SLACK = 0.1
"""The chain's clock rate in a kernel may differ so much from that in a program that does nothing else."""
BUSY_NOISE = 0.15
"""From this A/A noise on the machine is too busy to say anything."""
KERNEL = """\
#include <math.h>
#include <stdint.h>
extern "C" void kernel(const float* x, float* out) {{
  {delay}
  for (int r = 0; r < 64; ++r) {{
    const float* a = x + r * 256;
    float m = a[0], s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) s += expf(a[i] - m);
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = expf(a[i] - m) / s;
  }}
}}
// copy {copy}
"""
CHAIN = """uint64_t chain = {steps};
  for (int64_t i = 0; i < {steps}; ++i) {{
    chain = chain * 6364136223846793005u + 1442695040888963407u;
    asm volatile("" : "+r"(chain));
  }}"""

CUDA_STEPS = 24000
"""About 50 µs."""
CUDA_KERNEL = """\
extern "C" __global__ void kernel(const float* x, float* out) {{
  {delay}
  const float* a = x + blockIdx.x * 256;
  float m = a[threadIdx.x], s = 0;
  for (int i = threadIdx.x; i < 256; i += 32) m = a[i] > m || a[i] != a[i] ? a[i] : m;
  for (int d = 16; d; d /= 2) {{
    float other = __shfl_xor_sync(~0u, m, d);
    m = other > m || other != other ? other : m;
  }}
  for (int i = threadIdx.x; i < 256; i += 32) s += expf(a[i] - m);
  for (int d = 16; d; d /= 2) s += __shfl_xor_sync(~0u, s, d);
  for (int i = threadIdx.x; i < 256; i += 32) out[blockIdx.x * 256 + i] = expf(a[i] - m) / s;
}}
// copy {copy}
"""
CUDA_CHAIN = """float chain = x[0];
  for (int i = 0; i < {steps}; ++i) chain = fmaf(chain, 0.999f, 1e-3f);
  if (chain == 123.456f) return;"""
"""Its end decides something, or the compiler leaves it out. It is never that number: it tends to 1."""

State = Literal["held", "failed", "undecided"]


@value
class TimingTest:
    """What the timing self-test found."""

    tie: State
    """Whether copies of one kernel tie."""
    delay: State
    """Whether the slowed kernel loses by its delay."""
    aa_spread: float
    """Half of the distance between the largest and the smallest ratio of the copies, as a share of their middle."""
    noise: float
    """The largest A/A noise of these judgements: what the judge itself says that its ratios are worth."""
    delay_us: float
    """How much slower the kernel was made."""
    seen_us: float
    """How much slower the judge found it."""
    seen_low_us: float
    seen_high_us: float


def timing_test(target: Target, *, tell: Callable[[str], None] = lambda _: None) -> TimingTest:
    """Judges the copies and the slowed kernel, one after the other, and compares."""
    problem, on_device = make_problem(PROBLEM), target.kind == "cuda"
    step_ns = 0.0 if on_device else chain_step_ns()
    steps = CUDA_STEPS if on_device else round(DELAY_US * 1e3 / step_ns)
    chains = [*[0] * COPIES, steps, *[2 * steps] * on_device]
    make = _cuda_candidate if on_device else _candidate
    candidates = [make(problem, copy=number, steps=length) for number, length in enumerate(chains)]
    measure = policies_for(target)["measure"]
    policy = replace(measure, name="timing", families=("given",), hidden_shapes=0) if on_device else POLICY
    with Judge(problem, target) as judge:
        records = []
        for number, record in enumerate(judge.judge(candidates, policy), 1):
            tell(f"timing: {number} of {len(candidates)} judged")
            records.append(record)
    copies, slowed, baseline = records[:COPIES], records[COPIES], policy.baselines[0]
    if on_device:
        once, twice = (_time(_judged(record)).median_us for record in records[COPIES:])
        return conclude(copies, slowed, twice - once, baseline=baseline)
    return conclude(copies, slowed, steps * step_ns / 1e3, baseline=baseline)


def chain_step_ns() -> float:
    """Returns the nanoseconds of one step of the chain, by a program of ours."""
    program = build_program(Path(__file__).with_name("delay.cpp"))
    ended = subprocess.run([program], capture_output=True, text=True, timeout=120, check=False)
    try:
        return float(ended.stdout)
    except ValueError:
        raise KernelwrightError(f"{program} ended with status {ended.returncode} and no number") from None


def conclude(copies: list[Record], slowed: Record, delay_us: float, *, baseline: str = "eager") -> TimingTest:
    """Returns what the records of the copies and of the slowed kernel say.

    Raises:
        KernelwrightError: when one of them did not pass: they are all right.
    """
    judgements = [_judged(record) for record in (*copies, slowed)]
    noise = max(judgement.noise or 0.0 for judgement in judgements)
    busy = noise > BUSY_NOISE
    against = [c for j in judgements[:-1] if (c := j.against(baseline))]
    low, high = min(c.speedup for c in against), max(c.speedup for c in against)
    factor = (1.0 + noise) ** 2
    ties = max(c.low for c in against) <= min(c.high for c in against) * factor
    times = [_time(judgement) for judgement in judgements]
    base, slow = times[:-1], times[-1]
    middle = statistics.median(t.median_us for t in base)
    below, above = slow.low_us - max(t.high_us for t in base), slow.high_us - min(t.low_us for t in base)
    slack = SLACK * delay_us + noise * slow.median_us
    seen = below - slack <= delay_us <= above + slack
    return TimingTest(
        tie=_state(ties, busy),
        delay=_state(seen and below > 0, busy),
        aa_spread=(high - low) / (high + low),
        noise=noise,
        delay_us=delay_us,
        seen_us=slow.median_us - middle,
        seen_low_us=below,
        seen_high_us=above,
    )


def _state(came_out: bool, busy: bool) -> State:
    if busy:
        return "undecided"  # with such noise everything ties, and every delay is seen
    return "held" if came_out else "failed"


def _judged(record: Record) -> Judgement:
    if not isinstance(record.outcome, Judgement) or not record.passed:
        raise KernelwrightError(f"a kernel of the timing self-test did not pass: {record.outcome}")
    return record.outcome


def _time(judgement: Judgement) -> Measurement:
    return next(m for m in judgement.measurements if m.contender == "candidate")


def _candidate(problem: Problem, *, copy: int, steps: int) -> Candidate:
    text = KERNEL.format(delay=CHAIN.format(steps=steps) if steps else "", copy=copy)
    return _made(problem, "cpp", SourceFile(path="kernel.cpp", text=text), None)


def _cuda_candidate(problem: Problem, *, copy: int, steps: int) -> Candidate:
    text = CUDA_KERNEL.format(delay=CUDA_CHAIN.format(steps=steps) if steps else "", copy=copy)
    return _made(problem, "cuda", SourceFile(path="kernel.cu", text=text), Launch(grid=(64, 1, 1), block=(32, 1, 1)))


def _made(problem: Problem, language: str, source: SourceFile, launch: Launch | None) -> Candidate:
    bound = tuple(Binding(kind="tensor", name=name, ctype="float") for name in ("x", "out"))
    plan = LaunchPlan(steps=(Step(symbol="kernel", arguments=bound, launch=launch),))
    return Candidate(problem=digest(problem), language=language, sources=(source,), plan=plan)
