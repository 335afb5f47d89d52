"""Measures what kernelwright itself costs, and writes docs/results/pipeline.md.

    python benchmarks/pipeline.py

Alone on the machine; about two minutes. What it measures: the first line of progress, candidates judged in a minute
with a warm build cache, the parent's memory, and what importing the command line loads.
"""

from __future__ import annotations

import os
import platform
import random
import re
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from kernelwright import capture, experts, languages
from kernelwright.graph import Graph
from kernelwright.judge import Judge
from kernelwright.judge.policies import SCREEN
from kernelwright.types import Candidate, Record

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "results" / "pipeline.md"
SOFTMAX = """
import torch


def softmax(x):
    return torch.softmax(x, dim=-1)
"""
CANDIDATES = 24


def first_line_s() -> float:
    """Returns seconds from the start of `kernelwright optimize` to its first line of progress."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "kernelwright", "optimize", "softmax", "--budget", "1s", "--out", out]
        start = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            assert process.stderr
            os.read(process.stderr.fileno(), 1)
            passed = time.perf_counter() - start
            process.kill()
    return passed


def optimise_and_watch() -> tuple[float, float]:
    """Returns the parent's highest resident memory in MB, and seconds, of a whole `optimize` of softmax."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "kernelwright", "optimize", "softmax", "--budget", "10s", "--out", out]
        start, most = time.perf_counter(), 0
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None:
                most = max(most, high_water_kib(process.pid))
                time.sleep(0.2)
        return most * 1024 / 1e6, time.perf_counter() - start


def high_water_kib(pid: int) -> int:
    """Returns a process's highest resident memory so far."""
    try:
        match = re.search(r"VmHWM:\s*(\d+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(match[1]) if match else 0


def judged_a_minute(count: int = CANDIDATES) -> tuple[float, int]:
    """Returns candidates a minute on a 1 MiB row softmax, builds cached, judge prepared; and how many passed."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "softmax.py")
        source.write_text(SOFTMAX)
        captured = capture.load(f"{source}:softmax", inputs=("float32[512,512]",))
        target = languages.detect_target()
        assert isinstance(captured.graph, Graph)
        (template, *_) = experts.templates(captured.problem, captured.graph, target=target).templates
        candidates: dict[str, Candidate] = {}
        draw = random.Random(0)
        while len(candidates) < count:
            point = tuple((p.name, draw.choice(p.values)) for p in template.space.parameters)
            made = template.emit(point)
            if isinstance(made, Candidate):
                candidates.setdefault(made.sources[0].text, made)
        with languages.Builder(target) as builder:
            builder.build(captured.problem, tuple(candidates.values()))
        with Judge(captured.problem, target) as judge:
            judge.prepare(SCREEN)
            start = time.perf_counter()
            records: list[Record] = list(judge.judge(tuple(candidates.values()), SCREEN))
            passed_s = time.perf_counter() - start
    return 60 * len(records) / passed_s, sum(record.passed for record in records)


def main() -> None:
    """Measures, prints and writes the page."""
    target = languages.detect_target()
    first = sorted(first_line_s() for _ in range(5))[2]
    memory, seconds = optimise_and_watch()
    rate, passed = judged_a_minute()
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, kernelwright.cli; print('torch' in sys.modules)"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    rows = [
        ("first line of progress after `kernelwright optimize`, median of 5", f"{first:.2f} s"),
        (f"candidates judged a minute: SCREEN, 1 MiB row softmax, builds cached, {passed} of {CANDIDATES} passed",
         f"{rate:.0f}"),
        ("highest resident memory of the parent during a whole `optimize softmax --budget 10s`", f"{memory:.0f} MB"),
        ("that command, from start to report, in all", f"{seconds:.0f} s"),
        ("importing kernelwright.cli loads torch", loaded),
    ]  # fmt: skip
    lines = [
        "# What kernelwright itself costs",
        "",
        f"Made by `python benchmarks/pipeline.py` on {datetime.now(UTC):%Y-%m-%d}, alone on the machine.",
        "",
        f"{target.architecture}, {target.threads} threads, {platform.system()} {platform.release()}; "
        + ", ".join(f"{name} {version}" for name, version in target.toolchain),
        "",
        "| what | measured |",
        "|---|---|",
        *(f"| {what} | {number} |" for what, number in rows),
        "",
    ]
    print("\n".join(lines))
    PAGE.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
