from __future__ import annotations

import pytest
import torch
from tests.judge.kernel_files import make_problem

from kernelwright.judge.contents import KINDS, Refresher
from kernelwright.types import TensorSpec, replace

X = make_problem("softmax").inputs[0]
GIVEN = (torch.randn(64, 256, generator=torch.Generator().manual_seed(1)),)


def test_refreshed_slots_are_never_what_they_were() -> None:
    slots = [(torch.empty(64, 256),) for _ in range(3)]
    refresher = Refresher((X,), [GIVEN, (GIVEN[0].flip(0),)], (), 5)
    refresher.refresh(slots)
    for _ in range(10):
        before = [x.clone() for (x,) in slots]
        refresher.refresh(slots)
        for old, (new,) in zip(before, slots, strict=True):
            assert not torch.equal(old, new)
            assert new.nan_to_num(0.0).std() == pytest.approx(1, abs=0.3)


def test_a_slot_that_is_alone_resembles_what_it_held() -> None:
    slot = (torch.empty(64, 256),)
    refresher = Refresher((X,), [GIVEN, (GIVEN[0].flip(0),)], (), 5)
    refresher.refresh([slot])
    same_ends, shares = 0, []
    for _ in range(40):
        before = slot[0].clone().view(-1)
        refresher.refresh([slot])
        after = slot[0].view(-1)
        assert not torch.equal(before, after)
        shares.append(float((before == after).float().mean()))
        same_ends += bool(before[0] == after[0]) and bool(before[-1] == after[-1])
    assert same_ends > 20
    assert 0.3 < sum(shares) / 40 < 0.9


def test_refreshed_slots_are_no_multiples_of_one_another() -> None:
    one, two = [(torch.empty(64, 256),) for _ in range(2)]
    Refresher((X,), [GIVEN], (), 5).refresh([one, two])
    ratios = (one[0] / two[0]).reshape(-1)
    ratios = ratios[ratios.isfinite() & (ratios != 1)]  # most slots are equal to another one in part
    assert float(((ratios / ratios.median()) - 1).abs().median()) > 0.02


def test_slots_refreshed_together_are_equal_in_part_and_never_as_a_whole() -> None:
    slots = [(torch.empty(64, 256), torch.empty(64, 256)) for _ in range(40)]
    y = TensorSpec(name="y", shape=(64, 256), dtype="float32", role="input")
    Refresher((X, y), [(GIVEN[0], GIVEN[0].flip(0))], (), 5).refresh(slots)
    shares = torch.tensor(
        [
            [float((new == old).float().mean()) for new, old in zip(slots[i], slots[i - 1], strict=True)]
            for i in range(1, 40)
        ]
    )
    assert ((shares > 0.2).float().mean(0) > 0.4).all()
    assert ((shares < 0.01).float().mean(0) > 0.02).all()
    assert ((shares > 0.999).any(0)).all()
    only_one = Refresher((X,), [GIVEN], (), 6)
    singles = [(torch.empty(64, 256),) for _ in range(40)]
    only_one.refresh(singles)
    assert not any(torch.equal(singles[i][0], singles[i - 1][0]) for i in range(1, 40))


def test_some_slots_hold_wild_elements_where_the_reference_stands_them() -> None:
    slots = [(torch.empty(64, 256),) for _ in range(64)]
    refresher = Refresher((X,), [GIVEN], (), 5)
    refresher.refresh(slots)
    assert not any(bool((x.abs() > 100).any()) for (x,) in slots)
    refresher.wild = True
    refresher.refresh(slots)
    wild = sum(bool((x > 100).any()) and bool((x < -100).any()) for (x,) in slots)
    odd = sum(bool(x.isnan().any()) for (x,) in slots)
    assert 16 < wild < 48
    assert 1 <= odd < 24


def test_every_eight_slots_hold_every_kind_and_say_so() -> None:
    slots = [(torch.empty(64, 256),) for _ in range(8)]
    refresher = Refresher((X,), [GIVEN], (), 5)
    refresher.wild = True
    for _ in range(5):
        kinds = refresher.refresh(slots)
        assert sorted(kinds) == sorted(KINDS)
        assert [bool(x.isnan().any()) for (x,) in slots] == [kind == "nan" for kind in kinds]
        assert [bool((x.abs() > 100).any()) for (x,) in slots] == [kind == "wild" for kind in kinds]


def test_limited_inputs_stay_within_their_limits_in_timed_rounds() -> None:
    spec = replace(X, low=-1.0, high=1.0)
    slots = [(torch.empty(64, 256),) for _ in range(16)]
    refresher = Refresher((spec,), [(GIVEN[0].clamp(-1, 1),)], (), 5)
    refresher.wild = True
    refresher.refresh(slots)
    assert all(bool((x.abs() <= 1).all()) for (x,) in slots)


def test_refreshed_parameters_change_in_part_and_stay_finite() -> None:
    weight = torch.randn(32)
    refresher = Refresher((X,), [GIVEN], (weight, torch.tensor(3)), 5)
    memory = [torch.zeros(32), torch.tensor(3)]
    partial = 0
    for _ in range(32):
        before = memory[0].clone()
        refresher.refresh_parameters(memory)
        assert not torch.equal(before, memory[0])
        assert bool(memory[0].isfinite().all())
        assert not torch.allclose(memory[0] / weight, (memory[0] / weight)[0].expand(32))
        partial += bool((before == memory[0]).any())
    assert partial == 21  # the first call fills the memory
    assert float(memory[0][0]) != float(weight[0])
    assert int(memory[1]) == 3


def test_whole_rows_hardly_ever_come_again() -> None:
    slots = [(torch.empty(64, 256),) for _ in range(16)]
    refresher = Refresher((X,), [GIVEN, (GIVEN[0].flip(0),)], (), 5)
    seen: set[bytes] = set()
    again = 0
    for _ in range(6):
        refresher.refresh(slots)
        rows = [row.numpy().tobytes() for (x,) in slots for row in x]
        again += sum(row in seen for row in rows)
        seen.update(rows)
    assert again < 0.15 * 6 * 16 * 64
