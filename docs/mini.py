"""kernelwright in miniature: the whole loop on one problem in one file. Read this first.

    python docs/mini.py            # row softmax, 8 candidates, less than a minute

The parts have the names that they have in the real thing: a *template* emits sealed *candidates*, a
*strategy* asks and is told, a *judge* checks and times in a *runner* process, a *store* keeps every
*record*, and a report reads them. What the miniature leaves out: locking the runner in, inspection,
torch.compile as baselines, fresh contents for each round, resume, and every problem but one.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np
import torch

ROWS, COLUMNS = 2048, 1024


# ---- values: frozen, with an identity derived from their fields -----------------------------------
@dataclass(frozen=True)
class Candidate:
    """One attempt: source text, and the schedule that made it."""

    source: str
    point: tuple[tuple[str, int], ...]

    @property
    def digest(self) -> str:
        """Equal for equal sources, in every process."""
        return hashlib.sha256(self.source.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Record:
    """One evaluation: a failure in words, or a speedup with its interval."""

    candidate: str
    failure: str = ""
    error: float = 0.0
    speedup: float = 0.0
    low: float = 0.0
    high: float = 0.0


# ---- an expert: a space, and a function from its points to sources ---------------------------------
SPACE = {"threads": (2, 1), "passes": (3, 2), "width": (16, 8, 4)}
SOURCE = """
static inline float exponential(float x) {{  // 2^n * e^r, r in [-ln2/2, ln2/2]; x <= 0 here
    x = x < -87.f ? -87.f : x;
    const float n = (x * 1.44269504f + 12582912.f) - 12582912.f;
    const float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = ((1.9875691e-4f * r + 1.3981999e-3f) * r + 8.3334519e-3f) * r + 4.1665796e-2f;
    p = (p * r + 1.6666666e-1f) * r + 0.5f;
    return (p * r * r + r + 1.f) * __builtin_bit_cast(float, ((int)n + 127) << 23);
}}
extern "C" void softmax(const float* x, float* out) {{
#pragma omp parallel for num_threads({threads})
    for (int row = 0; row < {rows}; ++row) {{
        const float* in = x + (long)row * {columns};
        float* to = out + (long)row * {columns};
        float top = in[0], sum = 0;
#pragma omp simd reduction(max : top) simdlen({width})
        for (int i = 0; i < {columns}; ++i) top = in[i] > top ? in[i] : top;
#pragma omp simd reduction(+ : sum) simdlen({width})
        for (int i = 0; i < {columns}; ++i) {{ const float e = exponential(in[i] - top); {keep} sum += e; }}
#pragma omp simd simdlen({width})
        for (int i = 0; i < {columns}; ++i) to[i] = {value} / sum;
    }}
}}
"""


def emit(point: tuple[tuple[str, int], ...]) -> Candidate:
    """Returns the candidate of one point: either exp is kept between passes, or computed again."""
    choice = dict(point)
    keep, value = ("to[i] = e;", "to[i]") if choice["passes"] == 3 else ("", "exponential(in[i] - top)")
    return Candidate(SOURCE.format(**choice, rows=ROWS, columns=COLUMNS, keep=keep, value=value), point)


# ---- a strategy: asks for points, is told records, never sees the judge ----------------------------
class RandomSearch:
    """Proposes points it has not proposed before, in an order fixed by its seed."""

    def __init__(self, seed: int) -> None:
        points: list[tuple[tuple[str, int], ...]] = [()]
        for name, values in SPACE.items():
            points = [(*point, (name, value)) for point in points for value in values]
        random.Random(seed).shuffle(points)
        self.left, self.best = points, 0.0

    def ask(self) -> Candidate:
        """Returns the next candidate."""
        return emit(self.left.pop())

    def tell(self, record: Record) -> None:
        """Learns how a candidate did; a real strategy would use it."""
        self.best = max(self.best, record.speedup)


# ---- the runner: a process that holds inputs, outputs and the kernel, and nothing else --------------
def runner(library: str, inputs: str, outputs: str) -> None:
    """Answers each line on standard input with one call's microseconds; the output is poisoned first."""
    x = np.memmap(inputs, np.float32, "r", shape=(ROWS, COLUMNS))
    out = np.memmap(outputs, np.float32, "r+", shape=(ROWS, COLUMNS))
    kernel = ctypes.CDLL(library).softmax
    for _ in sys.stdin:
        out[:] = np.nan
        start = time.perf_counter()
        kernel(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(out.ctypes.data))
        print((time.perf_counter() - start) * 1e6, flush=True)


# ---- the judge: builds, checks against float64, times in alternating blocks ------------------------
def judge(candidate: Candidate, folder: Path, *, rounds: int = 15) -> Record:
    """Returns a record; the candidate's faults are values in it."""
    source, library = folder / f"{candidate.digest}.cpp", folder / f"{candidate.digest}.so"
    source.write_text(candidate.source)
    flags = ["-O3", "-march=native", "-fopenmp", "-fPIC", "-shared", "-fno-trapping-math"]
    built = subprocess.run(
        ["g++", *flags, str(source), "-o", str(library)], capture_output=True, text=True, check=False
    )
    if built.returncode:
        return Record(candidate.digest, failure=next(line for line in built.stderr.splitlines() if "error: " in line))
    x = torch.randn(ROWS, COLUMNS) * 3  # fresh for every candidate
    (folder / "x").write_bytes(x.numpy().tobytes())
    (folder / "out").write_bytes(b"\xff" * x.numel() * 4)
    command = [sys.executable, __file__, "runner", str(library), str(folder / "x"), str(folder / "out")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            return examine(candidate, x, folder / "out", lambda: one_call(process), rounds)
        except (BrokenPipeError, ValueError):
            return Record(candidate.digest, failure="the kernel crashed")
        finally:
            process.kill()


def one_call(process: subprocess.Popen[str]) -> float:
    """Returns the microseconds of one call in the runner."""
    assert process.stdin and process.stdout  # noqa: PT018
    process.stdin.write("go\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def examine(candidate: Candidate, x: torch.Tensor, outputs: Path, call: Callable[[], float], rounds: int) -> Record:
    """Checks the candidate's error against the reference's own, then times both in turn."""
    truth = torch.softmax(x.double(), -1)
    own = ((torch.softmax(x, -1) - truth).abs() / truth).max().item()
    times, ratios = [], []
    for turn in range(rounds):
        start = time.perf_counter()
        torch.softmax(x, -1)
        eager = (time.perf_counter() - start) * 1e6
        times.append(call())
        if turn >= 2:  # the first rounds warm both up
            ratios.append(eager / times[-1])
    answer = torch.from_numpy(np.fromfile(outputs, np.float32).reshape(ROWS, COLUMNS)).double()
    error = ((answer - truth).abs() / truth).max().item()
    if not error <= max(8 * own, 5e-7):  # written so that NaN fails
        return Record(candidate.digest, failure=f"error {error:.1e}, the reference's own is {own:.1e}", error=error)
    draw = random.Random(0)
    medians = sorted(median(draw.choices(ratios, k=len(ratios))) for _ in range(1000))
    return Record(candidate.digest, "", error, median(ratios), medians[25], medians[975])


# ---- the loop: ask, judge, store, tell; then the report --------------------------------------------
def main(count: int = 8, seed: int = 0) -> list[Record]:
    """Judges some candidates, prints the table, and returns the records."""
    strategy, records = RandomSearch(seed), []
    with tempfile.TemporaryDirectory() as name, sqlite3.connect(":memory:") as store:
        store.execute("CREATE TABLE record (candidate TEXT PRIMARY KEY, point TEXT, text TEXT)")
        for _ in range(count):
            candidate = strategy.ask()
            record = judge(candidate, Path(name))
            row = (record.candidate, json.dumps(candidate.point), json.dumps(asdict(record)))
            store.execute("INSERT INTO record VALUES (?, ?, ?)", row)
            strategy.tell(record)
            records.append(record)
            result = record.failure or f"{record.speedup:.2f}x  [{record.low:.2f}, {record.high:.2f}] against eager"
            print(f"{dict(candidate.point)!s:48} {result}")
    return records


if __name__ == "__main__":
    runner(*sys.argv[2:]) if sys.argv[1:2] == ["runner"] else main()
