"""Measures the facts that the judge's protocol rests on, and prints the rows of docs/facts.md.

    python benchmarks/facts.py

Each number is the median of eager PyTorch calls in a process of its own, under the variables named.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime

from kernelwright import languages
from kernelwright.judge.conditions import environment

PROGRAM = """
import statistics, sys, time, torch
torch.set_num_threads(int(sys.argv[2]))
x = torch.randn(int(sys.argv[1]) // 4 // 512, 512)
times = []
with torch.inference_mode():
    for turn in range(60):
        start = time.perf_counter()
        torch.softmax(x, -1)
        times.append((time.perf_counter() - start) * 1e6)
        time.sleep(0.002)
print(statistics.median(times[10:]))
"""
KEEP = ("MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_")
BIND = ("OMP_PROC_BIND", "OMP_PLACES")


def softmax_us(size_bytes: int, threads: int, *, without: tuple[str, ...]) -> float:
    """Returns the median microseconds of eager softmax under the judge's variables less some."""
    ours = {name: text for name, text in environment(threads).items() if name not in without}
    variables = {name: text for name, text in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "MALLOC_"))}
    command = [sys.executable, "-c", PROGRAM, str(size_bytes), str(threads)]
    done = subprocess.run(command, env={**variables, **ours}, capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    """Prints one table row for each fact."""
    target = languages.detect_target()
    where = (
        f"{target.architecture}, {target.threads} threads | {datetime.now(UTC):%Y-%m-%d} | `python benchmarks/facts.py`"
    )
    for mib in (1, 8, 32):
        kept = softmax_us(mib << 20, target.threads, without=())
        given_back = softmax_us(mib << 20, target.threads, without=KEEP)
        text = f"{given_back:.0f} µs with glibc's defaults, {kept:.0f} µs when freed memory is kept"
        print(f"| eager softmax of {mib} MiB: page faults of its output | {text} | {where} |")
    bound = softmax_us(1 << 20, target.threads, without=())
    unbound = softmax_us(1 << 20, target.threads, without=BIND)
    text = f"{unbound:.0f} µs unbound, {bound:.0f} µs with each thread on a processor of its own"
    print(f"| eager softmax of 1 MiB after a pause of 2 ms: binding threads | {text} | {where} |")


if __name__ == "__main__":
    main()
