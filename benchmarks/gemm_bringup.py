"""First contact of the matrix-product kernels with an H200: are they right, and how fast beside torch and cuBLASLt.

    python benchmarks/gemm_bringup.py --prepare --binaries .carry/gemm          # anywhere: compiles, needs no device
    python benchmarks/gemm_bringup.py --out FOLDER --binaries .carry/gemm       # on the device: under eight minutes
    python benchmarks/gemm_bringup.py --variants --limit 100 --out FOLDER       # which changes pay: a table

First every kind of kernel on small shapes (is it right?), then shapes of every class with the schedules that the model
ranks first (is it fast?). What fails or hangs is named, its worker replaced, and the rest goes on. Prints one line for
each shape and a table at the end; writes bringup.json and log.txt to FOLDER after every shape. `--variants` takes one
schedule for each shape and what differs from it in one thing (gemm_variants.py); its table has how much faster each of
them is than that one, and its points fit the model too (gemm_fit.py). Packages that are missing on the device are taken
from .carry/ (`pip install --no-deps --target .carry pyelftools`).
Exit status: how many points failed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
for folder in (ROOT, ROOT / "src", ROOT / ".carry"):
    sys.path.insert(0, str(folder))

from benchmarks.gemm_variants import VARIED, table, variants  # noqa: E402

from kernelwright.experts.gemm import Direct, Dot, Hopper, Product, Schedule, Warps, fault, spell  # noqa: E402
from kernelwright.experts.gemm.model import time_us  # noqa: E402
from kernelwright.experts.gemm.space import ranked  # noqa: E402
from kernelwright.languages.devices import cuda_target  # noqa: E402
from kernelwright.run.gemm.binaries import Binary, Point, build  # noqa: E402
from kernelwright.run.gemm.measuring import Measuring, Outcome  # noqa: E402
from kernelwright.types import replace  # noqa: E402

LIMIT_S = 460.0
TARGET = "sm_90a"
RIGHT: tuple[tuple[Product, tuple[Schedule, ...]], ...] = (
    (
        Product(m=192, n=256, k=320),
        (
            Warps(bm=64, bn=64, bk=64),
            Warps(bm=32, bn=32, bk=64, warps_k=2, splits=2),
            Warps(bm=32, bn=64, bk=64, parts=2),
            Direct(bm=16, bn=16, warps=1),
            Direct(bm=32, bn=64, warps=4),
            Direct(bm=32, bn=32, warps=2, splits=2, depth=2),
            Hopper(bm=64, bn=64, consumers=1, box_store=False, persistent=False),
            Hopper(bm=64, bn=64, consumers=1),
            Hopper(bm=128, bn=128, consumers=2),
            Hopper(bm=192, bn=128, stages=3, consumers=3),
            Hopper(bm=64, bn=128, pingpong=True),
            Hopper(bm=64, bn=64, consumers=1, splits=4, box_store=False, persistent=False),
            Hopper(bm=64, bn=64, consumers=1, parts=2, box_store=False),
            Hopper(bm=64, bn=64, consumers=1, swap=True),
            Hopper(bm=64, bn=64, consumers=1, swap=True, splits=2, box_store=False, persistent=False),
        ),
    ),
    (
        Product(m=520, n=776, k=584),
        (
            Warps(bm=128, bn=128, bk=32, warps_m=2, warps_n=4, stages=3),
            Hopper(bm=128, bn=256, stages=3),
            Hopper(bm=256, bn=128, stages=3),
            Hopper(bm=128, bn=128, cluster_m=2),
            Hopper(bm=128, bn=128, cluster_n=2),
            Hopper(bm=128, bn=64, cluster_m=2, cluster_n=2, pingpong=True),
            Hopper(bm=128, bn=128, pingpong=True, stages=4),
        ),
    ),
    (
        Product(m=5, n=1001, k=777),
        (
            Warps(bm=16, bn=32, bk=64, warps_m=1),
            Dot(rows=5, columns=4),
            Warps(bm=16, bn=16, bk=64, warps_m=1, warps_n=1, splits=4),
        ),
    ),
    (
        Product(m=4, n=4096, k=4096),
        (
            Dot(rows=4, columns=4, warps=4),
            Dot(rows=4, columns=4, warps=8, warps_k=4),
            Direct(bm=16, bn=32, warps=4, splits=16, depth=1),
            Hopper(bm=64, bn=8, consumers=1, swap=True, stages=8),
        ),
    ),
    (
        Product(m=256, n=256, k=256, bias=True, activation="gelu"),
        (
            Warps(),
            Hopper(bm=64, bn=64, consumers=1),
            Hopper(bm=64, bn=64, consumers=1, splits=2, box_store=False, persistent=False),
        ),
    ),
    (Product(m=128, n=192, k=256, batch=3, alpha=0.5, beta=2.0), (Warps(), Hopper(bm=128, bn=64))),
    (
        Product(m=192, n=256, k=320, dtype="bfloat16"),
        (Warps(), Hopper(bm=128, bn=128), Hopper(bm=64, bn=128, pingpong=True)),
    ),
)
"""Every kind of kernel; each runs with both layouts of B."""
FAST = (
    (64, 64, 64), (64, 64, 256), (64, 64, 1024), (64, 64, 4096), (64, 64, 16384), (128, 128, 2048), (256, 256, 256),
    (64, 4096, 64), (64, 1024, 1024), (512, 512, 512), (256, 1024, 1024), (1024, 1024, 512), (64, 4096, 4096),
    (1024, 1024, 1024), (512, 2048, 1024), (4096, 4096, 64), (2048, 2048, 1024), (1024, 2048, 4096),
    (2048, 2048, 2048), (128, 16384, 8192), (4096, 4096, 4096), (8192, 8192, 8192), (16384, 12288, 256),
)  # fmt: skip
"""Shapes of every class, smallest first."""
LARGE = (
    Hopper(bm=128, bn=256, stages=4, cluster_m=2),
    Hopper(bm=256, bn=128, stages=4, cluster_n=2),
    Hopper(bm=128, bn=128, stages=6, pingpong=True, cluster_m=2),
)
SMALL = (
    Warps(bm=32, bn=32, bk=64, stages=4),
    Warps(bm=64, bn=64, bk=64, stages=4, warps_k=2),
    Warps(bm=32, bn=32, bk=128, stages=3, warps_k=2, splits=4),
)
"""What others found good, beside what the model ranks first: the first call shows how far it can be trusted."""


def both(product: Product, schedules: tuple[Schedule, ...]) -> list[Point]:
    """The same schedules with both layouts; a dot product's columns mean something else in each."""
    points = []
    for schedule in schedules:
        for layout in ("nk",) if isinstance(schedule, Direct) else ("nk", "kn"):
            fitting = (
                replace(schedule, columns=64, warps_k=1) if isinstance(schedule, Dot) and layout == "kn" else schedule
            )
            points.append(Point(product=replace(product, layout=layout), schedule=fitting))
    return points


def work(count: int) -> list[tuple[Product, list[Point], bool]]:
    """(product, points, whether cuBLASLt takes part) in the order in which they run."""
    found = [(product, both(product, schedules), False) for product, schedules in RIGHT]
    for m, n, k in FAST:
        product = Product(m=m, n=n, k=k)
        points = []
        for layout in ("nk", "kn"):
            here = replace(product, layout=layout)
            known = LARGE if product.flops > 1e10 else SMALL if product.flops < 1e9 else ()
            chosen = dict.fromkeys((*ranked(here, count), *(s for s in known if not fault(s, here))))
            points += [Point(product=here, schedule=schedule) for schedule in chosen]
        found.append((product, points, True))
    return found


def varied() -> list[tuple[Product, list[Point], bool]]:
    """The same of schedules that differ in one thing each."""
    return [
        (
            product,
            [Point(product=replace(product, layout=layout), schedule=s) for layout, s in variants(product).values()],
            True,
        )
        for product in VARIED
    ]


def line_of(outcome: Outcome) -> str:
    """One shape's result in a line."""
    p = outcome.product
    head = f"{p.m:>6} {p.n:>6} {p.k:>6} {p.dtype[:5]:5}"
    failed = [row for row in outcome.rows if row.failed]
    wrong = f"  FAILED {len(failed)} of {len(outcome.rows)}" if failed else ""
    best, torch, lt = outcome.best(), outcome.baseline("torch"), outcome.baseline("cublaslt_tuned")
    if best is None or best.us is None or torch is None:
        return f"{head}  nothing was timed{wrong}: {failed[0].failed[:120] if failed else ''}"
    against = f" lt {lt:9.2f} ({lt / best.us:4.2f}x)" if lt else ""
    times = f"ours {best.us:9.2f} us torch {torch:9.2f} ({torch / best.us:4.2f}x){against}"
    return f"{head} {times}  {best.layout} {best.schedule}{wrong}"


def main() -> int:
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, (ROOT / "src", ROOT / ".carry", ROOT)))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--binaries", type=Path, default=ROOT / ".carry" / "gemm")
    parser.add_argument(
        "--variants", action="store_true", help="one schedule for each shape, and what differs in one thing"
    )
    parser.add_argument("--prepare", action="store_true", help="only compile")
    parser.add_argument("--workers", type=int, default=min(14, os.cpu_count() or 1))
    parser.add_argument("--top", type=int, default=4, help="schedules for each shape and layout")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds after which no new shape begins")
    given = parser.parse_args()
    begun = time.monotonic()
    todo = varied() if given.variants else work(given.top)
    points = [point for _, found, _ in todo for point in found]
    binaries = build(
        points,
        cuda_target(TARGET),
        given.binaries,
        workers=given.workers,
        told=lambda done, count: print(f"\rcompiled {done} of {count}", end="", file=sys.stderr),
    )
    faults = {point: binary.fault for point, binary in binaries.items() if binary.fault}
    spilling = sum(1 for binary in binaries.values() if binary.spill_bytes)
    made = len({binary.path for binary in binaries.values()})
    took = time.monotonic() - begun
    print(f"\n{len(points)} points, {made} binaries, {len(faults)} refused, {spilling} spill; {took:.0f} s")
    for point, why in faults.items():
        print(f"refused: {point.product.layout} {spell(point.schedule)}: {why[:200]}")
    return 0 if given.prepare else measure(todo, binaries, given.out, begun + given.limit)


def measure(
    todo: list[tuple[Product, list[Point], bool]], binaries: dict[Point, Binary], out: Path, until: float
) -> int:
    out.mkdir(parents=True, exist_ok=True)
    lines, kept, tables, failures = [], [], list[str](), 0
    with (out / "log.txt").open("a") as log, Measuring() as measuring:
        print(measuring.device, flush=True)
        for product, points, library in todo:
            if time.monotonic() > until:
                lines.append("the time was up")
                break
            outcome = measuring.measure(
                product, [(p, binaries[p]) for p in points], baselines=("torch", "cublaslt") if library else ("torch",),
                told=lambda doing: print(doing, file=log, flush=True),
            )  # fmt: skip
            line = line_of(outcome)
            print(line, flush=True)
            for row in outcome.rows:
                if row.failed:
                    failures += 1
                    print(f"    {row.layout} {row.schedule}: {row.failed[:160]}", flush=True)
            lines.append(line)
            tables += [table(outcome)] if product in VARIED else []
            predicted = {f"{p.product.layout} {spell(p.schedule)}": time_us(p.schedule, p.product) for p in points}
            kept.append({**asdict(outcome), "predicted_us": predicted})
            (out / "bringup.json").write_text(json.dumps({"device": measuring.device, "outcomes": kept}, indent=1))
    print("\n".join(["", *tables, "", "summary", *lines]), flush=True)
    return min(failures, 100)


if __name__ == "__main__":
    sys.exit(main())
