"""Index arithmetic against the manual: orders of tiles, shares of k, swizzles, fragments, the ring's phases."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def hilbert(index: int, group: int) -> tuple[int, int]:
    """The text of device/common.cuh, in Python."""
    x = y = 0
    side = 1
    while side < group:
        right = index // 2 & 1
        up = (index ^ right) & 1
        if not up:
            if right:
                x, y = side - 1 - x, side - 1 - y
            x, y = y, x
        x, y, side, index = x + side * right, y + side * up, side * 2, index // 4
    return x, y


def place_tile(
    index: int, tiles_m: int, tiles_n: int, group: int, along_n: bool, curve: bool = False
) -> tuple[int, int]:
    """The text of device/common.cuh, in Python."""
    across, along = (tiles_n, tiles_m) if along_n else (tiles_m, tiles_n)
    first = index // (group * along) * group
    width = min(group, across - first)
    rest = index - first * along
    a, b = rest % width, rest // width
    if curve:
        square = group * group
        if width == group and (rest // square + 1) * group <= along:
            b, a = hilbert(rest % square, group)
            b += rest // square * group
        b = along - 1 - b if first // group % 2 else b
    a += first
    return (b, a) if along_n else (a, b)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 20), st.booleans())
def test_orders_reach_every_tile_once(tiles_m: int, tiles_n: int, group: int, along_n: bool) -> None:
    found = {place_tile(i, tiles_m, tiles_n, group, along_n) for i in range(tiles_m * tiles_n)}
    assert found == {(m, n) for m in range(tiles_m) for n in range(tiles_n)}


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([2, 4, 8, 16]), st.booleans())
def test_curves_reach_every_tile_once(tiles_m: int, tiles_n: int, group: int, along_n: bool) -> None:
    found = [place_tile(i, tiles_m, tiles_n, group, along_n, curve=True) for i in range(tiles_m * tiles_n)]
    assert set(found) == {(m, n) for m in range(tiles_m) for n in range(tiles_n)}
    if tiles_m % group == tiles_n % group == 0:  # whole squares only: each tile touches the one before, within a band
        far = sum(abs(a - c) + abs(b - d) != 1 for (a, b), (c, d) in itertools.pairwise(found))
        assert far <= (tiles_n if along_n else tiles_m) // group - 1


@given(st.integers(1, 2000), st.integers(1, 128))
def test_shares_of_k_cover_it_once(blocks: int, shares: int) -> None:
    edges = [blocks * share // shares for share in range(shares + 1)]
    assert edges[0] == 0
    assert edges[-1] == blocks
    if shares <= blocks:
        assert all(a < b for a, b in itertools.pairwise(edges))


@pytest.mark.parametrize(("line", "mask"), [(128, 0x70), (64, 0x30), (32, 0x10)])
def test_swizzles_are_permutations_without_bank_conflicts(line: int, mask: int) -> None:
    offsets = np.arange(8192)
    swizzled = offsets ^ (offsets >> 3 & mask)
    assert sorted(swizzled) == list(offsets)
    assert ((swizzled ^ (swizzled >> 3 & mask)) == offsets).all()
    # Eight rows of one 16-byte column, as ldmatrix and wgmma read them, lie in different banks.
    rows = np.arange(8) * line
    banks = {int(bank) for first in rows for bank in ((first ^ (first >> 3 & mask)) % 128 // 4 + np.arange(4))}
    assert len(banks) == 32


def place_in(columns: int, row: int, piece: int) -> int:
    """The text of device/warps.cuh, in Python."""
    pieces = columns // 8
    line, mask = (1, 7) if pieces >= 8 else (8 // pieces, pieces - 1)
    return (row * pieces + (piece ^ (row // line & mask))) * 16


@pytest.mark.parametrize("columns", [8, 16, 32, 64, 128, 256])
def test_pieces_of_small_tiles_are_permuted_without_conflicts(columns: int) -> None:
    found = {place_in(columns, row, piece) for row in range(64) for piece in range(columns // 8)}
    assert found == set(range(0, 64 * columns * 2, 16))
    for piece in range(columns // 8):
        assert len({place_in(columns, row, piece) % 128 for row in range(8)}) == 8


def test_fragments_of_wgmma_cover_its_tile_once() -> None:
    columns = 40
    found = [
        (t // 32 * 16 + t % 32 // 4 + 8 * (e // 2), 8 * j + t % 4 * 2 + e % 2)
        for t in range(128)
        for j in range(columns // 8)
        for e in range(4)
    ]
    assert sorted(found) == [(row, column) for row in range(64) for column in range(columns)]


def address(first: int, row: int, k: int, *, along_k: bool) -> int:
    """Where a descriptor of hopper.cuh puts an element (PTX ISA, canonical layouts with the 128-byte swizzle)."""
    stride, leading = 1024, 64 * 128
    flat = (
        row // 8 * stride + row % 8 * 128 + k * 2
        if along_k
        else row // 64 * leading + row % 64 * 2 + k // 8 * stride + k % 8 * 128
    )
    at = first + flat
    return at ^ (at >> 3 & 0x70)


@pytest.mark.parametrize("along_k", [True, False])
def test_descriptors_find_what_the_copy_engine_wrote(along_k: bool) -> None:
    rows, depth = 128, 64
    written = {}
    for row in range(rows):
        for k in range(depth):
            # A box has lines of 64 elements: along k one line a row, else one line for 64 rows.
            flat = row * 128 + k * 2 if along_k else row // 64 * depth * 128 + k * 128 + row % 64 * 2
            written[flat ^ (flat >> 3 & 0x70)] = (row, k)
    assert len(written) == rows * depth
    for step in range(depth // 16):
        first = step * (32 if along_k else 16 * 128)
        for block in range(rows // 64):
            base = first + block * 64 * 128
            for row in range(64):
                for k in range(16):
                    assert written[address(base, row, k, along_k=along_k)] == (64 * block + row, 16 * step + k)


@settings(max_examples=60, deadline=None)
@given(
    stages=st.integers(2, 6),
    blocks=st.integers(1, 30),
    consumers=st.integers(1, 3),
    cluster=st.sampled_from([1, 2, 4]),
    seed=st.integers(0, 1000),
)
def test_the_ring_neither_stops_nor_overwrites(
    stages: int, blocks: int, consumers: int, cluster: int, seed: int
) -> None:
    """Producers, copies and consumers of a cluster that shares every tile, in any order that barriers allow."""
    shuffled = random.Random(seed)
    full = [[0] * stages for _ in range(cluster)]  # copies that have landed, of `cluster` for each use of a stage
    empty = [[0] * stages for _ in range(cluster)]  # arrivals
    holds: list[list[int]] = [[-1] * stages for _ in range(cluster)]
    produced, under_way = [0] * cluster, list[tuple[int, int]]()
    used = [[0] * consumers for _ in range(cluster)]
    while not all(count == blocks for block in used for count in block):
        moves: list[tuple[str, int, int]] = []
        for block in range(cluster):
            number = produced[block]
            if number < blocks and (
                number < stages or empty[block][number % stages] >= number // stages * consumers * cluster
            ):
                moves.append(("produce", block, number))
            for consumer, number in enumerate(used[block]):
                if number < blocks and full[block][number % stages] >= (number // stages + 1) * cluster:
                    moves.append(("consume", block, consumer))
        moves += [("land", block, number) for block, number in under_way]
        assert moves, "stuck"
        kind, block, which = shuffled.choice(moves)
        if kind == "produce":
            under_way += [(to, which) for to in range(cluster)]
            produced[block] += 1
        elif kind == "land":
            under_way.remove((block, which))
            stage = which % stages
            assert min(used[block]) >= which - stages + 1, "overwritten while in use"
            holds[block][stage] = which
            full[block][stage] += 1
        else:
            number = used[block][which]
            assert holds[block][number % stages] == number
            used[block][which] += 1
            for to in range(cluster):
                empty[to][number % stages] += 1
