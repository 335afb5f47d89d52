"""The printed kernels run on the CPU: right under every order of what is asynchronous; a planted bug is seen."""

from __future__ import annotations

import pytest
from tests.experts.gemm.emulated import changed, faults, made, operands

from kernelwright.experts.gemm import Direct, Dot, Hopper, Product, Schedule, Warps, candidate, spell
from kernelwright.types import Candidate

NK, KN = Product(m=200, n=136, k=208), Product(m=136, n=200, k=208, layout="kn")
SMALL = Product(m=90, n=72, k=136)
RAGGED, RAGGED_KN = Product(m=37, n=51, k=77), Product(m=37, n=51, k=77, layout="kn")
HOPPER: list[tuple[Product, Schedule]] = [
    (NK, Hopper(bm=128, bn=64, stages=3)),
    (KN, Hopper(bm=64, bn=128, stages=3, pingpong=True, cluster_m=2)),
    (KN, Hopper(bm=128, bn=64, stages=2, cluster_m=2, cluster_n=2, group=1)),
    (NK, Hopper(bm=64, bn=24, stages=4, consumers=1, cluster_n=2, along_n=True, store_buffers=1)),
    (SMALL, Hopper(bm=64, bn=48, stages=2, consumers=1, splits=2, persistent=False, box_store=False)),
    (NK, Hopper(bm=192, bn=48, stages=2, consumers=3, parts=2, box_store=False)),
    (KN, Hopper(bm=64, bn=32, stages=3, consumers=1, swap=True)),
    (NK, Hopper(bm=64, bn=16, stages=3, consumers=1, swap=True, splits=2, persistent=False)),
    (KN, Hopper(bm=64, bn=16, stages=3, consumers=1, swap=True, splits=2, persistent=False, box_store=False)),
    (KN, Hopper(bm=128, bn=128, stages=2, splits=4, persistent=False, along_n=True)),
    (NK, Hopper(bm=128, bn=96, stages=2, persistent=False)),
    (SMALL, Hopper(bm=64, bn=48, stages=2, consumers=1, cluster_m=2, persistent=False)),
    (NK, Hopper(bm=64, bn=16, stages=3, consumers=1, swap=True, cluster_n=2, persistent=False)),
    (
        Product(m=70, n=64, k=136, batch=2),
        Hopper(bm=64, bn=64, stages=2, consumers=1, parts=2, persistent=False, box_store=False),
    ),
]
TAILS: list[tuple[Product, Schedule]] = [
    (Product(m=330, n=184, k=136), Hopper(bm=64, bn=64, consumers=1, stages=2, tail=2, cluster_m=2)),
    (
        Product(m=136, n=72, k=200, dtype="bfloat16"),
        Hopper(bm=64, bn=64, consumers=1, stages=2, tail=3, box_store=False),
    ),
    (Product(m=150, n=136, k=136, batch=3, layout="kn"), Hopper(bm=64, bn=64, stages=2, pingpong=True, tail=2)),
]
"""On two multiprocessors the last waves of these are incomplete."""
WARPS: list[tuple[Product, Schedule]] = [
    (SMALL, Warps(bm=32, bn=16, bk=32, stages=3, group=2, curve=True)),
    (RAGGED, Warps(bm=32, bn=16, bk=64, warps_n=1, warps_k=2, splits=2, stages=2)),
    (RAGGED_KN, Warps(bm=16, bn=32, bk=32, warps_m=1, parts=3)),
    (KN, Warps(bm=64, bn=64, bk=64, stages=2)),
]
DIRECT: list[tuple[Product, Schedule]] = [
    (Product(m=64, n=64, k=64), Direct(bm=16, bn=16, warps=1, depth=1)),
    (Product(m=37, n=51, k=200), Direct(bm=16, bn=32, warps=2, depth=2, splits=2)),
    (Product(m=50, n=40, k=1800), Direct(bm=32, bn=8, warps=3, depth=1, splits=8)),
    (Product(m=20, n=24, k=2072), Direct(bm=16, bn=16, warps=2, depth=1, splits=16)),
]
DOT: list[tuple[Product, Schedule]] = [
    (Product(m=3, n=50, k=777), Dot(rows=3, columns=4, warps=2, splits=2)),
    (Product(m=5, n=72, k=520, layout="kn"), Dot(rows=4, columns=32, warps=2)),
    (Product(m=3, n=70, k=523, layout="kn"), Dot(rows=2, columns=32, warps=2, splits=2)),
    (Product(m=3, n=51, k=520), Dot(rows=3, columns=4, warps=2)),
]
WAIT, FREE = "kernelwright::wgmma_wait<0>();", "  release(at, last, rank, lane);"
LEAVE = (
    "for (int i = 0; i < STAGES; ++i, ring.next()) "
    "kernelwright::barrier_wait(at.empty + ring.stage * 8, ring.phase ^ 1);"
)
BUGS = {
    "a stage is freed while it is multiplied": (f"    {FREE}\n    }}", "release(at, ring.stage, rank, lane);\n    }"),
    "a stage is never freed": (f"{WAIT}\n{FREE}", WAIT),
    "nobody waits for a free stage": ("kernelwright::barrier_wait(at.empty + ring.stage * 8, ring.phase ^ 1);", ";"),
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
    "one tile: the ring is written while it is read": ("kernelwright::meet(ALL_DONE, CONSUMERS * WARPGROUP);", ""),
    "one tile: barriers are used before they are there": ("kernelwright::meet(READY, WAITING);", ""),
    "shares are added before they have arrived": ("kernelwright::barrier_wait(at.arrived, 0);", ""),
    "shares are sent to who has not begun": ("kernelwright::cluster_wait();  // all barriers are ready\n#", "#"),
    "shares are for the wrong columns": ("first = SPLITS > 1 ? rank * JOINED : 0", "first = 0"),
}


@pytest.mark.parametrize(
    ("product", "schedule"),
    [*HOPPER, *WARPS, *DIRECT, *DOT],
    ids=lambda x: spell(x).replace(" ", "-") if not isinstance(x, Product) else x.layout,
)
def test_kernels_are_exact_on_whole_numbers(product: Product, schedule: Schedule) -> None:
    assert faults(made(product, schedule), operands(product, whole=True), exact=True) == []


@pytest.mark.parametrize(("product", "schedule"), TAILS, ids=["clusters", "plain", "ping-pong"])
def test_a_shared_last_wave_is_exact(product: Product, schedule: Schedule) -> None:
    given = candidate(product, schedule, multiprocessors=2)
    assert isinstance(given, Candidate), given
    assert len(given.plan.steps) == 2
    assert faults(given, operands(product, whole=True), exact=True) == []


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
            Product(m=70, n=54, k=136, alpha=0.5, pair=True, activation="silu", batch=2),
            Direct(bm=32, bn=32, warps=1, splits=2, depth=1),
        ),
        (
            Product(m=24, n=72, k=136, bias=True, activation="relu", dtype="bfloat16", layout="kn"),
            Hopper(bm=64, bn=24, consumers=1, stages=2, swap=True),
        ),
    ],
    ids=["hopper", "warps", "dot", "pair", "swapped"],
)
def test_epilogues_batches_and_both_types(product: Product, schedule: Schedule) -> None:
    assert faults(made(product, schedule), operands(product, whole=False), exact=False) == []


DIRECT_BUGS = {
    "sums are added before they have arrived": ("kernelwright::barrier_wait(arrived, 0);", ""),
    "blocks send before the others are ready": ("kernelwright::cluster_wait();", ""),
    "the bytes of the sums are miscounted": ("SPLITS * mine * 16 : 0", "(SPLITS - 1) * mine * 16 : 0"),
    "a stage is read before it is there": ("copy_wait<DEPTH - 1>", "copy_wait<DEPTH>"),
    "a stage is filled again too soon": (
        "if (number + DEPTH < count) bring(number + DEPTH);",
        "bring(number + DEPTH - 1);",
    ),
    "halves of k are exchanged": ("first, r.x, r.y", "first, r.z, r.w"),
}


@pytest.mark.parametrize("name", DIRECT_BUGS)
def test_planted_bugs_of_direct_kernels_are_seen(name: str) -> None:
    product = Product(m=32, n=32, k=1024)
    given = changed(made(product, Direct(bm=16, bn=32, warps=2, splits=2, depth=2)), "direct.cuh", *DIRECT_BUGS[name])
    assert faults(given, operands(product, whole=True), exact=True) != []


def test_a_share_that_nobody_makes_is_seen() -> None:
    product, schedule = TAILS[1]
    given = candidate(product, schedule, multiprocessors=2)
    assert isinstance(given, Candidate), given
    short = changed(given, "tail.cuh", "index - whole >= rest * TAIL", "index - whole >= rest * (TAIL - 1)")
    assert faults(short, operands(product, whole=True), exact=True) != []


@pytest.mark.parametrize("name", BUGS)
def test_planted_bugs_are_seen(name: str) -> None:
    product = Product(m=136, n=192, k=320)
    schedule = Hopper(bm=128, bn=64, stages=2, store_buffers=2)
    if "ping-pong" in name:
        schedule = Hopper(bm=64, bn=64, stages=2, pingpong=True)
    if name.startswith("one tile"):
        # What one warpgroup stores lies where the other one's last rows are.
        schedule = Hopper(bm=128, bn=128, stages=2, persistent=False)
    if name.startswith("shares"):
        schedule = Hopper(bm=64, bn=64, stages=2, consumers=1, splits=2, persistent=False)
    if "blocks" in name:
        schedule = Hopper(bm=128, bn=64, stages=2, cluster_n=2)
    given = changed(made(product, schedule), "hopper.cuh", *BUGS[name])
    assert faults(given, operands(product, whole=True), exact=True) != []
