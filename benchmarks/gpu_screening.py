"""How many CUDA candidates one device screens in a minute, and how long one takes from source to verdict.

    python benchmarks/gpu_screening.py [--seconds 60] [--captures FOLDER] [--out docs/results/gpu-screening.md]

A stream of distinct candidates (schedules of the experts' CUDA templates for several built-in problems, every sixth of
them with a planted bug) goes through the judge's `screen`, the next ones being built while the device judges; then one
kernel of about a millisecond that memory limits, and one that arithmetic limits, are judged again and again. Every
source is built anew: each holds a number of its own. --captures takes what `benchmarks/gpu.py --capture` has made.
Opening a problem is told apart: it happens once for all of its candidates.
"""

from __future__ import annotations

import argparse
import datetime
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
for place in (ROOT, ROOT / "src", ROOT / ".carry"):
    sys.path.insert(0, str(place))

from benchmarks.gpu import FOLDER, Captures  # noqa: E402
from tests.gpu import device_kernels as kernels  # noqa: E402

from kernelwright import experts, languages  # noqa: E402
from kernelwright.graph import Capture  # noqa: E402
from kernelwright.judge import Judge, policies_for  # noqa: E402
from kernelwright.mutation import mutants  # noqa: E402
from kernelwright.run.result import outcome_name  # noqa: E402
from kernelwright.types import Candidate, Policy, Problem, Record, Target, digest, replace  # noqa: E402

PROBLEMS = ("rms_norm", "gelu_bias", "softmax", "log_sum_exp", "layer_norm")
"""Of benchmarks/gpu_problems.py: of different kinds, 64 to 256 MiB each."""
EACH = 10
WRONG = 6
"""Every so many-th candidate has a planted bug."""
HARMFUL = ("dropped-write", "wrong-operation", "deleted-statement")
"""Classes of bugs that change what is computed; a narrower integer, for one, may hold every value."""
MOST_TRIES = 400
TIMES = 5
TILE = 64
LAST_S = 15.0
"""Kept for the two kernels of a millisecond."""


def product_text(size: int, run: str) -> str:
    """Returns a right product of float32, 64 x 64 tiles in shared memory, 4 x 4 in the registers of each thread."""
    return f"""// kernelwright-launch: product grid={size // TILE},{size // TILE} block=256
// {run}
extern "C" __global__ void __launch_bounds__(256) product(
    const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out) {{
  __shared__ float a[16][{TILE} + 4], b[16][{TILE}];
  const int row0 = blockIdx.y * {TILE}, column0 = blockIdx.x * {TILE}, t = threadIdx.x;
  const int down = t / 16 * 4, across = t % 16 * 4;
  float sum[4][4] = {{}};
  for (int k0 = 0; k0 < {size}; k0 += 16) {{
    for (int i = t; i < {TILE} * 16; i += 256) {{
      a[i % 16][i / 16] = x[(row0 + i / 16) * {size} + k0 + i % 16];
      b[i / {TILE}][i % {TILE}] = y[(k0 + i / {TILE}) * {size} + column0 + i % {TILE}];
    }}
    __syncthreads();
    for (int k = 0; k < 16; ++k)
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) sum[i][j] += a[k][down + i] * b[k][across + j];
    __syncthreads();
  }}
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) out[(row0 + down + i) * {size} + column0 + across + j] = sum[i][j];
}}
"""


def softmax_text(run: str) -> str:
    """Returns the softmax of tests/gpu with a line of its own."""
    return kernels.softmax_kernel(65536, 8192, block=512, line="") + f"\n// {run}\n"


SINGLE: dict[str, tuple[Problem, Callable[[str], str]]] = {
    "product 2048 x 2048 x 2048, float32 (arithmetic)": (
        kernels.matmul(2048),
        lambda run: product_text(2048, run),
    ),
    "softmax 65536 x 8192, 2 GiB read and 2 GiB written (memory)": (kernels.softmax(65536, 8192), softmax_text),
}


def stream(captured: Capture, target: Target, rng: random.Random, run: str, count: int = EACH) -> list[Candidate]:
    """Returns distinct CUDA candidates of a problem's templates, some of them with a planted bug."""
    assert captured.graph is not None
    offered = experts.templates(captured.problem, captured.graph, target=target).templates
    found: dict[str, Candidate] = {}
    for number in range(MOST_TRIES):
        if len(found) == count or not offered:
            break
        template = offered[number % len(offered)]
        point = tuple((p.name, rng.choice(p.values)) for p in template.space.parameters)
        made = template.emit(template.space.default() if number < len(offered) else point)
        if isinstance(made, Candidate) and made.language == "cuda":
            found.setdefault(digest(made), made)
    made_new = [_own(candidate, f"{run} {n}") for n, candidate in enumerate(found.values())]
    return [_broken(c, rng) if n % WRONG == WRONG - 1 else c for n, c in enumerate(made_new)]


def _own(candidate: Candidate, line: str) -> Candidate:
    main, *others = candidate.sources
    return replace(candidate, sources=(replace(main, text=f"{main.text}\n// {line}\n"), *others))


def _broken(candidate: Candidate, rng: random.Random) -> Candidate:
    main, *others = candidate.sources
    bugs = mutants(main, "cuda", operators=HARMFUL)
    return replace(candidate, sources=(rng.choice(bugs).source, *others)) if bugs else candidate


def screened(judge: Judge, candidates: Sequence[Candidate], policy: Policy) -> tuple[list[Record], float]:
    """Returns the records of a stream and the seconds from the first source to the last verdict."""
    begun = time.monotonic()
    records = list(judge.judge(candidates, policy))
    return records, time.monotonic() - begun


def counted(records: Sequence[Record]) -> str:
    """Returns how many passed, and what the others were."""
    names = [outcome_name(record) for record in records]
    return ", ".join(f"{names.count(name)} {name}" for name in sorted(set(names), key=lambda n: -names.count(n)))


def single_rows(
    judge: Judge, name: str, problem: Problem, text: Callable[[str], str], target: Target, left_s: Callable[[], float]
) -> list[str]:
    """Returns the lines of one kernel: screened and judged in full, from source, warm."""
    judge.turn_to(problem)
    policies, lines = policies_for(target), []
    for policy in (policies["screen"], policies["measure"]):
        begun = time.monotonic()
        judge.prepare(policy)
        opening_s, records = time.monotonic() - begun, list[Record]()
        while len(records) < TIMES + 1 and (left_s() > 0 or len(records) < 2):
            made = kernels.candidate(problem, text(f"{os.getpid()} {policy.name} {len(records)}"))
            records += screened(judge, [made], policy)[0]
        warm = [record.duration_s for record in records[1:]]
        times = [
            m.median_us for r in records for m in getattr(r.outcome, "measurements", ()) if m.contender == "candidate"
        ]
        us = f"{statistics.median(times):.0f}" if times else "-"
        lines.append(
            f"| {name} | {policy.name} | {us} | {counted(records)} | {opening_s:.1f} | {records[0].duration_s:.2f} | "
            f"{statistics.median(warm):.2f} | {max(warm):.2f} |"
        )
        print(lines[-1], flush=True)
    return lines


def stream_rows(
    judge: Judge, captures: Captures, names: Sequence[str], target: Target, left_s: Callable[[], float]
) -> list[str]:
    """Returns the lines of the stream, one for each problem and one for all."""
    policy, rng, lines = policies_for(target)["screen"], random.Random(7), list[str]()
    total, seconds, opening = 0, 0.0, 0.0
    for name in names:
        if left_s() < LAST_S and total:
            print(f"out of time before {name}", flush=True)
            break
        captured = captures.ask(name).result()
        candidates = stream(captured, target, rng, f"{os.getpid()} {name}")
        if not candidates:
            continue
        judge.turn_to(captured.problem)
        begun = time.monotonic()
        judge.prepare(policy)
        opening_s = time.monotonic() - begun
        records, took_s = screened(judge, candidates, policy)
        total, seconds, opening = total + len(records), seconds + took_s, opening + opening_s
        rate = 60 * len(records) / took_s
        lines.append(f"| {name} | {len(records)} | {counted(records)} | {opening_s:.1f} | {took_s:.2f} | {rate:.0f} |")
        print(lines[-1], flush=True)
    if total:
        with_opening = 60 * total / (seconds + opening)
        lines.append(f"| all | {total} | | {opening:.1f} | {seconds:.2f} | {60 * total / seconds:.0f} |")
        lines += ["", f"With opening the problems counted: {with_opening:.0f} a minute."]
    return lines


def main(words: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS))
    parser.add_argument("--captures", type=Path, default=FOLDER / "captures")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/results/gpu-screening.md")
    given = parser.parse_args(words)
    target = languages.detect_device_target()
    versions = ", ".join(f"{name} {version}" for name, version in target.toolchain)
    captures, begun = Captures(given.captures), time.monotonic()
    left_s: Callable[[], float] = lambda: given.seconds - (time.monotonic() - begun)  # noqa: E731
    lines = [
        "# Screening on a GPU",
        "",
        f"`python benchmarks/gpu_screening.py --seconds {given.seconds:g}`, {target.device} ({target.architecture}),",
        f"{datetime.datetime.now(datetime.UTC).date()}, {versions}; {target.threads} processors.",
        "",
        "Distinct CUDA candidates, built while the device judges (policy `screen`); every sixth has a planted bug.",
        "",
        "| problem | candidates | outcomes | opening, s | all of them, s | a minute |",
        "|---|---|---|---|---|---|",
    ]
    try:
        (first, _), *_ = SINGLE.values()
        with Judge(first, target) as judge:
            lines += stream_rows(judge, captures, given.problems, target, left_s)
            lines += [
                "",
                "One kernel, from source to verdict, each time built anew.",
                "",
                "| kernel | policy | µs | outcomes | opening, s | first, s | usual, s | longest, s |",
                "|---|---|---|---|---|---|---|---|",
            ]
            for name, (problem, text) in SINGLE.items():
                lines += single_rows(judge, name, problem, text, target, left_s)
    finally:
        captures.close()
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
