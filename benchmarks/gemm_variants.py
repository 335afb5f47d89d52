"""For each shape a schedule of Hopper's family and what differs from it in one thing: which changes pay, side by side.

Used by gemm_bringup.py, whose measured times `table` puts next to each other.
"""

from __future__ import annotations

from kernelwright.experts.gemm import Direct, Dot, Hopper, Product, Schedule, fault, spell
from kernelwright.run.gemm.measuring import Outcome
from kernelwright.types import replace

SINGLE = Hopper(bm=64, bn=64, consumers=1, stages=8, persistent=False)
WIDE = Hopper(bm=128, bn=256, stages=4, persistent=False, cluster_m=2)
MIDDLE = Hopper(bm=64, bn=128, consumers=1, stages=8, persistent=False, cluster_m=2)
SQUARE = Hopper(bm=128, bn=128, stages=6, persistent=False, cluster_n=2)
STREAM = Hopper(bm=64, bn=64, consumers=1, splits=2, stages=12, persistent=False)
LONG = Hopper(bm=128, bn=128, stages=6, pingpong=True, cluster_m=2)
BASES: dict[tuple[int, int, int], tuple[Schedule, ...]] = {
    (512, 512, 512): (SINGLE,),
    (256, 1024, 1024): (replace(SINGLE, stages=13),),
    (64, 1024, 1024): (
        Hopper(bm=64, bn=16, consumers=1, swap=True, stages=16, persistent=False),
        Direct(bm=32, bn=32, splits=4, depth=1),
    ),
    (1024, 1024, 512): (MIDDLE,),
    (1024, 1024, 1024): (MIDDLE, Hopper(bm=128, bn=128, stages=4, splits=2, persistent=False)),
    (512, 2048, 1024): (MIDDLE,),
    (64, 4096, 4096): (STREAM,),
    (2048, 2048, 1024): (WIDE,),
    (1024, 2048, 4096): (SQUARE,),
    (2048, 2048, 2048): (WIDE,),
    (128, 16384, 8192): (SQUARE,),
    (16384, 12288, 256): (LONG,),
    (4, 4096, 4096): (
        Hopper(bm=64, bn=8, consumers=1, swap=True, stages=16, persistent=False),
        Direct(bm=16, bn=32, depth=8),
    ),
    (5, 1001, 777): (Dot(rows=5, columns=1, warps=8, warps_k=2),),
    (520, 776, 584): (replace(SINGLE, stages=10),),
    (7, 32001, 4096): (Hopper(bm=64, bn=8, consumers=1, swap=True, stages=16, persistent=False, box_store=False),),
    (4096, 4096, 64): (Hopper(bm=128, bn=256),),
    (4096, 4096, 4096): (LONG,),
    (8192, 8192, 8192): (Hopper(bm=128, bn=192, stages=5, cluster_m=2),),
}
"""What is thought best for each shape, worst losses first; `variants` adds what differs."""
VARIED = tuple(Product(m=m, n=n, k=k) for m, n, k in BASES)
Named = dict[str, tuple[str, Schedule]]


def variants(product: Product) -> Named:
    """Returns layouts and schedules by name: each base, and what differs from it in one thing and is possible."""
    named: Named = {}
    for number, base in enumerate(BASES[product.m, product.n, product.k]):
        first = f"base{number + 1}" if number else "base"
        layout = "nk" if isinstance(base, Direct | Dot) or product.n % 8 else "kn"
        named[first] = (layout, base)
        for name, other in _differing(base, product):
            named[f"{first} {name}"] = (layout, other)
        if layout == "kn":
            named[f"{first} nk"] = ("nk", base)
    found: Named = {}
    for name, (layout, schedule) in named.items():
        here = replace(product, layout=layout)
        deepest = _fitting(schedule, here)
        if not fault(deepest, here) and (layout, deepest) not in found.values():
            found[name] = (layout, deepest)
    return found


def _fitting(schedule: Schedule, product: Product) -> Schedule:
    """The same with no more stages than there is memory for."""
    while isinstance(schedule, Hopper) and schedule.stages > 2 and "shared memory" in fault(schedule, product):
        schedule = replace(schedule, stages=schedule.stages - 1)
    return schedule


def _differing(base: Schedule, product: Product) -> list[tuple[str, Schedule]]:
    found: list[tuple[str, Schedule]] = []
    if isinstance(base, Dot):
        found += [(f"{c} columns", replace(base, columns=c)) for c in (2, 4)]
        found += [("no shared k", replace(base, warps_k=1)), ("more shared k", replace(base, warps_k=4, columns=2))]
    if isinstance(base, Direct):
        found += [(f"splits {n}", replace(base, splits=n)) for n in (1, 2, 4, 8) if n != base.splits]
        found += [("8 warps", replace(base, warps=8)), ("bn 64", replace(base, bn=64))]
    return found if not isinstance(base, Hopper) else list(_of_hopper(base, product))


def _of_hopper(base: Hopper, product: Product) -> list[tuple[str, Hopper]]:
    plain = replace(base, cluster_m=1, cluster_n=1, splits=1, pingpong=False, persistent=False)
    shapes = ((1, 1), (2, 1), (1, 2), (4, 1), (1, 4), (2, 2))
    clusters = [
        (f"cluster {m}x{n}", replace(base, splits=1, cluster_m=m, cluster_n=n))
        for m, n in (shapes if product.flops > 2e9 else shapes[:3])
        if (m, n) != (base.cluster_m, base.cluster_n)
    ]
    if base.pingpong or base.persistent:
        stores = [("1 buffer", replace(base, store_buffers=1)), ("4 buffers", replace(base, store_buffers=4, stages=5))]
        orders = [
            ("along n", replace(base, along_n=True)),
            ("curve", replace(base, curve=True)),
            ("group 16", replace(base, group=16)),
        ]
        return [
            *stores,
            *orders,
            *clusters[:3],
            ("64 x 256", replace(base, bm=64, bn=256, stages=5)),
            ("bn 256", replace(base, pingpong=False, bn=256)),
        ]
    many = [("persistent", replace(base, persistent=True))] if base.splits == 1 else []
    many += [
        ("plain store", replace(base, box_store=False)),
        ("half the stages", replace(base, stages=base.stages // 2)),
    ]
    shares = [(f"splits {n}", replace(plain, splits=n)) for n in (2, 4, 8) if n != base.splits]
    tiles = [(f"bn {bn}", replace(base, bn=bn)) for bn in (base.bn // 2, base.bn * 2)]
    return [*many, *shares, *clusters, *tiles]


def table(outcome: Outcome) -> str:
    """Returns a shape's lines: the base's time, the vendor's, and how much faster each variant is than its base."""
    p = outcome.product
    times = {(row.layout, row.schedule): row.us for row in outcome.rows}
    lt, torch = outcome.baseline("cublaslt_tuned"), outcome.baseline("torch")
    vendor = min((t for t in (lt, torch) if t), default=None)
    lines = [f"{p.m} x {p.n} x {p.k}: vendor {vendor or 0.0:.2f} us"]
    base = None
    for name, (layout, schedule) in variants(p).items():
        us = times.get((layout, spell(schedule)))
        base = us if name.startswith("base") and " " not in name else base
        against = f"{base / us:5.2f}x of base" if base and us else " " * 13
        beside = f"{vendor / us:5.2f}x of vendor" if vendor and us else ""
        lines.append(f"    {name:24} {us or 0.0:9.2f} us {against} {beside}  {layout} {spell(schedule)}")
    return "\n".join(lines)
