"""The schedules worth trying for a product, and those that the model ranks first.

Not here: the model itself (model.py), and whether a schedule is possible (rules.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from kernelwright.experts.gemm import model, rules
from kernelwright.experts.gemm.product import Product
from kernelwright.experts.gemm.schedules import Direct, Dot, Hopper, Schedule, Warps
from kernelwright.types import replace

MOST_STAGES = 16
"""Of a ring of boxes: while everybody asks, a box takes a microsecond, which small tiles need many stages to hide."""
MOST_COPIES = 8
"""Stages of a ring of asynchronous copies."""
NEAR = 1.15
CURVED = 1e11
"""Operations from which operands leave the second-level cache, so that the order of tiles matters."""
LARGE = 4e10
"""Operations from which products are left to Hopper's own kernels, where those can make them."""
SPLITS = (1, 2, 4, 8)
PARTS = (1, 2, 3, 4, 6, 8, 16)
COOPERATIVE = (
    *((64, bn, 1) for bn in (8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256)),
    *((128, bn, 2) for bn in (32, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256)),
    *((192, bn, 3) for bn in (64, 96, 128, 160)),
    *((256, bn, 2) for bn in (64, 80, 96, 112, 128, 144, 160)),
)
"""(bm, bn, consumers) of tiles that consumers share."""
IN_TURN = (
    *((64, bn, 2) for bn in (32, 64, 96, 128, 160, 192, 224, 256)),
    *((128, bn, 2) for bn in (32, 64, 96, 128, 144, 160)),
)
"""The same of tiles in ping-pong."""
CLUSTERS = ((1, 1), (2, 1), (1, 2), (4, 1), (1, 4), (2, 2))
WARP_TILES = (
    (16, 16, 1, 1), (16, 32, 1, 2), (32, 16, 2, 1), (32, 32, 1, 1), (32, 32, 2, 2), (16, 64, 1, 4), (64, 16, 4, 1),
    (32, 64, 1, 2), (32, 64, 2, 2), (64, 32, 2, 1), (64, 32, 2, 2), (64, 64, 2, 2), (64, 128, 2, 2), (128, 64, 2, 2),
    (128, 128, 2, 4), (16, 8, 1, 1), (64, 64, 2, 4),
)  # fmt: skip
"""(bm, bn, warps_m, warps_n)."""
DIRECT_TILES = (
    (16, 8), (16, 16), (32, 8), (16, 32), (32, 16), (32, 32), (16, 64), (64, 16), (32, 64), (64, 32), (16, 128),
)  # fmt: skip
"""(bm, bn)."""
WARP_STEPS = ((64, 1), (64, 2), (64, 4), (128, 1), (128, 2), (128, 4), (32, 1), (256, 4))
"""(bk, warps_k)."""


def schedules(product: Product, architecture: str = "sm_90a") -> Iterator[Schedule]:
    """Yields every schedule of the space that is possible for a product."""
    hopper = [schedule for schedule in _hopper(product) if not rules.fault(schedule, product, architecture)]
    yield from hopper
    warps = _warps(product) if product.flops <= LARGE or not hopper else ()
    others: tuple[Schedule, ...] = (*warps, *_direct(product), *_dot(product))
    for schedule in others:
        if not rules.fault(schedule, product, architecture):
            yield schedule


def ranked(
    product: Product, count: int, *, architecture: str = "sm_90a", rates: model.Rates = model.H200
) -> tuple[Schedule, ...]:
    """Returns the `count` schedules that the model ranks first, at most a quarter of them of one tile.

    The first of every family that the model puts within `NEAR` of the best is among them: it knows the families' rates
    less well than their own order. Of large products the last one is the best one in Hilbert's order, which the model
    cannot tell from bands.
    """
    timed = sorted(
        ((model.time_us(s, product, rates), n, s) for n, s in enumerate(schedules(product, architecture))),
        key=lambda found: found[:2],
    )
    firsts: dict[type, Schedule] = {}
    for us, _, schedule in timed:
        if us <= NEAR * timed[0][0]:
            firsts.setdefault(type(schedule), schedule)
    chosen: list[Schedule] = list(firsts.values())[:count]
    tiles: dict[tuple[object, ...], int] = {}
    for _, _, schedule in timed:
        if len(chosen) == count:
            break
        kind = (type(schedule), rules.tile_of(schedule, product), getattr(schedule, "pingpong", False))
        if schedule not in chosen and tiles.get(kind, 0) < max(1, count // 4):
            tiles[kind] = tiles.get(kind, 0) + 1
            chosen.append(schedule)
    if product.flops > CURVED and count > 1 and isinstance(chosen[0], Hopper):
        chosen[-1] = replace(chosen[0], curve=True)
    return tuple(chosen)


def _deepest(schedule: Hopper, product: Product) -> Hopper:
    """The same with as many stages as fit and as its share of k can use."""
    blocks = -(-product.k // rules.HOPPER_BK)
    each = -(-blocks // (schedule.splits * schedule.parts))
    most = max(2, min(MOST_STAGES, each if not schedule.persistent else MOST_STAGES))
    limit = rules.SHARED_LIMIT["sm_90a"]
    few = rules.grid_of(replace(schedule, persistent=False), product).blocks <= rules.MULTIPROCESSORS
    if schedule.consumers == 1 and rules.sums_of(schedule) <= 64 and not few:
        limit = 112 << 10  # so that two blocks fit
    for stages in range(most, 2, -1):
        if rules.shared_bytes(replace(schedule, stages=stages), product) <= limit:
            return replace(schedule, stages=stages)
    return replace(schedule, stages=2)


def _hopper(product: Product) -> Iterator[Hopper]:
    for swap in (False, True) if product.m <= 128 else (False,):
        for (bm, bn, consumers), pingpong in (
            *((tile, False) for tile in COOPERATIVE),
            *((tile, True) for tile in IN_TURN),
        ):
            basis = Hopper(
                bm=bm, bn=bn, consumers=consumers, pingpong=pingpong, swap=swap, box_store=product.n % 8 == 0
            )
            if bm > 2 * max(64, product.n if swap else product.m) or bn > 2 * max(8, product.m if swap else product.n):
                continue
            yield from _spread(basis, product)


def _spread(basis: Hopper, product: Product) -> Iterator[Hopper]:
    """A tile with clusters where there is much to do, with shares of k where there is little."""
    tiles = rules.grid_of(basis, product).tiles
    along_n = product.n < product.m
    if wide := tiles * 2 > rules.MULTIPROCESSORS:
        for cluster_m, cluster_n in CLUSTERS if product.flops > 1e9 else CLUSTERS[:1]:
            many = replace(basis, cluster_m=cluster_m, cluster_n=cluster_n, along_n=along_n)
            if rules.grid_of(replace(many, persistent=False), product).blocks > rules.grid_of(many, product).blocks:
                yield _deepest(many, product)
                yield from _with_tail(_deepest(many, product), product)
            elif not basis.pingpong:  # one tile a block: nobody to take turns with, and nothing to divide
                yield _deepest(replace(many, persistent=False), product)
    if tiles <= 2 * rules.MULTIPROCESSORS and not basis.pingpong:
        for splits in (n for n in SPLITS if basis.bn % (8 * n) == 0):
            for parts in PARTS if splits in (1, 8) else (1,):
                if (wide and splits * parts == 1) or tiles * splits * parts > 4 * rules.MULTIPROCESSORS:
                    continue
                shared = replace(basis, splits=splits, parts=parts, persistent=False, early=parts > 1)
                yield _deepest(replace(shared, box_store=basis.box_store and parts == 1), product)


def _with_tail(wide: Hopper, product: Product) -> Iterator[Hopper]:
    """The same with the tiles of a small last wave shared out, as often as they fill it."""
    grid = rules.grid_of(wide, product)
    cluster = wide.cluster_m * wide.cluster_n
    workers = grid.blocks // cluster
    rest = grid.works % workers
    shares = min(8, workers // rest) if rest else 1
    if shares > 1 and grid.works > workers:
        yield replace(wide, tail=shares, early=True)


def _warps(product: Product) -> Iterator[Warps]:
    for bm, bn, warps_m, warps_n in WARP_TILES:
        if bm >= 2 * max(16, product.m) or bn >= 2 * max(8, product.n):
            continue
        for bk, warps_k in WARP_STEPS:
            if bk > max(64, 2 * product.k) or warps_m * warps_n * warps_k > 16:
                continue
            tiles = product.batch * -(-product.m // bm) * -(-product.n // bn)
            for splits in SPLITS:
                for parts in PARTS if splits in (1, 8) else (1,):
                    if splits * parts > 1 and tiles * splits * parts > 6 * rules.MULTIPROCESSORS:
                        continue
                    blocks = -(-product.k // bk)
                    stages = max(2, min(MOST_COPIES, -(-blocks // (splits * parts)) + 1))
                    yield Warps(
                        bm=bm, bn=bn, bk=bk, warps_m=warps_m, warps_n=warps_n, warps_k=warps_k, splits=splits,
                        parts=parts, stages=stages,
                    )  # fmt: skip


def _direct(product: Product) -> Iterator[Direct]:
    if product.flops > 4e9:
        return
    pieces = -(-product.k // rules.DIRECT_STEP)
    for bm, bn in DIRECT_TILES:
        if bm >= 2 * max(16, product.m) or bn >= 2 * max(8, product.b_columns):
            continue
        tiles = product.batch * -(-product.m // bm) * -(-product.b_columns // bn)
        for warps in (1, 2, 4, 6, 8, 12, 16):
            for splits in (*SPLITS, rules.MOST_SPLITS):
                if warps * splits > pieces or (splits > 1 and tiles * splits > 4 * rules.MULTIPROCESSORS):
                    continue
                room = (200 << 10) // (warps * 2 * rules.DIRECT_STEP * (bm + bn))
                yield Direct(
                    bm=bm, bn=bn, warps=warps, splits=splits, depth=max(1, min(-(-pieces // (warps * splits)), room, 8))
                )


def _dot(product: Product) -> Iterator[Dot]:
    if product.m > 16:
        return
    columns = (32, 64, 128, 256) if product.layout == "kn" else (1, 2, 4, 8)
    for rows in sorted({product.m, min(product.m, 8), min(product.m, 4)}):
        for many in columns:
            for warps in (2, 4, 8):
                for warps_k in (1,) if product.layout == "kn" else (1, 2, 4, 8):
                    for splits in SPLITS:
                        yield Dot(rows=rows, columns=many, warps=warps, warps_k=warps_k, splits=splits)
