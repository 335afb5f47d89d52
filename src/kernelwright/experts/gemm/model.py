"""How long a schedule should take, from counted work: launches, filling the ring, bytes, tensor-core cycles, waves.

An analytical model that only has to rank. Its rates are fitted by least squares to schedules that were measured on an
H200 (benchmarks/gemm_fit.py); test_model.py holds it to the vendor's times and to a sample of those measurements, so
that it sees regressions and is no independent check.
Not here: which schedules there are (space.py); what is possible at all (rules.py).
"""

from __future__ import annotations

from kernelwright.experts.gemm import rules
from kernelwright.experts.gemm.product import Product
from kernelwright.experts.gemm.schedules import Direct, Dot, Hopper, Schedule, Warps
from kernelwright.types import value


@value
class Rates:
    """What a device can do; times in microseconds, rates per microsecond."""

    multiprocessors: int = rules.MULTIPROCESSORS
    launch_us: float = 0.8
    """An empty kernel in a graph: 0.74 (1 block) to 0.85 (264 blocks), measured."""
    second_us: float = 0.6
    """A further kernel of the same plan, in a graph."""
    latency_us: float = 0.75
    """From asking for a tile to having it, out of device memory."""
    loaded_us: float = 1.2
    """The same while everybody asks: a ring of few stages waits for it in every step. By the fit 1.0; rings of three
    stages show 1.35 (and the order of schedules is best in between)."""
    ending_us: float = 0.39
    """From the last sum to the last store."""
    ring_us: float = 0.3
    """Of setting up a ring and meeting in the block before the first tile, which direct kernels need not."""
    place_us: float = 0.15
    """Of the divisions that find a block's first tile, which kernels with one tile a block have not; a guess."""
    cluster_us: float = 0.41
    """Starting and meeting as a cluster."""
    joining_us: float = 0.83
    """Sending shares of k to each other in a cluster."""
    memory_bytes: float = 4.3e6
    """Of device memory, measured."""
    cache_bytes: float = 7.8e6
    """Of the second-level cache, all multiprocessors together."""
    one_bytes: float = 9.1e4
    """That one multiprocessor can take in."""
    shared_bytes: float = 2.2e5
    """Of one multiprocessor's shared memory, tiles that come and operands that are read together: 128 bytes a cycle."""
    exposed: float = 0.34
    """Share of the lesser of work and memory that the greater does not hide, up to `most_exposed_us`."""
    most_exposed_us: float = 2.0
    step_us: float = 0.029
    """Of a step along k: waiting, freeing and beginning again, beside what the tensor cores do."""
    cache_size: int = 50 << 20
    fma: float = 2.74e6
    """Half-precision multiply-adds of one multiprocessor by wgmma at the clock of a loaded card."""
    old_fma: float = 2.87e6
    """The same by mma.sync with enough warps."""
    float_fma: float = 8.0e4
    """Float32 multiply-adds with their conversions."""


H200 = Rates()


def time_us(schedule: Schedule, product: Product, rates: Rates = H200) -> float:
    """Returns the modelled time of one call in a graph, in microseconds, for a possible schedule."""
    grid = rules.grid_of(schedule, product, rates.multiprocessors)
    rows, columns = rules.tile_of(schedule, product)
    resident = _resident(schedule, product)
    cluster = schedule.cluster_m * schedule.cluster_n if isinstance(schedule, Hopper) else 1
    at_once = min(grid.blocks, rules.reached(cluster, rates.multiprocessors) * resident)
    sharing = max(1.0, at_once / rates.multiprocessors)
    """Blocks that share one multiprocessor."""
    step, steps = _step(schedule, product)
    bytes_in = _bytes_of_step(schedule, product, step)
    active = min(rates.multiprocessors, at_once)
    taken = 2.0 * step * (schedule.bm + schedule.bn) if isinstance(schedule, Hopper) else bytes_in
    feeding = max(taken / rates.one_bytes, bytes_in * active / rates.cache_bytes) * sharing
    feeding = max(feeding, rates.loaded_us / _stages(schedule)) if steps > _stages(schedule) else feeding
    computing = _computing_us(schedule, product, rows * columns * step, rates) * sharing
    each = steps * max(feeding, computing)
    stored = rows * columns * 2 / (rates.one_bytes / sharing)
    rounds = _rounds(schedule, grid, at_once)
    overlapped = isinstance(schedule, Hopper) and (schedule.pingpong or (schedule.box_store and schedule.persistent))
    between = (0.15 * stored + 0.1) if overlapped else stored + rates.ending_us + rates.latency_us
    total = rates.latency_us + rounds * each + (rounds - 1.0) * between + stored + rates.ending_us
    floor = _memory_us(schedule, product, rates) + rates.latency_us + rates.ending_us
    # A short loop hides little of memory's time; of schedules that wait for memory alike the quickest is the safest.
    lesser = min(total, floor)
    total = max(total, floor) + min(rates.exposed * lesser, rates.most_exposed_us) + 0.02 * lesser
    return rates.launch_us + total + _joining_us(schedule, product, rates)


def _rounds(schedule: Schedule, grid: rules.Grid, at_once: int) -> float:
    """How many tiles the busiest block has, or how many waves of blocks there are."""
    if isinstance(schedule, Hopper) and schedule.persistent:
        each = schedule.cluster_m * schedule.cluster_n * schedule.splits
        workers = max(1, grid.blocks // each)
        if schedule.tail > 1:
            shared = grid.works % workers * schedule.tail
            return float(grid.works // workers) + -(-shared // workers) / schedule.tail
        return float(-(-grid.works // workers))
    return float(-(-grid.blocks // at_once))


def _resident(schedule: Schedule, product: Product) -> int:
    """Blocks of this kind that fit on one multiprocessor."""
    if isinstance(schedule, Hopper):
        return rules.blocks_per_multiprocessor(schedule, product)
    threads = rules.threads_of(schedule)
    shared = rules.shared_bytes(schedule, product) + 1024
    registers = 168 if isinstance(schedule, Warps | Direct) and schedule.bm * schedule.bn >= 128 * threads // 2 else 128
    return max(1, min(16, (228 << 10) // shared, 65536 // (registers * threads), 2048 // threads))


def _step(schedule: Schedule, product: Product) -> tuple[int, int]:
    """Elements of k in one step of the ring, and how many steps one block makes."""
    if isinstance(schedule, Dot):
        sharers = rules.threads_of(schedule) * 8 // schedule.columns if product.layout == "kn" else schedule.warps_k
        step = (8 if product.layout == "kn" else 256) * sharers
        return step, -(-product.k // (step * schedule.splits))
    if isinstance(schedule, Direct):
        step = rules.DIRECT_STEP * schedule.warps
        return step, -(-product.k // (step * schedule.splits))
    step = rules.HOPPER_BK if isinstance(schedule, Hopper) else schedule.bk
    steps = -(-product.k // step)
    return step, -(-steps // (schedule.splits * schedule.parts))


def _stages(schedule: Schedule) -> int:
    if isinstance(schedule, Hopper):
        return schedule.stages
    if isinstance(schedule, Direct):
        return schedule.depth
    return schedule.stages - 1 if isinstance(schedule, Warps) else 2


def _bytes_of_step(schedule: Schedule, product: Product, step: int) -> float:
    """What a block takes in for one step; a multicast tile arrives once but is asked for by one block."""
    if isinstance(schedule, Hopper):
        return (
            2.0
            * step
            * (schedule.bm / (1 + 0.9 * (schedule.cluster_n - 1)) + schedule.bn / (1 + 0.9 * (schedule.cluster_m - 1)))
        )
    rows, columns = rules.tile_of(schedule, product)
    aligned = product.k % 8 == 0 and (product.layout == "nk" or product.n % 8 == 0)
    return 2.0 * step * (rows + columns) * (1.0 if aligned else 3.0)


def _computing_us(schedule: Schedule, product: Product, fmas: int, rates: Rates) -> float:
    """One step of one block alone on its multiprocessor."""
    if isinstance(schedule, Hopper):
        # Every wgmma reads 64 rows and all columns out of shared memory, into which the tile has been written before.
        step = rules.HOPPER_BK * 2.0
        moved = (schedule.bm + schedule.bn) * step + schedule.bm / 64 * (64 + schedule.bn) * step
        return max(fmas / rates.fma, moved / rates.shared_bytes) + rates.step_us
    if isinstance(schedule, Warps):
        warps = schedule.warps_m * schedule.warps_n * schedule.warps_k
        share = min(1.0, warps / 8) * _reuse(schedule.bm / schedule.warps_m, schedule.bn / schedule.warps_n)
        return fmas / (rates.old_fma * share) + 0.06
    if isinstance(schedule, Direct):
        share = min(1.0, schedule.warps / 8) * _reuse(schedule.bm, schedule.bn)
        return fmas / (rates.old_fma * share) + 0.03
    return fmas / rates.float_fma * max(1.0, 4 / schedule.warps) + 0.05


def _reuse(rows: float, columns: float) -> float:
    """How much of mma.sync's rate loading fragments leaves: small tiles of a warp load more for each product."""
    return rows * columns / (rows * columns + 16 * (rows + columns))


def _memory_us(schedule: Schedule, product: Product, rates: Rates) -> float:
    """Device memory: operands once, and again where a band of tiles does not fit the cache."""
    rows, columns = rules.tile_of(schedule, product)
    moved = float(product.min_bytes)
    if isinstance(schedule, Hopper):
        across, along = (product.n, product.m) if schedule.along_n else (product.m, product.n)
        side = (columns if schedule.along_n else rows) * schedule.group
        bands = max(1.0, across / side)
        other = 2.0 * along * product.k
        if other > rates.cache_size:
            moved += (bands - 1.0) * other * 0.5
    return moved / rates.memory_bytes


def _joining_us(schedule: Schedule, product: Product, rates: Rates) -> float:
    """What sharing k costs: meeting and adding in a cluster, or a second kernel."""
    rows, columns = rules.tile_of(schedule, product)
    total = 0.0
    if isinstance(schedule, Direct):
        # Sums are sent, so that nobody meets at the end; adding up a block's own warps is one pass over the tile.
        total -= rates.ring_us
        total += 0.1 * (schedule.warps > 1) + (0.2 + 0.01 * schedule.splits) * (schedule.splits > 1)
    elif isinstance(schedule, Hopper) and not schedule.persistent:
        total -= rates.place_us
    if isinstance(schedule, Direct):
        return total
    if schedule.splits > 1:
        moved = 4.0 * rows * columns * (2 if isinstance(schedule, Hopper) else 3)
        total += rates.cluster_us + rates.joining_us + moved / rates.shared_bytes
    elif isinstance(schedule, Hopper) and schedule.cluster_m * schedule.cluster_n > 1:
        total += rates.cluster_us
    if isinstance(schedule, Hopper) and schedule.tail > 1:
        moved = 4.0 * rules.tail_tiles(schedule, product, rates.multiprocessors) * rows * columns * schedule.tail * 2
        total += rates.second_us + rates.latency_us + moved / rates.cache_bytes
    if isinstance(schedule, Hopper | Warps) and schedule.parts > 1:
        moved = 4.0 * product.batch * product.m * product.n * schedule.parts * 2
        total += rates.second_us + rates.latency_us + moved / rates.cache_bytes
    return total
