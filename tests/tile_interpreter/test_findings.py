# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Deliberately wrong cuTile kernels: each must be found, at the line that is marked with its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cuda.tile as ct
import numpy as np
import pytest

from kernelwright.tile_interpreter import Finding, Findings, Output, Typed, covered, interpret, uncovered


def line_of(mark: str) -> int:
    """The line of this file that ends with a mark."""
    lines = Path(__file__).read_text().splitlines()
    (found,) = (number for number, line in enumerate(lines, start=1) if line.endswith(f"# {mark}"))
    return found


def only(findings: Findings, kind: str, mark: str) -> Finding:
    """The one error of a run, which must be of a kind and at a line."""
    assert {finding.kind for finding in findings.errors} == {kind}, str(findings)
    found = [finding for finding in findings.errors if finding.line == line_of(mark)]
    assert len(found) == 1, str(findings)
    assert found[0].file == __file__
    return found[0]


@ct.kernel
def too_many_blocks(x, out, T: ct.Constant[int]):
    i = ct.bid(0)
    tile = ct.load(x, (i,), shape=(T,), padding_mode=ct.PaddingMode.ZERO)  # outside load
    ct.store(out, (i,), tile=tile)  # outside store


def test_tiles_outside_of_arrays() -> None:
    found = interpret(too_many_blocks, 3, (np.ones(8, np.float32), Output(np.zeros(8, np.float32)), 4))
    assert [(f.kind, f.line, f.block) for f in found.errors] == [
        ("out-of-bounds", line_of("outside load"), (2, 0, 0)),
        ("out-of-bounds", line_of("outside store"), (2, 0, 0)),
    ]


@ct.kernel
def forgotten_padding(x, out, T: ct.Constant[int]):
    tile = ct.load(x, (0,), shape=(T,))  # ragged load
    ct.store(out, (0,), tile=ct.sum(tile, keepdims=True))  # undefined sum


def test_undefined_values_are_told_where_they_are_stored() -> None:
    found = only(
        interpret(forgotten_padding, 1, (np.ones(6, np.float32), Output(np.zeros(1, np.float32)), 8)),
        "undefined", "undefined sum",
    )  # fmt: skip
    assert found.other_line == line_of("ragged load")


@ct.kernel
def masked_later(x, out, T: ct.Constant[int]):
    tile = ct.load(x, (0,), shape=(T,))
    inside = ct.arange(T, dtype=ct.int32) < x.shape[0]
    ct.store(out, (0,), tile=ct.sum(ct.where(inside, tile, 0.0), keepdims=True))


def test_undefined_values_that_are_masked_are_no_finding() -> None:
    out = np.zeros(1, np.float32)
    assert interpret(masked_later, 1, (np.ones(6, np.float32), Output(out), 8)).findings == ()
    assert out[0] == 6


@ct.kernel
def all_write_one(x, out):
    i = ct.bid(0)
    ct.store(out, (0,), tile=ct.load(x, (i,), shape=(1,)))  # every block


@pytest.mark.parametrize("seed", range(3))
def test_two_blocks_that_write_one_element_race(seed: int) -> None:
    found = interpret(all_write_one, 4, (np.arange(4, dtype=np.float32), Output(np.zeros(1, np.float32))), seed=seed)
    race = only(found, "race", "every block")
    assert race.other_line == race.line
    assert race.count == 3


@ct.kernel
def reads_neighbour(x, out):
    i = ct.bid(0)
    ct.store(x, (i,), tile=ct.load(x, (i,), shape=(1,)) + 1)  # writer
    ct.store(out, (i,), tile=ct.load(x, ((i + 1) % 4,), shape=(1,)))  # reader


@pytest.mark.parametrize("seed", range(4))
def test_a_block_that_reads_what_another_writes_races(seed: int) -> None:
    """Whatever the order of the blocks: some read before and some after the write."""
    found = interpret(reads_neighbour, 4, (np.ones(4, np.float32), Output(np.zeros(4, np.float32))), seed=seed)
    pairs = {(finding.line, finding.other_line) for finding in found.of("race")}
    writer, reader = line_of("writer"), line_of("reader")
    assert pairs <= {(writer, reader), (reader, writer)}
    assert pairs


@ct.kernel
def last_block_sums(x, partial, count, out, N: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(partial, (i,), tile=ct.load(x, (i,), shape=(1,)))
    arrived = ct.atomic_add(count, 0, 1)
    if arrived == N - 1:
        ct.store(out, (0,), tile=ct.sum(ct.load(partial, (0,), shape=(N,)), keepdims=True))


@ct.kernel
def last_block_sums_unordered(x, partial, count, out, N: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(partial, (i,), tile=ct.load(x, (i,), shape=(1,)))
    arrived = ct.atomic_add(count, 0, 1, memory_order=ct.MemoryOrder.RELAXED)
    if arrived == N - 1:
        ct.store(out, (0,), tile=ct.sum(ct.load(partial, (0,), shape=(N,)), keepdims=True))  # unordered


@pytest.mark.parametrize("seed", range(3))
def test_order_that_atomics_make_is_respected(seed: int) -> None:
    def run(kernel: Any) -> tuple[Findings, Any]:
        out = np.zeros(1, np.float32)
        arguments = (np.arange(4, dtype=np.float32), np.zeros(4, np.float32), np.zeros(1, np.int32), Output(out), 4)
        return interpret(kernel, 4, arguments, seed=seed), out

    found, out = run(last_block_sums)
    assert found.clean, str(found)
    assert out[0] == 6
    only(run(last_block_sums_unordered)[0], "race", "unordered")


@ct.kernel
def half_written(x, out):
    i = ct.bid(0)
    ct.store(out, (i * 2,), tile=ct.load(x, (i,), shape=(1,)))


def test_elements_that_nobody_writes() -> None:
    found = interpret(half_written, 2, (np.ones(4, np.float32), Output(np.zeros(4, np.float32))))
    (missing,) = found.errors
    assert missing.kind == "unwritten"
    assert "2 of 4 elements of out were never written, the first is [1]" in missing.message


@ct.kernel
def reads_output(out):
    ct.store(out, (0,), tile=ct.load(out, (0,), shape=(4,)) + 1)  # never written


def test_output_that_is_read_before_it_is_written() -> None:
    only(interpret(reads_output, 1, (Output(np.zeros(4, np.float32)),)), "undefined", "never written")


@ct.kernel
def gathers_outside(x, out, CHECK: ct.Constant[bool]):
    places = ct.arange(4, dtype=ct.int32) * 3
    ct.store(out, (0,), tile=ct.gather(x, places, check_bounds=CHECK))  # gather


def test_gathers_outside_of_arrays() -> None:
    """With checked bounds this is a note, since padding is defined; without it is an error."""
    checked = interpret(gathers_outside, 1, (np.ones(8, np.float32), Output(np.zeros(4, np.float32)), True))
    assert checked.clean
    assert [(f.kind, f.level, f.line) for f in checked.findings] == [("out-of-bounds", "note", line_of("gather"))]
    wild = interpret(gathers_outside, 1, (np.ones(8, np.float32), Output(np.zeros(4, np.float32)), False))
    assert {finding.kind for finding in wild.errors} == {"out-of-bounds", "undefined"}


@ct.kernel
def scatters_twice(x, out):
    places = ct.arange(4, dtype=ct.int32) // 2
    ct.scatter(out, places, ct.load(x, (0,), shape=(4,)))  # twice


def test_two_elements_of_one_scatter_at_one_place() -> None:
    arguments = (np.arange(4, dtype=np.float32), Output(np.zeros(2, np.float32)))
    only(interpret(scatters_twice, 1, arguments), "race", "twice")


@ct.kernel
def odd_shape(x, out):
    ct.store(out, (0,), tile=ct.load(x, (0,), shape=(3,)))  # three


@ct.kernel
def narrows(x, out):
    ct.store(out, (0,), tile=ct.load(x, (0,), shape=(4,)) * 2.0)  # float to half


@ct.kernel
def mixed_product(x, y, out):
    a, b = ct.load(x, (0, 0), shape=(4, 4)), ct.load(y, (0, 0), shape=(4, 4))
    ct.store(out, (0, 0), tile=ct.mma(a, b, ct.zeros((4, 4), dtype=ct.float32)))  # mixed


@ct.kernel
def unknown(x):
    ct.pack_to_bytes(ct.load(x, (0,), shape=(4,)))  # uncovered


@ct.kernel
def misspelt(x):
    ct.lod(x, (0,), shape=(4,))  # misspelt


@ct.kernel
def waits(x):
    while ct.atomic_cas(x, 0, 1, 1) == 0:  # waits
        pass


F4, F2 = np.zeros((4, 4), np.float32), np.zeros((4, 4), np.float16)


@pytest.mark.parametrize(
    ("kernel", "arguments", "kind", "mark"),
    [
        (odd_shape, (F4[0], F4[1]), "shape", "three"),
        (narrows, (F4[0], F2[0]), "dtype", "float to half"),
        (mixed_product, (F4, F2, F4.copy()), "dtype", "mixed"),
        (unknown, (F4[0],), "uncovered", "uncovered"),
        (misspelt, (F4[0],), "error", "misspelt"),
        (waits, (np.zeros(1, np.int32),), "stuck", "waits"),
    ],
)
def test_what_ends_a_run_names_its_line(kernel: Any, arguments: tuple[Any, ...], kind: str, mark: str) -> None:
    only(interpret(kernel, 1, arguments, most_operations=2000), kind, mark)


def test_arguments_that_cannot_be_are_refused() -> None:
    with pytest.raises(TypeError, match="missing"):
        interpret(odd_shape, 1, (F4[0],))
    with pytest.raises(TypeError, match="complex"):
        interpret(unknown, 1, (np.zeros(4, complex),))
    with pytest.raises(TypeError, match="grid"):
        interpret(unknown, (1, 1, 1, 1), (F4[0],))


def test_what_is_covered_is_said() -> None:
    """Every public name of cuda.tile is covered, passed through, or listed as uncovered."""
    assert {"load", "store", "mma", "gather", "scatter", "atomic_add", "sum", "cumsum", "where"} <= set(covered())
    assert "mma_scaled" in uncovered()
    assert not set(covered()) & set(uncovered())


def test_findings_read_well() -> None:
    found = interpret(odd_shape, 1, (F4[0], F4[1]))
    assert str(found).startswith(f"{__file__}:{line_of('three')}: error: shape: Dimension #0 of shape (3,)")
    assert str(interpret(reads_neighbour, 1, (np.ones(4, np.float32), np.zeros(4, np.float32)))) != ""
    assert Typed(F4, ct.tfloat32).array is F4


@ct.kernel
def by_offset(x, out, T: ct.Constant[int], FIRST: ct.Constant[int]):
    place = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    live = place < x.shape[0] * x.shape[1]
    tile = x.get_raw_memory().load_offset(place + FIRST, mask=live)  # beyond the array
    out.get_raw_memory().store_offset(place, tile * 2.0, mask=live)  # undefined offset


def test_raw_memory_is_read_by_offset_and_checked() -> None:
    """Offsets go through the array row by row; one beyond its end is an error, for no device checks it."""
    x, out = np.arange(15, dtype=np.float32).reshape(3, 5), np.zeros((5, 3), np.float32)
    assert interpret(by_offset, 2, (x, Output(out), 8, 0)).findings == ()
    assert out.reshape(-1).tolist() == [2.0 * n for n in range(15)]
    found = interpret(by_offset, 2, (x, Output(out), 8, 1))
    assert [(f.kind, f.line, f.count) for f in found.errors] == [
        ("out-of-bounds", line_of("beyond the array"), 1),
        ("undefined", line_of("undefined offset"), 1),
    ]
