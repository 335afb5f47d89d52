from __future__ import annotations

import mmap
import os
from collections.abc import Iterator

import pytest
import torch
from tests.judge.kernel_files import make_problem

from kernelwright.errors import UserError
from kernelwright.judge.slots import ALIGNMENT, GUARD_BYTES, GUARDS, POISONS, REGIONS, Slots, Workspaces, slot_count
from kernelwright.types import Workspace, replace

PROBLEM = make_problem("layernorm")
EACH = 2 * 64 * 256 * 4


@pytest.fixture
def slots() -> Iterator[Slots]:
    made = Slots(PROBLEM, cache_bytes=4 * EACH, available_bytes=1 << 32)
    yield made
    made.close()


def test_slots_make_twice_the_cache_and_keep_apart(slots: Slots) -> None:
    assert slots.count == 8
    assert slots.cold
    taken = []
    for buffer in slots.buffers:
        assert buffer.offset % ALIGNMENT == 0
        for slot in range(slots.count if buffer.stride else 1):
            start = buffer.offset + slot * buffer.stride
            taken.append((buffer.region, start - GUARD_BYTES, start + buffer.size + GUARD_BYTES))
    for region, start, end in taken:
        others = [t for t in taken if t != (region, start, end) and t[0] == region]
        assert all(end <= other[2] - GUARD_BYTES or start >= other[1] + GUARD_BYTES for other in others)


def test_tensors_are_views_of_the_shared_memory(slots: Slots) -> None:
    slots.inputs[3][0].fill_(7.0)
    buffer = slots.buffers[0]
    start = buffer.offset + 3 * buffer.stride
    assert bool((slots.input.bytes[start : start + buffer.size].view(torch.float32) == 7).all())
    assert slots.inputs[2][0].isnan().all()
    assert slots.inputs[3][0].data_ptr() % ALIGNMENT == 0
    assert [tuple(p.shape) for p in slots.parameters] == [(256,), (256,)]


def test_poison_covers_the_outputs_and_nothing_else(slots: Slots) -> None:
    for byte in POISONS:
        slots.poison((1, 5), byte)
        assert slots.holds(1, byte)
        assert slots.holds(5, byte)
        assert int(slots.words(1, 0)[0]) == slots.poison_word(0, byte)
    assert not slots.holds(2, POISONS[1])
    assert slots.broken_guard(range(slots.count)) is None
    words = slots.sampled_words([1, 2], 0, torch.tensor([0, 100]))
    assert (words[0] == slots.poison_word(0, POISONS[1])).all()
    assert (words[1] == int.from_bytes(2 * GUARDS["output"], "little")).all()


def test_a_write_beyond_either_end_is_found(slots: Slots) -> None:
    buffer = next(b for b in slots.buffers if b.name == "out")
    start = buffer.offset + 2 * buffer.stride
    for place, words in ((start - 4, "4 bytes before out"), (start + buffer.size + 8, "8 bytes after the end of out")):
        slots.output.bytes[place] = 0
        assert slots.broken_guard((1,)) is None
        assert slots.broken_guard((1, 2)) == words
        slots.restore_guards()
        assert slots.broken_guard((2,)) is None


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_bands_are_nan_and_what_was_read_behind_one_is_seen_behind_another(slots: Slots, dtype: torch.dtype) -> None:
    bands = [
        torch.tensor(list(guard * 4), dtype=torch.uint8).view(dtype) for guard in (GUARDS[name] for name in REGIONS)
    ]
    assert all(bool(band.isnan().all()) for band in bands)
    for band in bands:
        raw = (band + 1.0).view(torch.uint8)  # as arithmetic hands a NaN on
        assert (
            sum(
                bool((raw == torch.tensor(list(guard * 4), dtype=torch.uint8)).all())
                for guard in (GUARDS[name] for name in REGIONS)
            )
            <= 1
        )
    out, x = (next(b for b in slots.buffers if b.name == name) for name in ("out", "x"))
    behind_x, behind_out = x.offset + x.size, out.offset + out.size
    slots.output.bytes[behind_out : behind_out + 4] = slots.input.bytes[behind_x : behind_x + 4]
    assert slots.broken_guard((0,)) == "0 bytes after the end of out"
    slots.restore_guards()


def test_the_runners_descriptor_cannot_be_made_writable(slots: Slots) -> None:
    fd = slots.input.read_only_fd()
    with pytest.raises(PermissionError):
        mmap.mmap(fd, slots.input.size, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.write(fd, b"x")
    os.close(fd)


def test_nobody_writes_to_the_inputs_by_opening_the_descriptor_once_more(slots: Slots) -> None:
    assert slots.input.only_ours
    fd = slots.input.read_only_fd()
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
    with pytest.raises(PermissionError):
        mmap.mmap(again, slots.input.size, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    with pytest.raises(PermissionError):
        os.write(again, b"x")
    slots.inputs[0][0].fill_(3.0)  # the judge's own mapping is older
    with mmap.mmap(fd, slots.input.size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE) as private:
        private[0] = 1 ^ private[0]
    for descriptor in (fd, again):
        os.close(descriptor)


def test_no_region_can_be_cut_or_made_longer(slots: Slots) -> None:
    workspaces = Workspaces((Workspace(name="a", size_bytes=100),))
    for region in (slots.input, slots.output, workspaces.region):
        for size in (0, 2 * region.size):
            with pytest.raises(PermissionError):
                os.ftruncate(region.fd, size)
    workspaces.region.close()


def test_workspaces_have_guards_too() -> None:
    made = Workspaces((Workspace(name="a", size_bytes=100), Workspace(name="b", size_bytes=64)))
    made.poison(0x5A)
    assert made.broken_guard() is None
    made.region.bytes[made.buffers[0].offset + 100] = 0
    assert made.broken_guard() == "0 bytes after the end of a"
    made.region.close()


def test_too_little_memory_is_the_users_fault_with_a_fix() -> None:
    with pytest.raises(UserError, match="GiB of memory") as caught:
        slot_count(PROBLEM, cache_bytes=1 << 20, available_bytes=1 << 20)
    assert "smaller shapes" in caught.value.fix


def test_tiny_and_huge_problems_stay_within_limits() -> None:
    small = replace(PROBLEM.inputs[0], shape=(4,))
    tiny = replace(PROBLEM, inputs=(small,), outputs=(replace(small, name="out", role="output"),), parameters=())
    assert slot_count(tiny, cache_bytes=1 << 25, available_bytes=1 << 34) == 4096
    large = replace(PROBLEM.inputs[0], shape=(1 << 27,))
    huge = replace(PROBLEM, inputs=(large,), outputs=(replace(large, name="out", role="output"),), parameters=())
    assert slot_count(huge, cache_bytes=1 << 25, available_bytes=1 << 38) == 2
