"""The printed kernels run on the CPU: right under every order of what is asynchronous; a planted bug is seen."""

from __future__ import annotations

import pytest
from tests.experts.gemm.emulated import changed, faults, made, operands

from kernelwright.experts.gemm import Dot, Hopper, Product, Schedule, Warps, spell

NK, KN = Product(m=200, n=136, k=208), Product(m=136, n=200, k=208, layout="kn")
SMALL = Product(m=90, n=72, k=136)
RAGGED, RAGGED_KN = Product(m=37, n=51, k=77), Product(m=37, n=51, k=77, layout="kn")
HOPPER: list[tuple[Product, Schedule]] = [
    (NK, Hopper(bm=128, bn=64, stages=3)),
    (KN, Hopper(bm=64, bn=128, stages=3, pingpong=True, cluster_m=2)),
    (KN, Hopper(bm=128, bn=64, stages=2, cluster_m=2, cluster_n=2, group=1)),
    (NK, Hopper(bm=64, bn=24, stages=4, consumers=1, cluster_n=2, along_n=True, store_buffers=1)),
    (SMALL, Hopper(bm=64, bn=40, stages=2, consumers=1, splits=2, persistent=False, box_store=False)),
    (NK, Hopper(bm=192, bn=48, stages=2, consumers=3, parts=2, box_store=False)),
    (KN, Hopper(bm=64, bn=32, stages=3, consumers=1, swap=True)),
    (NK, Hopper(bm=64, bn=16, stages=3, consumers=1, swap=True, splits=2, persistent=False, box_store=False)),
    (KN, Hopper(bm=64, bn=16, stages=3, consumers=1, swap=True, splits=2, persistent=False, box_store=False)),
]
WARPS: list[tuple[Product, Schedule]] = [
    (SMALL, Warps(bm=32, bn=32, bk=32, stages=3)),
    (RAGGED, Warps(bm=32, bn=16, bk=64, warps_n=1, warps_k=2, splits=2, stages=2)),
    (RAGGED_KN, Warps(bm=16, bn=32, bk=32, warps_m=1, parts=3)),
    (KN, Warps(bm=64, bn=64, bk=64, stages=2)),
]
DOT: list[tuple[Product, Schedule]] = [
    (Product(m=3, n=50, k=777), Dot(rows=3, columns=4, warps=2, splits=2)),
    (Product(m=5, n=72, k=520, layout="kn"), Dot(rows=4, columns=32, warps=2)),
]
WAIT, FREE = "kernelwright::wgmma_wait<0>();", "  release(at, last, rank, lane);"
LEAVE = (
    "if constexpr (CLUSTER * SPLITS > 1) kernelwright::cluster_meet();  "
    "// nobody leaves while others may reach its memory"
)
BUGS = {
    "a stage is freed while it is multiplied": (f"    {FREE}\n    }}", "release(at, ring.stage, rank, lane);\n    }"),
    "a stage is never freed": (f"{WAIT}\n{FREE}", WAIT),
    "nobody waits for a free stage": ("kernelwright::barrier_wait(at.empty + ring.stage * 8, ring.phase ^ 1);", ""),
    "nobody waits for the tile": ("kernelwright::barrier_wait(at.full + ring.stage * 8, ring.phase);", ""),
    "sums are stored before they are finished": (WAIT, "kernelwright::wgmma_wait<1>();"),
    "the bytes of a stage are miscounted": (
        "barrier_expect(full, STAGE_BYTES)",
        "barrier_expect(full, STAGE_BYTES - 128)",
    ),
    "a buffer is filled while it is stored": ("store_wait_read<STORE_BUFFERS - 1>", "store_wait_read<STORE_BUFFERS>"),
    "the stride of a descriptor is wrong": ("STRIDE = 1024 / 16", "STRIDE = 512 / 16"),
    "warpgroups store into one buffer": ("at.buffers + group * STORE_BUFFERS * BUFFER_BYTES", "at.buffers"),
    "ping-pong does not skip the other's stages": ("ring.skip(between.end - between.begin)", "ring.skip(0)"),
    "blocks free a stage for themselves only": (
        "barrier_arrive_at(at.empty + stage * 8, lane)",
        "barrier_arrive(at.empty)",
    ),
    "blocks leave early": (LEAVE, ""),
}


@pytest.mark.parametrize(
    ("product", "schedule"),
    [*HOPPER, *WARPS, *DOT],
    ids=lambda x: spell(x).replace(" ", "-") if not isinstance(x, Product) else x.layout,
)
def test_kernels_are_exact_on_whole_numbers(product: Product, schedule: Schedule) -> None:
    assert faults(made(product, schedule), operands(product, whole=True), exact=True) == []


@pytest.mark.parametrize(
    ("product", "schedule"),
    [
        (
            Product(m=70, n=64, k=96, alpha=0.5, beta=2.0, bias=True, batch=2),
            Hopper(bm=64, bn=64, consumers=1, stages=2),
        ),
        (
            Product(m=70, n=66, k=96, bias=True, activation="gelu", dtype="bfloat16"),
            Warps(bm=32, bn=32, bk=32, parts=2),
        ),
        (Product(m=2, n=40, k=300, beta=1.0, activation="silu"), Dot(rows=2, columns=4, warps=2)),
        (
            Product(m=24, n=72, k=136, bias=True, activation="relu", dtype="bfloat16", layout="kn"),
            Hopper(bm=64, bn=24, consumers=1, stages=2, swap=True),
        ),
    ],
    ids=["hopper", "warps", "dot", "swapped"],
)
def test_epilogues_batches_and_both_types(product: Product, schedule: Schedule) -> None:
    assert faults(made(product, schedule), operands(product, whole=False), exact=False) == []


@pytest.mark.parametrize("name", BUGS)
def test_planted_bugs_are_seen(name: str) -> None:
    product = Product(m=136, n=192, k=320)
    schedule = Hopper(bm=128, bn=64, stages=2, store_buffers=2)
    if "ping-pong" in name:
        schedule = Hopper(bm=64, bn=64, stages=2, pingpong=True)
    if "blocks" in name:
        schedule = Hopper(bm=128, bn=64, stages=2, cluster_n=2)
    given = changed(made(product, schedule), "hopper.cuh", *BUGS[name])
    assert faults(given, operands(product, whole=True), exact=True) != []
