"""`kernelwright selftest`: prints the judge's own score.

Not here: judging the corpus (selftest).
"""

from __future__ import annotations

import json
import sys
from typing import Any

import click
from rich.text import Text

from kernelwright import codec
from kernelwright.commands.options import err, out
from kernelwright.console import Progress
from kernelwright.selftest import Finding, Score, TimingTest, selftest


@click.command(name="selftest", short_help="Print the judge's own score: caught of planted, false alarms.")
@click.option(
    "--device",
    type=click.Choice(["cpu", "emulated", "cuda"]),
    default="cpu",
    show_default=True,
    help="emulated: CUDA C++ without a GPU, and no times.",
)
@click.option("--limit", type=click.IntRange(1), help="At most so many kernels of each kind: a quick look.")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Judges at a time.")
@click.option("--no-timing", is_flag=True, help="Leave the timing self-test out.")
@click.option("--json", "as_json", is_flag=True, help="Print the score as JSON.")
def selftest_command(device: str, limit: int | None, workers: int, no_timing: bool, as_json: bool) -> None:
    """Let the judge judge what it must catch, what it must let pass, and kernels whose time is known.

    Exit status 0: every cheat and every planted bug was caught, every honest kernel passed, copies of one kernel tied
    and a kernel slowed by a known delay lost by it. 1: not so.
    """
    with Progress(err) as progress:
        score = selftest(device=device, limit=limit, workers=workers, with_timing=not no_timing, tell=progress.step)
    if as_json:
        click.echo(json.dumps(plain(score), indent=1))
    else:
        for line in lines(score):
            out.print(line, soft_wrap=True)
    sys.exit(0 if score.holds else 1)


def plain(score: Score) -> dict[str, Any]:
    """Returns the score as JSON data."""
    counts: dict[str, Any] = {}
    for name, kind in (("cheats", "cheat"), ("mutants", "mutant")):
        found = score.of(kind)  # type: ignore[arg-type]
        counts[name] = {"planted": len(found), "caught": sum(f.right for f in found)}
    honest = score.of("honest")
    counts["honest"] = {"judged": len(honest), "passed": sum(f.right for f in honest)}
    timing = score.timing
    return {
        **counts,
        "missed": list(score.missed),
        "false_alarms": list(score.false_alarms),
        "caught_elsewhere": [f.name for f in _elsewhere(score)],
        "skipped": list(score.skipped),
        "aa_spread": timing.aa_spread if timing else None,
        "timing": _plain_timing(timing) if timing else None,
        "target": codec.to_data(score.target),
        "seconds": round(score.seconds, 1),
        "holds": score.holds,
    }


def _plain_timing(timing: TimingTest) -> dict[str, Any]:
    names = ("tie", "delay", "noise", "delay_us", "seen_us", "seen_low_us", "seen_high_us")
    return {name: getattr(timing, name) for name in names}


def _elsewhere(score: Score) -> list[Finding]:
    """Returns what was caught by another check than the one it names."""
    planted = (f for f in score.findings if f.kind != "honest")
    return [f for f in planted if f.right and f.expected and f.found not in f.expected]


def lines(score: Score) -> list[Text]:
    """Returns the score as lines for people."""
    made = []
    for name, kind in (("cheats", "cheat"), ("mutants", "mutant")):
        found = score.of(kind)  # type: ignore[arg-type]
        caught = sum(f.right for f in found)
        made.append(Text(f"{name:<8} {caught} of {len(found)} caught", "green" if caught == len(found) else "bold red"))
    honest = score.of("honest")
    alarms = len(score.false_alarms)
    made.append(Text(f"honest   {alarms} false alarms in {len(honest)}", "bold red" if alarms else "green"))
    made += [Text(f"missed: {f.name} (expected {' or '.join(f.expected)})", "bold red") for f in _missed(score)]
    made += [Text(f"falsely refused: {f.name} ({f.found})", "bold red") for f in score.of("honest") if not f.right]
    for finding in _elsewhere(score):
        made.append(Text(f"caught by another check: {finding.name} ({finding.found})", "yellow"))
    if score.skipped:
        made.append(Text(f"not tried on this machine: {', '.join(score.skipped)}", "dim"))
    if score.timing:
        made += _timing_lines(score.timing)
    return made


def _missed(score: Score) -> list[Finding]:
    return [f for f in score.findings if not f.right and f.kind != "honest"]


def _timing_lines(timing: TimingTest) -> list[Text]:
    styles = {"held": "green", "failed": "bold red", "undecided": "yellow"}
    tie = f"copies of one kernel: A/A spread {100 * timing.aa_spread:.1f} %, noise {100 * timing.noise:.1f} %"
    seen = f"{timing.seen_us:.1f} µs ({timing.seen_low_us:.1f} to {timing.seen_high_us:.1f})"
    delay = f"a kernel slowed by {timing.delay_us:.1f} µs lost by {seen}"
    return [Text(f"{tie}: {timing.tie}", styles[timing.tie]), Text(f"{delay}: {timing.delay}", styles[timing.delay])]
