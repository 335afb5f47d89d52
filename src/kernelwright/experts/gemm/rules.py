"""Which schedules are possible for a product, and what each takes: threads, shared memory, blocks.

Every limit has a name in a message, so that a point is refused before anything is compiled. Limits: PTX ISA (wgmma's
and TMA's shapes, swizzle atoms), CUDA driver API (tensor maps), multiprocessors' registers and shared memory.
Not here: which possible schedules are good (model.py).
"""

from __future__ import annotations

import functools
from math import prod

from kernelwright.experts.gemm.product import Product, fault_of_product
from kernelwright.experts.gemm.schedules import Direct, Dot, Hopper, Schedule, Warps
from kernelwright.types import Launch, replace, value

SHARED_LIMIT = {"sm_80": 163 << 10, "sm_90a": 227 << 10, "sm_90": 227 << 10, "sm_100": 227 << 10}
MULTIPROCESSORS = 132
"""Of an H100 or H200 (SXM), where nothing else is said."""
HOPPER_BK = 64
MOST_CLUSTER = 8
MOST_SPLITS = 16
"""More than 8 blocks of a cluster are an opt-in of the device, which is asked whether one fits."""
DIRECT_STEP = 64
MOST_SUMS = {1: 128, 2: 160, 3: 80}
"""Accumulators of one thread, by consuming warpgroups: with more the compiler spills (the compile ring looks)."""
REGISTERS = {1: (0, 0), 2: (232, 40), 3: (160, 32)}
"""What consumers take and the producer keeps; with one consumer nothing has to move."""
PAD = 4
LARGEST_BOX = 256


def step_of(size: int, most: int = 8) -> int:
    """Returns the most elements (8, 4, 2 or 1) in which a contiguous side of this size can be moved at once."""
    return next(step for step in (8, 4, 2, 1) if step <= most and size % step == 0)


def threads_of(schedule: Schedule) -> int:
    """Returns the threads of a block."""
    if isinstance(schedule, Hopper):
        return 128 * (schedule.consumers + 1)
    if isinstance(schedule, Warps):
        return 32 * schedule.warps_m * schedule.warps_n * schedule.warps_k
    return 32 * schedule.warps


def tile_of(schedule: Schedule, product: Product) -> tuple[int, int]:
    """Returns rows and columns of the output that one block makes at a time."""
    if isinstance(schedule, Dot):
        share = 1 if product.layout == "kn" else schedule.warps // schedule.warps_k
        return schedule.rows, schedule.columns * share
    swap = isinstance(schedule, Hopper) and schedule.swap
    rows, columns = (schedule.bn, schedule.bm) if swap else (schedule.bm, schedule.bn)
    return rows, columns // 2 if product.pair else columns


def sums_of(schedule: Hopper) -> int:
    """Returns how many accumulators one thread of a consumer holds."""
    rows = schedule.bm if schedule.pingpong else schedule.bm // schedule.consumers
    return rows * schedule.bn // 128


def chunk_of(schedule: Hopper) -> int:
    """Returns the columns of one stored box."""
    return next((chunk for chunk in (64, 32, 16) if schedule.bn // schedule.splits % chunk == 0), 8)


def box_rows(schedule: Hopper) -> int:
    """Returns the rows of one stored box, on the 64-row side: each warp's own where a block has one tile."""
    return 64 if schedule.persistent or schedule.swap else 16


def store_buffers(schedule: Hopper) -> int:
    """Returns a warpgroup's buffers of 64 rows for stores: of a block with one tile, one for every part of it."""
    if schedule.persistent:
        return schedule.store_buffers
    across = 1 if schedule.swap else schedule.bn // schedule.splits // chunk_of(schedule)
    return schedule.bm // schedule.consumers // 64 * across


def stage_bytes(schedule: Hopper, product: Product) -> int:
    """Returns the bytes of one stage of the ring."""
    along_n = product.layout == "kn" and not schedule.swap
    columns = -(-schedule.bn // 64) * 64 if along_n else schedule.bn
    return (schedule.bm + columns) * HOPPER_BK * 2


def shared_bytes(schedule: Schedule, product: Product) -> int:
    """Returns the dynamic shared memory of a block."""
    rows, columns = tile_of(schedule, product)
    slab = rows * (columns + PAD) * 4
    if isinstance(schedule, Hopper):
        ring = schedule.stages * stage_bytes(schedule, product)
        box = schedule.bn // schedule.splits * 128 if schedule.swap else 64 * chunk_of(schedule) * 2
        buffers = schedule.consumers * store_buffers(schedule) * box if schedule.box_store else 0
        inbox = schedule.bm * schedule.bn * 4 if schedule.splits > 1 else 0
        used = ring + buffers if schedule.persistent else max(ring, buffers)
        return used + inbox + schedule.stages * 16 + 16
    if isinstance(schedule, Warps):
        ring = schedule.stages * (schedule.bm + schedule.bn) * schedule.bk * 2
        return max(ring, slab * schedule.warps_k if schedule.warps_k * schedule.splits > 1 else 0)
    if isinstance(schedule, Direct):
        slab, sums = schedule.bm * (schedule.bn + PAD) * 4, schedule.bm * schedule.bn
        each = max(slab, schedule.depth * 2 * DIRECT_STEP * (schedule.bm + schedule.bn))
        inbox = -(-sums // (4 * schedule.splits)) * 16 * schedule.splits + 16
        return schedule.warps * each + (inbox if schedule.splits > 1 else 0)
    sharers = schedule.warps * 256 // schedule.columns if product.layout == "kn" else schedule.warps_k
    return slab * sharers


def blocks_per_multiprocessor(schedule: Hopper, product: Product) -> int:
    """Returns how many blocks the kernel is compiled for: two where registers and shared memory allow it."""
    small = schedule.consumers == 1 and sums_of(schedule) <= 64 and shared_bytes(schedule, product) <= 112 << 10
    return 2 if small else 1


@value
class Grid:
    """How much work there is."""

    tiles: int
    """Of all products of the batch."""
    works: int
    """Pieces that one cluster does at a time: a group of tiles, or a share of one."""
    blocks: int
    """Blocks of the grid."""


def reached(cluster: int, multiprocessors: int = MULTIPROCESSORS) -> int:
    """Returns the multiprocessors that clusters of so many blocks can be counted on to use at once.

    Clusters lie in one group of multiprocessors (16 or 18 of them): larger ones leave some over, and one that has to
    wait for another doubles the time.
    """
    return multiprocessors if cluster <= 2 else multiprocessors - multiprocessors // 16


def grid_of(schedule: Schedule, product: Product, multiprocessors: int = MULTIPROCESSORS) -> Grid:
    """Returns the grid of a possible schedule."""
    rows, columns = tile_of(schedule, product)
    tiles = product.batch * -(-product.m // rows) * -(-product.n // columns)
    if not isinstance(schedule, Hopper):
        works = tiles * (schedule.parts if isinstance(schedule, Warps) else 1)
        return Grid(tiles=tiles, works=works, blocks=works * schedule.splits)
    cluster = schedule.cluster_m * schedule.cluster_n
    works = product.batch * prod(_groups(schedule, product)) * schedule.parts
    each = cluster * schedule.splits
    room = max(1, reached(each, multiprocessors) * blocks_per_multiprocessor(schedule, product) // each)
    return Grid(tiles=tiles, works=works, blocks=each * (min(works, room) if schedule.persistent else works))


def tail_tiles(schedule: Hopper, product: Product, multiprocessors: int = MULTIPROCESSORS) -> int:
    """Returns the tiles, those outside the matrix included, of a persistent grid's last, incomplete wave."""
    cluster = schedule.cluster_m * schedule.cluster_n
    grid = grid_of(replace(schedule, tail=1), product, multiprocessors)
    return grid.works % (grid.blocks // cluster) * cluster


def launch_of(schedule: Schedule, product: Product, multiprocessors: int = MULTIPROCESSORS) -> Launch:
    """Returns how a schedule's kernel is started."""
    cluster = schedule.splits
    if isinstance(schedule, Hopper):
        cluster *= schedule.cluster_m * schedule.cluster_n
    grid = (grid_of(schedule, product, multiprocessors).blocks, 1, 1)
    if isinstance(schedule, Direct):
        grid = _direct_grid(schedule, product)
    elif isinstance(schedule, Hopper) and not schedule.persistent:
        grid = _single_grid(schedule, product)
    return Launch(
        grid=grid,
        block=(threads_of(schedule), 1, 1),
        cluster=(cluster, 1, 1),
        shared_bytes=shared_bytes(schedule, product),
        programmatic=schedule.early,
    )


def _direct_grid(schedule: Direct, product: Product) -> tuple[int, int, int]:
    rows, columns = tile_of(schedule, product)
    return -(-product.m // rows) * schedule.splits, -(-product.n // columns), product.batch


def _single_grid(schedule: Hopper, product: Product) -> tuple[int, int, int]:
    """One tile for each block: clusters along one side, the other side, and products with their shares of k."""
    groups_m, groups_n = _groups(schedule, product)
    across, along = (groups_n, groups_m) if schedule.along_n else (groups_m, groups_n)
    each = schedule.cluster_m * schedule.cluster_n * schedule.splits
    return across * each, along, product.batch * schedule.parts


def _groups(schedule: Hopper, product: Product) -> tuple[int, int]:
    """Clusters' tiles along m and along n."""
    rows, columns = tile_of(schedule, product)
    across = (schedule.cluster_n, schedule.cluster_m) if schedule.swap else (schedule.cluster_m, schedule.cluster_n)
    return -(-product.m // (rows * across[0])), -(-product.n // (columns * across[1]))


@functools.lru_cache(maxsize=1 << 16)
def fault(schedule: Schedule, product: Product, architecture: str = "sm_90a") -> str:
    """Returns why a schedule is impossible for a product on an architecture, empty where it is possible.

    **Covers**: shapes of instructions, divisibility of tiles, descriptors and boxes, registers, shared memory,
    clusters, shares of k, alignments.
    **Does not cover**: whether the compiler spills all the same (the compile ring looks at that).
    """
    if architecture not in SHARED_LIMIT:
        return f"the architecture {architecture!r} is not known here; known are {', '.join(SHARED_LIMIT)}"
    own = {Hopper: _hopper_fault, Warps: _warps_fault, Direct: _direct_fault, Dot: _dot_fault}[type(schedule)]
    found = fault_of_product(product) or _common_fault(schedule, product, architecture)
    found = found or own(schedule, product, architecture)  # type: ignore[operator]
    if found:
        return str(found)
    shared = shared_bytes(schedule, product)
    if shared > SHARED_LIMIT[architecture]:
        return f"{shared} bytes of shared memory; {SHARED_LIMIT[architecture]} are possible on {architecture}"
    blocks = grid_of(schedule, product).blocks
    return f"a grid of {blocks} blocks" if blocks >= 1 << 31 else ""


def _common_fault(schedule: Schedule, product: Product, architecture: str) -> str:
    if schedule.group < 1 or schedule.splits < 1:
        return "group and splits are whole numbers from 1"
    if product.pair and not isinstance(schedule, Direct):
        return "pairs of products are for the family direct"
    if (schedule.splits > 1 or schedule.early) and architecture == "sm_80":
        return f"{architecture} has neither clusters nor programmatic launches, which splits and early need"
    most = MOST_SPLITS if isinstance(schedule, Direct) else MOST_CLUSTER
    if schedule.splits not in (1, 2, 4, 8, 16) or schedule.splits > most:
        return f"splits is {schedule.splits}; 1, 2, 4 or 8 blocks can be a cluster, 16 of direct kernels"
    if schedule.curve and (schedule.group < 2 or schedule.group & (schedule.group - 1)):
        return f"group is {schedule.group}; squares in Hilbert's order have a power of two tiles from 2 on a side"
    threads = threads_of(schedule)
    return f"a block of {threads} threads; 32 to 1024 are possible" if not 32 <= threads <= 1024 else ""


def _shares_fault(blocks: int, shares: int) -> str:
    return f"{shares} shares of k for {blocks} blocks along k" if shares > blocks else ""


def _hopper_fault(s: Hopper, product: Product, architecture: str) -> str:
    if architecture != "sm_90a":
        return f"wgmma is an instruction of sm_90a, not of {architecture}"
    if product.k % 8 or (product.layout == "kn" and product.n % 8):
        return "tensor maps need rows of a multiple of 16 bytes: k (and n of B k x n) must be a multiple of 8"
    if not 1 <= s.consumers <= 3:
        return f"{s.consumers} consumers; 1 to 3 are possible"
    if s.pingpong and (s.consumers != 2 or s.splits > 1):
        return "ping-pong is for two consumers and no splits"
    rows = s.bm if s.pingpong else s.bm // s.consumers
    if s.bm % 64 or rows % 64 or rows < 64 or (not s.pingpong and s.bm % s.consumers):
        return f"bm is {s.bm}; every consumer needs a multiple of 64 rows"
    if not 8 <= s.bn <= 256 or s.bn % 8:
        return f"bn is {s.bn}; wgmma takes multiples of 8 from 8 to 256"
    if s.bm > LARGEST_BOX:
        return f"bm is {s.bm}; a box has up to {LARGEST_BOX} rows"
    if sums_of(s) > MOST_SUMS[s.consumers]:
        return f"{sums_of(s)} accumulators a thread; {MOST_SUMS[s.consumers]} fit beside {s.consumers} consumers"
    if product.layout == "kn" and not s.swap and s.bn % 64:
        return f"bn is {s.bn}; B k x n is brought in lines of 64 columns"
    return _hopper_grid_fault(s, product)


def _hopper_grid_fault(s: Hopper, product: Product) -> str:
    cluster = s.cluster_m * s.cluster_n
    if s.cluster_m not in (1, 2, 4) or s.cluster_n not in (1, 2, 4) or cluster > MOST_CLUSTER:
        return f"a cluster of {s.cluster_m} x {s.cluster_n}; sides of 1, 2 or 4 and up to {MOST_CLUSTER} blocks"
    if s.bm % (8 * s.cluster_n) or s.bn % (8 * s.cluster_m):
        return f"shares of a {s.bm} x {s.bn} tile in a {s.cluster_m} x {s.cluster_n} cluster are no multiples of 8 rows"
    if not 2 <= s.stages <= 16:
        return f"{s.stages} stages; 2 to 16 are possible"
    if s.splits > 1 and (cluster > 1 or s.persistent or s.bn % (8 * s.splits)):
        return "splits are for the whole cluster and one tile a block, whose columns they share in eights"
    if not s.persistent and (s.pingpong or max(_single_grid(s, product)[1:]) > 65535):
        return "a block with one tile has nobody to take turns with, and a grid up to 65535 tiles and products aside"
    if s.box_store and (s.parts > 1 or product.n % 8):
        return "stores by box need n a multiple of 8 and whole sums"
    if s.tail > 1 and (not s.persistent or s.splits * s.parts > 1 or s.swap or s.tail > 16):
        return "a tail is of a persistent grid without other shares of k, not swapped, and has up to 16 shares"
    if s.tail < 1 or s.tail > -(-product.k // HOPPER_BK):
        return f"{s.tail} shares of k for the tail; 1 to as many as there are blocks along k are possible"
    if s.box_store and not 1 <= s.store_buffers <= 4:
        return f"{s.store_buffers} buffers for stores; 1 to 4 are possible"
    return _parts_fault(s.parts) or _shares_fault(-(-product.k // HOPPER_BK), s.splits * s.parts)


def _parts_fault(parts: int) -> str:
    return "" if 1 <= parts <= 64 else f"{parts} parts; 1 to 64 are possible"


def _warps_fault(s: Warps, product: Product, architecture: str) -> str:
    del architecture
    if s.bm % (16 * s.warps_m) or s.bn % (8 * s.warps_n):
        return f"a {s.bm} x {s.bn} tile does not divide into 16 x 8 for {s.warps_m} x {s.warps_n} warps"
    if s.bk % (16 * s.warps_k) or s.bk not in (16, 32, 64, 128, 256):
        return f"bk is {s.bk}; a power of two from 16 to 256, 16 for each of {s.warps_k} warps along k"
    if product.layout == "kn" and s.bn & (s.bn - 1):
        return f"bn is {s.bn}; pieces of a row of B k x n are permuted, so it must be a power of two"
    if prod((s.bm // s.warps_m // 16, s.bn // s.warps_n // 8, 4)) > 128:
        return "more than 128 accumulators a thread"
    if not 2 <= s.stages <= 16:
        return f"{s.stages} stages; 2 to 16 are possible"
    return _parts_fault(s.parts) or _shares_fault(-(-product.k // s.bk), s.splits * s.parts)


def _direct_fault(s: Direct, product: Product, architecture: str) -> str:
    del architecture
    if product.layout != "nk" or product.k % 8:
        return "lanes bring 8 elements along k at a time: B must be n x k, and k a multiple of 8"
    if s.bm not in (16, 32, 64) or s.bn not in (8, 16, 32, 64, 128) or (product.pair and s.bn < 16):
        return f"a tile of {s.bm} x {s.bn}; 16, 32 or 64 rows and 8 (16 of a pair) to 128 columns, powers of two"
    if not 1 <= s.depth <= 16:
        return f"depth is {s.depth}; 1 to 16 stages are possible"
    if max(_direct_grid(s, product)[1:]) > 65535:
        return "more than 65535 tiles along n, or products"
    registers = s.bm * s.bn // 32 + (s.bm + s.bn) * 3 // 4 + 48
    if registers > 255 or registers * s.warps * 32 > 65536:
        return f"{registers} registers a thread for sums and operands; 255 are possible, and 65536 of a block"
    return _shares_fault(-(-product.k // DIRECT_STEP), s.splits * s.warps)


def _dot_fault(s: Dot, product: Product, architecture: str) -> str:
    del architecture
    if not 1 <= s.rows <= 16:
        return f"{s.rows} rows at a time; 1 to 16 are possible"
    if s.warps % s.warps_k:
        return f"{s.warps} warps, of which {s.warps_k} share k"
    if product.layout == "kn":
        lines = s.columns // 8
        if s.columns % 8 or lines & (lines - 1) or not 1 <= lines <= 32 * s.warps or s.warps_k != 1:
            return f"{s.columns} columns a block of B k x n; 8 times a power of two of its threads, and warps_k 1"
    elif tile_of(s, product)[1] % 4 or s.rows * s.columns > 64:
        return "columns of a block come in fours, and a warp holds up to 64 sums"
    return ""
