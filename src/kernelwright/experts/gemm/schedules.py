"""The schedules of a matrix product, as typed, frozen points, and their spelling.

Four families: `Hopper` (wgmma and TMA), `Warps` (mma.sync and cp.async), `Direct` (mma.sync on operands that every
lane brings for itself, for what is over in a few microseconds), `Dot` (few rows, float32 dot products).
Not here: which of them are possible (rules.py), which are worth trying (space.py), how they are printed (print.py).
"""

from __future__ import annotations

from dataclasses import fields

from kernelwright.errors import UserError
from kernelwright.types import value


@value
class Sharing:
    """What the schedules of all families say: how blocks share k, the order of tiles, and the launch."""

    splits: int = 1
    """Blocks of a cluster that share one tile's k and add up through distributed shared memory; sm_90 and later."""
    group: int = 8
    """Tiles side by side in a band of the order."""
    along_n: bool = False
    """Bands lie along n instead of m."""
    curve: bool = False
    """Squares of `group` x `group` tiles in Hilbert's order, every other band backwards."""
    early: bool = False
    """Waits for and triggers the neighbouring grids of a programmatic launch."""


@value
class Hopper(Sharing):
    """A warp-specialised kernel for sm_90a: one producing warpgroup, `consumers` that multiply."""

    bm: int = 128
    """Rows of the tile on wgmma's 64-row side: of A, or of B where `swap`."""
    bn: int = 128
    """Columns of the tile, a multiple of 8: rows of B, or of A where `swap`."""
    stages: int = 4
    consumers: int = 2
    pingpong: bool = False
    """Each consumer makes tiles of its own, in turn, instead of sharing one."""
    cluster_m: int = 1
    """Blocks of a cluster along the 64-row side; they share the other operand's tile by multicast."""
    cluster_n: int = 1
    parts: int = 1
    """Grids that share k through a workspace, which a second kernel adds up."""
    swap: bool = False
    """Multiply the transposed product, so that few rows of A are wgmma's columns."""
    box_store: bool = True
    """Results leave through shared memory and the copy engine, instead of registers."""
    store_buffers: int = 2
    persistent: bool = True
    """As many blocks as run at once, each with several tiles; else one tile a block, stored through its ring."""
    tail: int = 1
    """Shares of k for each tile of the last, incomplete wave, which a second kernel adds up (stream-K's hybrid)."""


@value
class Warps(Sharing):
    """A kernel by mma.sync for sm_80 and later: an asynchronous ring of small tiles, any sizes."""

    bm: int = 64
    bn: int = 64
    bk: int = 64
    stages: int = 4
    warps_m: int = 2
    warps_n: int = 2
    warps_k: int = 1
    parts: int = 1


@value
class Direct(Sharing):
    """A kernel by mma.sync whose lanes bring what they multiply themselves: no barrier before the sums are there."""

    bm: int = 16
    bn: int = 16
    warps: int = 4
    """Warps of a block; each makes the whole tile of its share of k."""
    depth: int = 4
    """Stages of 64 elements of k in the ring of each warp."""


@value
class Dot(Sharing):
    """A kernel of float32 dot products for few rows of A."""

    rows: int = 1
    """Rows of A at a time."""
    columns: int = 4
    """Columns of one warp (B n x k) or of the block (B k x n)."""
    warps: int = 4
    warps_k: int = 1
    """Warps that share k, where B is n x k."""
    group: int = 1


Schedule = Hopper | Warps | Direct | Dot
FAMILIES: dict[str, type[Hopper] | type[Warps] | type[Direct] | type[Dot]] = {
    "hopper": Hopper, "warps": Warps, "direct": Direct, "dot": Dot,
}  # fmt: skip


def spell(schedule: Schedule) -> str:
    """Returns a schedule as text that `parse` reads: `hopper bm=128 bn=256 stages=3`; defaults are left out."""
    name = type(schedule).__name__.lower()
    parts = [f"{f.name}={int(getattr(schedule, f.name))}" for f in fields(schedule) if _differs(schedule, f.name)]
    return " ".join([name, *parts])


def _differs(schedule: Schedule, name: str) -> bool:
    return bool(getattr(schedule, name) != getattr(type(schedule)(), name))


def parse(text: str) -> Schedule:
    """Returns the schedule that `spell` wrote.

    Raises:
        UserError: for an unknown family or parameter, or a value that is no whole number.
    """
    family, *parts = text.split() or [""]
    if family not in FAMILIES:
        raise UserError(f"there is no family of schedules {family!r}", f"known are {', '.join(FAMILIES)}")
    kind = FAMILIES[family]
    known = {f.name: type(getattr(kind(), f.name)) for f in fields(kind)}
    chosen: dict[str, int | bool] = {}
    for part in parts:
        name, _, given = part.partition("=")
        if name not in known or not given.isdigit():
            raise UserError(f"{part!r} is no parameter of {family}", f"write one of {', '.join(known)} and a number")
        chosen[name] = known[name](int(given))
    return kind(**chosen)  # type: ignore[arg-type]
