"""Families of indices, lengths and masks: what they change, and what every draw has in common they keep."""

from __future__ import annotations

import pytest
import torch

from kernelwright.judge.contents import Refresher
from kernelwright.judge.inputs import fill_structured, observed
from kernelwright.judge.structured import STRUCTURED, Structure, fill, observe
from kernelwright.types import Dtype, TensorSpec

G = torch.Generator


def spec(shape: tuple[int, ...], dtype: Dtype = "int64", high: float | None = None) -> TensorSpec:
    low = None if high is None else 0.0
    return TensorSpec(name="i", shape=shape, dtype=dtype, role="input", low=low, high=high)


def seen(draws: list[torch.Tensor], sizes: tuple[int, ...] = (), high: float | None = None) -> Structure:
    name = str(draws[0].dtype).removeprefix("torch.")
    found = observe(spec(tuple(draws[0].shape), name, high), draws, free=False, sizes=sizes)
    assert found is not None
    return found


def made(family: str, given: torch.Tensor, structure: Structure) -> torch.Tensor:
    found = fill(family, given, structure, G().manual_seed(3))
    assert found is not None
    assert (found.shape, found.dtype) == (given.shape, given.dtype)
    return found


def draws_of(high: int, shape: tuple[int, ...] = (64, 8)) -> list[torch.Tensor]:
    return [torch.randint(0, high, shape, generator=G().manual_seed(i)) for i in range(4)]


def test_indices_reach_the_limit_that_another_tensor_sets() -> None:
    draws = draws_of(5000)
    structure = seen(draws, sizes=(5000, 32, 8))
    assert (structure.kind, int(structure.low), int(structure.high)) == ("free", 0, 4999)
    assert bool((made("highest", draws[0], structure) == 4999).all())
    assert bool((made("lowest", draws[0], structure) == 0).all())
    # A size that is far from what was seen is no limit.
    assert int(seen(draws, sizes=(90_000,)).high) == int(max(t.max() for t in draws))
    assert int(seen(draws, sizes=(), high=9999.0).high) == 9999


def test_indices_are_sorted_permuted_repeated_and_few() -> None:
    draws = draws_of(500)
    structure = seen(draws, sizes=(500,))
    assert bool((made("sorted", draws[0], structure).diff(dim=-1) >= 0).all())
    permuted = made("permuted", draws[0], structure)
    assert torch.equal(permuted.sort(0).values, draws[0].sort(0).values)
    assert bool((made("repeated", draws[0], structure) == draws[0][:, :1]).all())
    assert all(len(set(column.tolist())) <= 2 for column in made("sparse", draws[0], structure).T)
    assert len(set(made("dense", draws[0], structure).flatten().tolist())) > 200
    single = made("single", draws[0], structure)
    assert bool(((single == 499).sum(-1) == 1).all())
    assert bool(((single == 0).sum(-1) == 7).all())


def test_columns_keep_ranges_of_their_own() -> None:
    tops = torch.tensor([3, 1000, 50])
    draws = [(torch.rand(64, 3, generator=G().manual_seed(i)) * tops).long() for i in range(4)]
    structure = seen(draws)
    for family in STRUCTURED:
        found = fill(family, draws[0], structure, G().manual_seed(1))
        if family not in ("sorted", "repeated") and found is not None:
            assert bool((found < tops).all()), family


def test_rows_that_are_always_sorted_stay_sorted_with_their_ends() -> None:
    draws = []
    for i in range(4):
        inner = torch.randint(0, 1000, (30,), generator=G().manual_seed(i)).sort().values
        draws.append(torch.cat([torch.tensor([0]), inner, torch.tensor([1000])]))
    structure = seen(draws)
    assert structure.kind == "ordered"
    for family in ("lowest", "highest", "dense", "permuted", "repeated", "sparse"):
        found = made(family, draws[0], structure)
        assert bool((found.diff() >= 0).all())
        assert (int(found[0]), int(found[-1])) == (0, 1000)


def test_rows_without_repetition_stay_so() -> None:
    draws = [torch.randperm(40, generator=G().manual_seed(i)).view(4, 10) for i in range(4)]
    structure = seen(draws)
    assert structure.kind == "distinct"
    for family in ("permuted", "sorted", "highest"):
        found = made(family, draws[0], structure)
        assert torch.equal(found.sort(-1).values, draws[0].sort(-1).values)
    assert fill("repeated", draws[0], structure, G()) is None


def test_masks_come_in_other_densities() -> None:
    draws = [torch.rand(64, 32, generator=G().manual_seed(i)) < 0.5 for i in range(4)]
    structure = seen(draws)
    assert structure.kind == "free"
    share = {family: float(made(family, draws[0], structure).float().mean()) for family in STRUCTURED}
    assert share["lowest"] == 0
    assert share["highest"] == 1
    assert 0.02 < share["sparse"] < 0.2
    assert 0.8 < share["dense"] < 0.98
    assert bool((made("single", draws[0], structure).sum(-1) == 1).all())


@pytest.mark.parametrize("flipped", [False, True])
def test_padding_masks_stay_padding_masks(flipped: bool) -> None:
    def mask(i: int) -> torch.Tensor:
        found = torch.arange(32) >= torch.randint(1, 33, (16, 1), generator=G().manual_seed(i))
        return found.flip(-1) if flipped else found

    draws = [mask(i) for i in range(4)]
    structure = seen(draws)
    assert (structure.kind, structure.descending) == ("ordered", flipped)
    for family in ("lowest", "highest", "sparse", "dense", "single", "permuted"):
        found = made(family, draws[0], structure).to(torch.int8).diff(dim=-1)
        assert bool((found <= 0).all() if flipped else (found >= 0).all())
    assert bool(made("highest", draws[0], structure).all())
    assert not made("lowest", draws[0], structure).any()


def test_a_family_without_anything_to_vary_does_not_apply() -> None:
    x = torch.randn(8, 8)
    assert observed((spec((8, 8), "float32"),), [(x,)]) == (None,)
    assert fill_structured("highest", (None,), (x,), 1) is None
    flags = (x > 0).float()
    structures = observed((spec((8, 8), "float32"),), [(flags,)])
    assert fill_structured("highest", structures, (flags,), 1) is None
    (permuted,) = fill_structured("permuted", structures, (flags,), 1) or (flags,)
    assert torch.equal(permuted.sort(-1).values, flags.sort(-1).values)
    assert not torch.equal(permuted, flags)


@pytest.mark.parametrize("kind", ["free", "mask", "padding", "ordered", "distinct"])
def test_slots_of_integers_never_hold_what_they_held_before(kind: str) -> None:
    def draw(i: int) -> torch.Tensor:
        g = G().manual_seed(i)
        return {
            "free": lambda: torch.randint(0, 500, (64, 8), generator=g),
            "mask": lambda: torch.rand(64, 8, generator=g) < 0.3,
            "padding": lambda: torch.arange(64) >= torch.randint(1, 65, (64, 1), generator=g),
            "ordered": lambda: torch.randint(0, 5000, (64,), generator=g).sort().values,
            "distinct": lambda: torch.stack([torch.randperm(64, generator=g) for _ in range(16)]),
        }[kind]()

    draws = [(draw(i),) for i in range(4)]
    name = str(draws[0][0].dtype).removeprefix("torch.")
    refresher = Refresher((spec(tuple(draws[0][0].shape), name),), draws, (), 5)
    slots = [(torch.empty_like(draws[0][0]),) for _ in range(16)]
    kept: set[bytes] = set()
    for _ in range(8):
        refresher.refresh(slots)
        kept |= {t.numpy().tobytes() for (t,) in slots}
        for (t,) in slots:
            assert t.long().min() >= 0
            assert t.long().max() < 5000
            if kind in ("padding", "ordered"):
                assert bool((t.long().diff(dim=-1) >= 0).all())
            if kind == "distinct":
                assert bool((t.sort(-1).values.diff(dim=-1) != 0).all())
    assert len(kept) == 16 * 8
    assert not kept & {t.numpy().tobytes() for (t,) in draws}


def test_whole_draws_are_used_where_the_reference_accepts_no_others() -> None:
    draws = [(t,) for t in draws_of(500)]
    refresher = Refresher((spec((64, 8)),), draws, (), 5)
    refresher.mixer.active = False
    slots = [(torch.empty(64, 8, dtype=torch.int64),) for _ in range(8)]
    refresher.refresh(slots)
    assert all(any(torch.equal(t, d) for (d,) in draws) for (t,) in slots)
