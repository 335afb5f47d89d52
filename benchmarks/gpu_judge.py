"""The judge on this machine's GPU: what it costs, how well it repeats, what the device can do.

    python benchmarks/gpu_judge.py [--out docs/results/judge-gpu.md] [--times 20]

Writes tables with device, driver, versions and date. Every number is made by this command; nothing is copied by hand.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.gpu import device_kernels as kernels  # noqa: E402

from kernelwright import languages  # noqa: E402
from kernelwright.judge import Judge, policies_for  # noqa: E402
from kernelwright.types import Failure, Judgement, Policy, Problem, Record, Target, replace  # noqa: E402

SIZES = {
    "vector_add, 4 MiB each": (kernels.vector_add(1 << 20), kernels.add_vectors(1 << 20)),
    "softmax 8192 x 4096": (kernels.softmax(8192, 4096), kernels.softmax_kernel(8192, 4096)),
    "softmax 32768 x 8192": (kernels.softmax(32768, 8192), kernels.softmax_kernel(32768, 8192, block=512)),
}


def repeated(problem: Problem, text: str, target: Target, policy: Policy, times: int) -> list[Record]:
    """Returns the records of one kernel judged again and again; each has a text of its own, so builds count too."""
    with Judge(problem, target) as judge:
        judge.prepare(policy)
        made = [kernels.candidate(problem, f"// {policy.name} {n}\n{text}") for n in range(times)]
        return [next(judge.judge([candidate], policy)) for candidate in made]


def row(name: str, policy: Policy, records: list[Record]) -> str:
    """Returns one line of the table of repeated judgements."""
    judged = [r.outcome for r in records if isinstance(r.outcome, Judgement) and r.outcome.comparisons]
    ratios = [j.comparisons[0].speedup for j in judged]
    times = [next(m.median_us for m in j.measurements if m.contender == "candidate") for j in judged]
    middle = statistics.median(ratios)
    spread = max(abs(ratio / middle - 1.0) for ratio in ratios)
    noise = statistics.median(j.noise or 0.0 for j in judged)
    floor_us = judged[0].floor_us or 0.0
    seconds = [record.duration_s for record in records]
    return (
        f"| {name} | {policy.name} | {len(ratios)} of {len(records)} | {statistics.median(times):.2f} | "
        f"{100 * floor_us / statistics.median(times):.0f} % | {middle:.3f}x | ±{100 * spread:.2f} % | "
        f"{100 * noise:.2f} % | {seconds[0]:.2f} | {statistics.median(seconds[1:] or seconds):.2f} |"
    )


def faults(target: Target) -> list[str]:
    """Returns the lines of the table of faults: what the judge said, and how long until the next candidate passed."""
    count, lines = 1 << 18, []
    problem = kernels.vector_add(count)
    quick = replace(policies_for(target)["screen"], name="quick", rounds=2, call_deadline_s=2.0)
    right = kernels.candidate(problem, kernels.add_vectors(count))
    with Judge(problem, target) as judge:
        for name in kernels.FAULTS:
            record = next(judge.judge([kernels.candidate(problem, kernels.faulty(name, count))], quick))
            replaced = len(judge._device.replaced_s) if judge._device else 0
            after = next(judge.judge([right], quick))
            last_s = judge._device.replaced_s[-1] if judge._device and replaced > 1 else 0.0
            said = record.outcome
            word = (
                f"{said.stage}: {said.kind}"
                if isinstance(said, Failure)
                else next((f"check: {c.name}" for c in said.verdict.checks if not c.passed), "passed")
            )
            lines.append(f"| {name} | {word} | {'yes' if after.passed else 'NO'} | {last_s:.2f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs/results/judge-gpu.md")
    parser.add_argument("--times", type=int, default=20)
    given = parser.parse_args()
    target = languages.detect_device_target()
    versions = ", ".join(f"{name} {version}" for name, version in target.toolchain)
    today = datetime.datetime.now(datetime.UTC).date()
    lines = [
        "# The judge on a GPU",
        "",
        f"`python benchmarks/gpu_judge.py --times {given.times}`, {target.device} ({target.architecture}), {today},",
        f"{versions}.",
        "",
        "One honest kernel judged again and again, each time built anew. Ratio: against a CUDA graph of eager.",
        "",
        "| kernel | policy | passed | µs | of the floor | ratio | all within | noise | first, s | usual, s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    policies = policies_for(target)
    for name, (problem, text) in SIZES.items():
        for policy in (policies["screen"], policies["measure"]):
            lines.append(row(name, policy, repeated(problem, text, target, policy, given.times)))
            print(lines[-1], flush=True)
    lines += [
        "",
        "## Faults",
        "",
        "| fault | the judge said | next kernel passed | last replacement, s |",
        "|---|---|---|---|",
    ]
    lines += faults(target)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
