"""Layout, poison and guard bands of device memory."""

from __future__ import annotations

import pytest
import torch
from tests.judge.device.fake_device import softmax_problem

from kernelwright.errors import UserError
from kernelwright.judge.device import arena
from kernelwright.judge.device.arena import DeviceSlots, DeviceWorkspaces, lay_out
from kernelwright.judge.slots import GUARD_BYTES
from kernelwright.types import TensorSpec, Workspace, replace

CPU = torch.device("cpu")
ALIGNED = 64


def make_slots(monkeypatch: pytest.MonkeyPatch, count: int = 6) -> DeviceSlots:
    monkeypatch.setattr(arena, "MOST_SLOTS", count)
    given = softmax_problem()
    scale = TensorSpec(name="scale", shape=(3,), dtype="float32", role="parameter")
    mask = TensorSpec(name="mask", shape=(5,), dtype="bool", role="output")
    problem = replace(given, parameters=(scale,), outputs=(*given.outputs, mask))
    return DeviceSlots(problem, CPU, cache_bytes=1 << 20, free_bytes=1 << 30)


def test_buffers_are_aligned_apart_and_in_order() -> None:
    places, end = lay_out([("a", 100, None), ("b", 1, None), ("c", 5000, None)], count=3, start=77)
    ends = 0
    for place in places:
        assert place.offset % arena.ALIGNMENT == 0
        assert place.offset - GUARD_BYTES >= ends
        ends = place.offset + place.size + GUARD_BYTES
    stride = places[0].stride
    assert stride % arena.ALIGNMENT == 0
    assert ends <= places[0].offset - GUARD_BYTES + stride
    assert end == 256 + 3 * stride


def test_every_slot_is_memory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = make_slots(monkeypatch)
    assert slots.count == 6
    for slot in range(slots.count):
        slots.inputs(slot)[0].fill_(slot)
        slots.outputs(slot)[0].fill_(-slot)
        slots.outputs(slot)[1].fill_(slot % 2)
    for slot in range(slots.count):
        views = slots.views(slot)
        assert bool((views["x"] == slot).all())
        assert bool((views["out"] == -slot).all())
        assert bool((views["mask"] == bool(slot % 2)).all())
        addresses = slots.addresses(slot)
        assert all(address % 256 == slots.input.address % 256 for name, address in addresses.items() if name == "x")
        assert {name: view.data_ptr() for name, view in views.items()} == addresses
    assert slots.broken_guard() is None


def test_poison_covers_outputs_of_the_slots_named_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = make_slots(monkeypatch)
    slots.poison(range(slots.count), 0xFF)
    assert bool(slots.outputs(3)[0].isnan().all())
    slots.poison((1, 4), 0x5A)
    assert slots.holds((1, 4), 0x5A)
    assert slots.holds((0, 2, 3, 5), 0xFF)
    assert not slots.holds((0, 1), 0x5A)
    slots.outputs(4)[1][2] = True
    assert not slots.holds((1, 4), 0x5A)
    assert slots.broken_guard() is None


@pytest.mark.parametrize(
    ("name", "offset", "words"),
    [
        ("out", -1, "1 bytes before out"),
        ("x", -1024, "1024 bytes before x"),
        ("mask", 0, "0 bytes after the end of mask"),
    ],
)
def test_a_written_band_is_found_and_named(monkeypatch: pytest.MonkeyPatch, name: str, offset: int, words: str) -> None:
    slots = make_slots(monkeypatch)
    region = slots.input if name == "x" else slots.output
    view = slots.views(5)[name]
    start = view.data_ptr() - region.address
    at = start + offset if offset < 0 else start + view.numel() * view.element_size() + offset
    region.bytes[at] = 0
    assert slots.broken_guard() == f"{words}"
    slots.restore_guards()
    assert slots.broken_guard() is None


def test_a_write_to_an_input_or_parameter_shows_in_the_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = make_slots(monkeypatch)
    for slot in range(slots.count):
        slots.inputs(slot)[0].normal_()
    some = (0, 2)
    before = slots.sums(some)
    assert slots.changed(before, some) is None
    slots.inputs(2)[0][0, :2] = slots.inputs(2)[0][0, :2].flip(0)
    assert slots.changed(before, some) == "x"
    before = slots.sums(some)
    slots.parameters[0][1] = 7.0
    assert slots.changed(before, some) == "scale"


def test_workspaces_have_bands_too() -> None:
    made = DeviceWorkspaces((Workspace(name="a", size_bytes=100), Workspace(name="b", size_bytes=8)), CPU)
    made.poison(0x5A)
    assert made.broken_guard() is None
    assert all(bool((view == 0x5A).all()) for view in made.views().values())
    made.region.bytes[made.addresses()["b"] - made.region.address + 8] = 0xFF
    assert made.broken_guard() == "0 bytes after the end of b"


@pytest.mark.parametrize("source", ["input", "output", "workspace"])
def test_a_copied_band_is_no_band(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    """A kernel that goes too far reads one region's band and writes it over another's."""
    slots = make_slots(monkeypatch)
    scratch = DeviceWorkspaces((Workspace(name="a", size_bytes=100),), CPU)
    regions = {"input": slots.input, "output": slots.output, "workspace": scratch.region}
    read = regions.pop(source).bytes[:4].clone()  # every region begins with a band
    assert bool(read.view(torch.float32).isnan().all())
    for region in regions.values():
        region.bytes[ALIGNED : ALIGNED + 4].copy_(read)
    found = {"input": slots.broken_guard(), "output": slots.broken_guard(), "workspace": scratch.broken_guard()}
    assert {name for name, place in found.items() if name in regions and not place} == set()


def test_too_little_memory_is_the_users_fault() -> None:
    with pytest.raises(UserError, match="GiB of device memory"):
        DeviceSlots(softmax_problem(), CPU, cache_bytes=1 << 20, free_bytes=1 << 16)
