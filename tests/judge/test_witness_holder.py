"""The witness worker's inside, without its process: loading, state, calls, results, and every fault as a value."""

from __future__ import annotations

import pytest
import torch
from tests.judge.python_files import python_files, python_problem
from tests.judge.witness_stand import Stand

from kernelwright.judge.witness.loading import Stopped

HONEST = next(f for f in python_files("honest_python") if f.path.stem == "plain").path.read_text()


def expected(stand: Stand, slot: int) -> tuple[torch.Tensor, torch.Tensor]:
    x, (weight, bias) = stand.slots.inputs[slot][0].double(), stand.slots.parameters
    return torch.nn.functional.layer_norm(x, (256,), weight.double(), bias.double(), 1e-5), x.amax(-1)


def assert_right(stand: Stand, slot: int) -> None:
    for output, wanted in zip(stand.slots.outputs[slot], expected(stand, slot), strict=True):
        torch.testing.assert_close(output.double(), wanted, rtol=1e-4, atol=1e-5)


@pytest.fixture
def stand() -> Stand:
    return Stand(python_problem())


def test_results_follow_contents_and_parameters_at_old_and_new_addresses(stand: Stand) -> None:
    stand.draw(0)
    assert stand.load(HONEST) == []
    for seed, moved in ((1, False), (2, True), (3, False)):
        stand.draw(seed)
        assert stand.call((0, 1, 2), moved=moved) == []
        for slot in (0, 1, 2):
            assert_right(stand, slot)
    stamps = stand.memory.stamps[:3]
    assert (stamps[:, 1] > stamps[:, 0]).all()
    assert (stamps[1:, 0] >= stamps[:-1, 1]).all()


def test_empty_calls_before_loading_cost_what_the_judge_wants_to_know(stand: Stand) -> None:
    stand.draw(0)
    assert stand.call(()) == []
    assert stand.call((0, 1)) == []
    assert bool((stand.slots.outputs[0][0] == 1).all())


@pytest.mark.parametrize(
    ("body", "check", "words"),
    [
        ("x.add_(1); return y, m", "inputs unchanged", "input x"),
        ("self.weight.data.add_(1); return y, m", "inputs unchanged", "weight"),
        ("return y", "structure", "is a Tensor, not a tuple of 2"),
        ("return y, x[:, 0]", "structure", "strides"),
        ("return y, x.view(-1)[:64]", "structure", "shares memory with x"),
        ("return x.t_().t_(), m", "structure", "shares memory with x"),
        ("return y, self.weight.data[:64]", "structure", "shares memory with weight"),
        ("return y, y.view(-1)[:64]", "structure", "share the same memory"),
        ("torch.set_grad_enabled(True); return y, m", "environment", "gradient mode"),
        ("torch.set_autocast_enabled('cpu', True); return y, m", "environment", "autocast"),
    ],
)
def test_what_a_call_must_not_do(body: str, check: str, words: str, stand: Stand) -> None:
    stand.draw(0)
    text = HONEST.replace("        return F.layer_norm", "        y, m = F.layer_norm") + f"        {body}\n"
    stand.load(text)
    found = stand.call((0, 1))
    assert found
    assert found[0][0] == check
    assert words in found[0][1]


def test_the_same_memory_twice_is_found_within_a_block(stand: Stand) -> None:
    stand.draw(0)
    text = HONEST.replace("        return F.layer_norm", "        y, m = F.layer_norm")
    stand.load(f"{text}        KEPT.append((y, m))\n        return KEPT[0]\n\nKEPT = []\n")
    assert stand.call((0,)) == []
    assert "two calls returned the same memory" in stand.call((1, 2))[0][1]


@pytest.mark.parametrize(
    ("text", "kind", "location", "words"),
    [
        ("class ModelNew(:\n", "syntax", "kernel.py:1", "invalid syntax"),
        ("import torch\nimport nothing_like_it\n", "import", "kernel.py:2", "nothing_like_it"),
        ("raise SystemExit(3)\n", "exit", "kernel.py:1", "SystemExit"),
        ("class ModelNew(Model):\n    pass\n", "exception", "kernel.py:1", "reference's class is not there"),
        ("x = 1\n", "contract", "", "defines no class ModelNew"),
        ("def ModelNew():\n    pass\n", "contract", "", "not as a torch.nn.Module"),
    ],
)
def test_what_cannot_be_loaded_is_said_with_its_line(
    text: str, kind: str, location: str, words: str, stand: Stand
) -> None:
    with pytest.raises(Stopped, match=words) as caught:
        stand.load(text)
    assert (caught.value.failure["kind"], caught.value.failure["location"]) == (kind, location)
    assert caught.value.failure["stage"] == "load"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("self.bias = None", "lacks bias"),
        ("self.more = nn.Parameter(torch.ones(2))", "has more, which the reference has not"),
        ("self.register_buffer('table', torch.ones(2))", "has table.*persistent=False"),
        ("self.bias = nn.Parameter(torch.zeros(width, dtype=torch.float64))", "bias of ModelNew is torch.float64"),
        ("self.bias = nn.Parameter(torch.zeros(1))", r"bias of ModelNew is torch.float32\[1\]"),
    ],
)
def test_the_state_is_held_to_the_references_names(change: str, words: str, stand: Stand) -> None:
    with pytest.raises(Stopped, match=words) as caught:
        stand.load(HONEST.replace("        self.eps = eps", f"        self.eps = eps\n        {change}"))
    assert caught.value.failure["kind"] == "state"


def test_scratch_memory_is_no_state(stand: Stand) -> None:
    scratch = "self.register_buffer('table', torch.ones(2), persistent=False)"
    assert stand.load(HONEST.replace("        self.eps = eps", f"        self.eps = eps\n        {scratch}")) == []


def test_an_exception_in_a_call_names_the_candidates_own_line(stand: Stand) -> None:
    stand.draw(0)
    stand.load(HONEST.replace("return F.layer_norm", "raise ValueError('odd width'); return F.layer_norm"))
    with pytest.raises(Stopped, match="ValueError: odd width") as caught:
        stand.call((0,))
    line = next(n for n, text in enumerate(HONEST.splitlines(), 1) if "return F.layer_norm" in text)
    assert caught.value.failure["location"] == f"kernel.py:{line}"
    assert "in forward" in caught.value.failure["detail"]


def test_renewing_forgets_what_was_kept(stand: Stand) -> None:
    stand.draw(0)
    keeping = "        y, m = F.layer_norm"
    text = HONEST.replace("        return F.layer_norm", keeping)
    stand.load(
        f"{text}        KEPT.append((y, m))\n        return KEPT[0][0].clone(), KEPT[0][1].clone()\n\nKEPT = []\n"
    )
    assert stand.call((0,)) == []
    stand.draw(1)
    stand.call((0,))
    with pytest.raises(AssertionError):
        assert_right(stand, 0)
    assert stand.holder.renew() == []
    assert stand.call((0,)) == []
    assert_right(stand, 0)


def test_operators_are_a_label(stand: Stand) -> None:
    stand.draw(0)
    stand.load(HONEST)
    stand.call((0,))
    assert stand.holder.operators() == ["native_layer_norm", "amax"]
