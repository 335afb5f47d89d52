"""Operators: values, the guard's misses, torch.compile, gradients, threads."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.deploy.making import JOINT, joint_problem, launcher_or_skip, problem, remembered

import kernelwright
from kernelwright.deploy import Shadow
from kernelwright.deploy.export import export
from kernelwright.deploy.operator import Operator
from kernelwright.errors import UserError


def reference(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.relu(x.double() * weight.double())


@pytest.fixture(params=["python", "compiled"])
def op(request: pytest.FixtureRequest, scale_bundle: Path) -> Operator:
    if request.param == "compiled":
        launcher_or_skip()
    return kernelwright.load(scale_bundle, launcher=request.param, shadow=Shadow(first=0, every=0))


@pytest.fixture
def tensors() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(8, 64), torch.randn(64)


def close(found: object, wanted: torch.Tensor) -> bool:
    return isinstance(found, torch.Tensor) and torch.allclose(found.double(), wanted, rtol=1e-6, atol=1e-7)


def launches(op: Operator, *tensors: torch.Tensor) -> int:
    """Returns how often a call reached the kernel."""
    before = op.launched()
    wanted = reference(*(t.detach() for t in tensors))
    assert close(op(*tensors), wanted)
    return op.launched() - before


def test_a_call_inside_runs_the_kernel(op: Operator, tensors: tuple[torch.Tensor, torch.Tensor]) -> None:
    assert launches(op, *tensors) == 1
    assert launches(op, torch.randn(100, 64), tensors[1]) == 1  # its rows may vary
    assert launches(op, torch.nn.Parameter(tensors[0], requires_grad=False), tensors[1]) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.double(),
        lambda x: torch.randn(64, 8).t(),
        lambda x: torch.randn(8, 65)[:, 1:],
        lambda x: torch.randn(8 * 64 + 1)[1:].view(8, 64),  # four bytes off
        lambda x: torch.randn(2, 8, 64),
        lambda x: torch.randn(64),
        lambda x: torch.randn(5000, 64),
        lambda x: torch.randn(0, 64),
        lambda x: x.clone().requires_grad_(),
    ],
    ids=["dtype", "strides", "slice", "alignment", "rank", "vector", "axis", "empty", "gradient"],
)
def test_a_call_outside_goes_to_the_original(op: Operator, change: Any) -> None:
    x = change(torch.randn(8, 64))
    weight = torch.randn(64)
    assert launches(op, x, weight) == 0


def test_subclasses_modes_transforms_and_autocast_do_not_reach_the_kernel(
    op: Operator, tensors: tuple[torch.Tensor, torch.Tensor]
) -> None:
    x, weight = tensors
    before = op.launched()
    stacked = torch.vmap(lambda row: op(row, weight))(x.unsqueeze(0))
    assert close(stacked[0], reference(x, weight))
    gradient = torch.func.grad(lambda t: op(t, weight).sum())(x)
    assert torch.equal(gradient, torch.where(x * weight > 0, weight, 0.0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert close(op(x, weight), reference(x, weight))
    assert op.launched() == before
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        fake = op(mode.from_tensor(x), mode.from_tensor(weight))
    assert isinstance(fake, torch.Tensor)
    assert fake.shape == (8, 64)
    with pytest.raises(RuntimeError):
        op(x)


def test_it_lives_inside_a_compiled_graph(op: Operator, tensors: tuple[torch.Tensor, torch.Tensor]) -> None:
    x, weight = tensors

    def whole(x: torch.Tensor, weight: torch.Tensor) -> Any:
        return op(x, weight) * 2 + 1

    compiled = torch.compile(whole, fullgraph=True, backend="aot_eager")
    before = op.launched()
    assert close(compiled(x, weight), reference(x, weight) * 2 + 1)
    assert op.launched() == before + 1
    again = torch.randn(13, 64)
    assert close(compiled(again, weight), reference(again, weight) * 2 + 1)
    x.requires_grad_()
    compiled(x, weight).sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, torch.where(x.detach() * weight > 0, 2 * weight, 0.0))


def test_torch_finds_the_registration_complete(op: Operator, tensors: tuple[torch.Tensor, torch.Tensor]) -> None:
    torch.library.opcheck(op.overload, tensors)
    torch.library.opcheck(op.overload, (tensors[0].clone().requires_grad_(), tensors[1]))


def test_inference_only_is_said(scale_bundle: Path, tensors: tuple[torch.Tensor, torch.Tensor]) -> None:
    op = kernelwright.load(scale_bundle, gradients="error")
    with pytest.raises(UserError, match="inference only"):
        op(tensors[0].clone().requires_grad_(), tensors[1])
    with torch.no_grad():
        assert close(op(tensors[0].clone().requires_grad_(), tensors[1]), reference(*tensors))


def test_eight_threads_get_their_own_answers(op: Operator) -> None:
    weight = torch.randn(64)
    faults: list[int] = []

    def work(seed: int) -> None:
        x = torch.full((16, 64), float(seed))
        faults.extend(seed for _ in range(200) if not close(op(x, weight), reference(x, weight)))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert op.launched() >= 1600


@pytest.mark.parametrize("forward", [True, False], ids=["both", "joint alone"])
def test_a_joint_kernel_computes_the_gradients(tmp_path: Path, forward: bool) -> None:
    both = [remembered(tmp_path, JOINT, joint_problem())]
    if forward:
        both.append(remembered(tmp_path, what=problem(dynamic=False)))
    op = kernelwright.load(export(both, tmp_path / "bundle"), shadow=Shadow(first=1, every=0))
    assert op.has_backward
    x, weight = torch.randn(8, 64).requires_grad_(), torch.randn(64).requires_grad_()
    factor = torch.randn(8, 64)
    wanted = torch.autograd.grad((torch.relu(x * weight) * factor).sum(), (x, weight))
    for call in (op, torch.compile(lambda a, b: op(a, b), fullgraph=True, backend="aot_eager")):
        for _ in range(2):
            out = call(x, weight)
            assert torch.equal(out, torch.relu(x * weight))
            found = torch.autograd.grad((out * factor).sum(), (x, weight))
            assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(found, wanted, strict=True))
    backward = op.backward
    assert backward is not None
    assert backward.launched() == 4
    assert backward.watch.checked >= 1
    assert not backward.watch.reason
    assert op.launched() == (4 if forward else 0)
    (only,) = torch.autograd.grad(op(x, weight.detach()).sum(), (x,))
    assert torch.equal(only, torch.where(x * weight > 0, weight, 0.0))


def test_loading_leaves_the_random_state_alone(scale_bundle: Path) -> None:
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    kernelwright.load(scale_bundle)
    assert torch.equal(torch.rand(3), wanted)


def test_a_bundle_is_asked_by_name(scale_bundle: Path) -> None:
    assert kernelwright.load(scale_bundle, "scale_relu").problem.name == "scale_relu"
    with pytest.raises(UserError, match="scale_relu"):
        kernelwright.load(scale_bundle, "softmax")


def test_torchs_own_road_leads_to_the_kernel_and_back(op: Operator, tensors: tuple[torch.Tensor, torch.Tensor]) -> None:
    x, weight = tensors
    call = op.overload
    before = op.launched()
    assert close(call(x, weight), reference(x, weight))
    with torch.inference_mode():
        assert close(call(x, weight), reference(x, weight))
    leaf = x.clone().requires_grad_()
    with torch.no_grad():
        assert close(call(leaf, weight), reference(x, weight))
    assert op.launched() == before + 3
    for outside in (x.double(), torch.randn(64, 8).t(), torch.randn(8, 65)[:, 1:]):
        assert close(call(outside, weight.to(outside.dtype)), reference(outside, weight))
    call(leaf, weight).sum().backward()
    assert leaf.grad is not None
    assert torch.equal(leaf.grad, torch.where(x * weight > 0, weight, torch.zeros(())).expand(8, 64))
    assert op.launched() == before + 3
    with pytest.raises(RuntimeError, match="must match the size"):  # the original's own words
        call(x, torch.randn(63))


def test_torchs_own_road_has_its_calls_checked(scale_bundle: Path, tensors: tuple[torch.Tensor, torch.Tensor]) -> None:
    launcher_or_skip()
    op = kernelwright.load(scale_bundle, launcher="compiled", shadow=Shadow(first=1, every=2))
    for _ in range(4):
        assert close(op.overload(*tensors), reference(*tensors))
    assert (op.launched(), op.watch.checked) == (4, 2)
    op.watch.disable("a test wants it so", quietly=True)
    assert close(op.overload(*tensors), reference(*tensors))
    assert op.launched() == 4
