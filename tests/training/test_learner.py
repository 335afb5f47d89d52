"""Masked log-probabilities, their gradients and the clipped loss, against plain references in float64."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from kernelwright.training.models.learner import Episode, Learner, Rates, masked_log_softmax, scored
from kernelwright.training.models.schedules import ScheduleAuthor
from kernelwright.training.vocabulary import words


@pytest.fixture
def author() -> ScheduleAuthor:
    return ScheduleAuthor(words(("op:add", "loops", "=true", "=false", "unroll")), seed=1)


def episode(author: ScheduleAuthor, chosen: str = "=true") -> Episode:
    ids = author.ids(("<begin>", "op:add", "<choose>", "unroll", chosen))
    return Episode(ids=ids, decisions=[4], allowed=[author.ids(("=true", "=false"))], logs=[math.log(0.5)])


def test_masked_probabilities_are_those_of_the_allowed_words_alone() -> None:
    logits = torch.randn(3, 7, generator=torch.Generator().manual_seed(0))
    allowed = [[0, 1], [6], [2, 3, 5]]
    found = masked_log_softmax(logits, allowed).exp()
    for row, kept in enumerate(allowed):
        expected = torch.softmax(logits[row, kept].double(), dim=0)
        torch.testing.assert_close(found[row, kept].double(), expected, rtol=1e-6, atol=1e-7)
        assert found[row].sum().item() == pytest.approx(1.0, abs=1e-6)


def test_scores_are_what_sampling_saw_whatever_the_padding(author: ScheduleAuthor) -> None:
    begun = Episode(ids=author.ids(("<begin>", "op:add", "<choose>")), allowed=[])
    longer = Episode(ids=author.ids(("<begin>", "op:add", "loops", "loops", "<choose>")), allowed=[])
    asked = [("unroll", ("=true", "=false"), (True, True))] * 2
    for _ in range(3):
        author.decide([begun, longer], asked, temperature=0.7, generator=torch.Generator().manual_seed(3))
    logs, entropy = scored(author, [begun, longer], 0.7)
    torch.testing.assert_close(logs.detach(), torch.tensor(begun.logs + longer.logs), rtol=1e-5, atol=1e-6)
    shares = logs.detach().exp().double()
    torch.testing.assert_close(
        entropy.detach().double(), -(shares * shares.log() + (1 - shares) * (1 - shares).log()), rtol=1e-4, atol=1e-5
    )


def test_a_word_that_may_not_be_said_is_not_said_and_gets_no_gradient(author: ScheduleAuthor) -> None:
    rows = [Episode(ids=author.ids(("<begin>", "<choose>")), allowed=[]) for _ in range(50)]
    asked = [("unroll", ("=true", "=false", "loops"), (False, True, False))] * 50
    picked = author.decide(rows, asked, temperature=1.0, generator=torch.Generator().manual_seed(0))
    assert picked == [1] * 50
    logits = torch.zeros(1, 4, requires_grad=True)
    (gradient,) = torch.autograd.grad(masked_log_softmax(logits, [[0, 1]])[0, 0], logits)
    torch.testing.assert_close(gradient, torch.tensor([[0.5, -0.5, 0.0, 0.0]]))


@pytest.mark.parametrize(("advantage", "sign"), [(1.0, 1), (-1.0, -1)])
def test_an_advantage_moves_the_probability_its_way(author: ScheduleAuthor, advantage: float, sign: int) -> None:
    one = episode(author)
    one.logs = scored(author, [one], 1.0)[0].tolist()
    Learner(author, Rates(learning=1e-3, entropy=0.0)).reinforce([one], [advantage])
    after = scored(author, [one], 1.0)[0].item()
    assert (after - one.logs[0]) * sign > 0


def test_the_clipped_loss_is_ppos(author: ScheduleAuthor) -> None:
    one = episode(author)
    ratio = math.exp(scored(author, [one], 1.0)[0].item() - one.logs[0])
    rates = Rates(learning=0.0, entropy=0.0, clip_low=0.2, clip_high=0.28)
    for gain in (2.0, -2.0):
        expected = -min(ratio * gain, min(max(ratio, 0.8), 1.28) * gain)
        found = Learner(author, rates).reinforce([one, one], [gain, gain])
        assert found["loss"] == pytest.approx(expected, rel=1e-5)


def test_micro_batches_give_the_gradient_of_the_whole(author: ScheduleAuthor) -> None:
    some = [episode(author, word) for word in ("=true", "=false", "=true")]
    whole = Learner(author, Rates(learning=0.0)).imitate(some, [1.0, 2.0, 0.5])
    parts = Learner(author, Rates(learning=0.0, micro=1)).imitate(some, [1.0, 2.0, 0.5])
    assert parts == pytest.approx(whole, rel=1e-4)


def test_no_difference_in_a_group_teaches_nothing(author: ScheduleAuthor) -> None:
    before = author.module.words.weight.clone()
    assert Learner(author, Rates()).reinforce([episode(author)], [0.0]) == {"loss": 0.0, "gradient": 0.0}
    assert torch.equal(author.module.words.weight, before)


def test_what_was_saved_learns_on_alike(author: ScheduleAuthor, tmp_path: Path) -> None:
    learner = Learner(author, Rates())
    learner.imitate([episode(author)], [1.0])
    author.save(tmp_path)
    learner.save(tmp_path / "optimiser.pt")
    other = ScheduleAuthor.load(tmp_path)
    again = Learner(other, Rates())
    again.load(tmp_path / "optimiser.pt")
    for each, whose in ((learner, author), (again, other)):
        each.imitate([episode(whose, "=false")], [1.0])
    assert torch.equal(author.module.words.weight, other.module.words.weight)
