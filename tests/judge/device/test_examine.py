"""The device judge's protocol on a device whose kernels are Python functions."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
import torch
from tests.judge.device.fake_device import FakeExecutor, Kernel, artifact_for, candidate_for, softmax_problem
from tests.judge.device.own_passes import emulated
from tests.judge.kernel_files import make_problem
from tests.judge.test_gradients import joint

from kernelwright.judge import draws, parts
from kernelwright.judge.device import arena, floors
from kernelwright.judge.device.examine import examine, measure_baselines
from kernelwright.judge.device.faults import DeviceFault
from kernelwright.judge.device.session import DeviceSession
from kernelwright.judge.draws import AnyDraws
from kernelwright.judge.exact_bound import Finding
from kernelwright.judge.policies import DEVICE_SCREEN
from kernelwright.types import Failure, Judgement, Policy, Target, Workspace, digest, replace

QUICK = replace(
    DEVICE_SCREEN,
    name="quick",
    families=("given", "negative", "nonfinite"),
    rounds=3,
    block_us=300.0,
    baselines=("graph:eager",),
)
TARGET = Target(kind="cuda", architecture="sm_90a", features=(), threads=1, toolchain=(), device="fake device")
PROBLEM = softmax_problem()


def right(x: torch.Tensor, out: torch.Tensor, **_: torch.Tensor) -> None:
    out.copy_(torch.softmax(x, -1))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    patch = pytest.MonkeyPatch()
    folder = tmp_path_factory.mktemp("home")
    patch.setenv("KERNELWRIGHT_HOME", str(folder))
    patch.setattr(arena, "MOST_SLOTS", 24)
    floors.store(floors.Floors(device="fake device", driver=0, when="", copy={str(1 << 26): 1e9}, read=1e9))
    yield folder
    patch.undo()


@pytest.fixture(scope="module", params=["torch", "own passes"], autouse=True)
def way(request: pytest.FixtureRequest, own_library: ctypes.CDLL) -> Iterator[str]:
    """Every test runs twice: whole tensors are handled through torch, and by the judge's own kernels, emulated."""
    with emulated(own_library) if request.param == "own passes" else nullcontext():
        yield request.param


@pytest.fixture(scope="module")
def executor(way: str) -> FakeExecutor:
    return FakeExecutor({})


@pytest.fixture(scope="module")
def session(executor: FakeExecutor, home: Path) -> DeviceSession:
    return DeviceSession(PROBLEM, TARGET, executor, lambda _: None)


@pytest.fixture
def judge(session: DeviceSession, executor: FakeExecutor, tmp_path: Path) -> Callable[..., Failure | Judgement]:
    def run(
        *kernels: Kernel,
        policy: Policy = QUICK,
        time_us: float = 50.0,
        hidden_us: float = 0.0,
        fault_after: int | None = None,
        scratch: int = 0,
    ) -> Failure | Judgement:
        executor.kernels = {kernel.__name__: kernel for kernel in kernels}
        executor.time_us, executor.hidden_us = time_us, hidden_us
        executor.fault_after, executor.issued = fault_after, 0
        executor.log.clear()
        candidate = candidate_for(PROBLEM, *executor.kernels, workspace_bytes=scratch)
        return examine(session, candidate, artifact_for(candidate, tmp_path), policy)

    return run


def failed_check(outcome: Failure | Judgement) -> str:
    assert isinstance(outcome, Judgement), outcome
    assert outcome.measurements == ()
    return next(check.name for check in outcome.verdict.checks if not check.passed)


def test_a_right_kernel_passes_and_is_timed_beside_the_baseline(judge: Callable[..., Judgement]) -> None:
    outcome = judge(right)
    assert isinstance(outcome, Judgement)
    assert outcome.verdict.passed, outcome.verdict
    times = {m.contender: m for m in outcome.measurements}
    assert times["candidate"].median_us == pytest.approx(50.0)
    assert times["candidate"].mode == "cold"
    assert times["candidate"].samples == QUICK.rounds
    against = outcome.against("graph:eager")
    assert against is not None
    # 100 µs for each of the baseline's blocks of three calls.
    assert times["graph:eager"].median_us == pytest.approx(100.0 / times["graph:eager"].calls)
    assert against.speedup == pytest.approx(times["graph:eager"].median_us / 50.0)
    assert outcome.noise == 0.0
    assert outcome.floor_us == pytest.approx(8 * 32 * 128 / 1e9 * 1e6)


def test_every_mode_of_a_policy_is_measured(judge: Callable[..., Judgement]) -> None:
    outcome = judge(right, policy=replace(QUICK, modes=("cold", "warm", "server")), time_us=50.0)
    assert {(m.contender, m.mode) for m in outcome.measurements} == {
        (name, mode) for name in ("candidate", "graph:eager") for mode in ("cold", "warm", "server")
    }


def test_no_answer_lies_in_memory_while_the_candidate_runs(
    judge: Callable[..., Judgement], session: DeviceSession
) -> None:
    session.prepare(QUICK)
    seen: list[str] = []

    def spy(x: torch.Tensor, out: torch.Tensor) -> None:
        wanted = torch.softmax(x.double(), -1)
        own = out.untyped_storage().data_ptr()
        for tensor in gc.get_objects():
            # Not isinstance: some objects of torch warn when they are asked for their class.
            if type(tensor) is not torch.Tensor or tensor is wanted or not tensor.is_floating_point():
                continue
            if tensor.numel() < wanted.numel() or tensor.untyped_storage().data_ptr() == own:
                continue
            flat = tensor.reshape(-1).double()
            if bool(((flat[: wanted.numel()] - wanted.reshape(-1)).abs() < 1e-5).all()):
                seen.append(str(tuple(tensor.shape)))
        out.copy_(wanted)

    outcome = judge(spy, policy=replace(QUICK, rounds=1, block_us=1.0))
    assert isinstance(outcome, Judgement)
    assert outcome.verdict.passed, outcome.verdict
    assert seen == []


def test_memory_is_scrubbed_before_every_call_of_the_candidate(
    judge: Callable[..., Judgement], executor: FakeExecutor
) -> None:
    judge(right, policy=replace(QUICK, rounds=1))
    before = [executor.log[i - 1] for i, word in enumerate(executor.log) if word == "candidate" and i]
    # The first call of each block or check follows what prepares it; the others of a block follow one another.
    assert set(before) <= {"perturb", "flush", "candidate", "scrub"}
    assert executor.log.index("scrub") < executor.log.index("perturb") < executor.log.index("candidate")


def wrong(x: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(torch.softmax(x.half().float(), -1))


def unwritten(x: torch.Tensor, out: torch.Tensor) -> None:
    out[:-1].copy_(torch.softmax(x[:-1], -1))


def spills(x: torch.Tensor, out: torch.Tensor) -> None:
    right(x, out)
    torch.as_strided(out, (out.numel() + 3,), (1,))[-1] = 0.0


def overwrites(x: torch.Tensor, out: torch.Tensor) -> None:
    right(x, out)
    x[0, 0] += 1.0


def spills_input(x: torch.Tensor, out: torch.Tensor) -> None:
    right(x, out)
    torch.as_strided(x, (1,), (1,), x.storage_offset() - 2)[0] = 0.0


def spills_scratch(x: torch.Tensor, out: torch.Tensor, scratch: torch.Tensor) -> None:
    right(x, out)
    torch.as_strided(scratch, (1,), (1,), scratch.storage_offset() + len(scratch))[0] = 0


@pytest.mark.parametrize(
    ("kernel", "check", "scratch"),
    [
        (wrong, "accuracy", 0),
        (unwritten, "written", 0),
        (spills, "guards", 0),
        (overwrites, "inputs unchanged", 0),
        (spills_input, "guards", 0),
        (spills_scratch, "guards", 64),
    ],
)
def test_a_wrong_kernel_fails_the_check_it_should(
    judge: Callable[..., Failure | Judgement], kernel: Kernel, check: str, scratch: int
) -> None:
    assert failed_check(judge(kernel, scratch=scratch)) == check


def test_a_scratch_that_is_read_before_it_is_written_shows(judge: Callable[..., Failure | Judgement]) -> None:
    def stale(x: torch.Tensor, out: torch.Tensor, scratch: torch.Tensor) -> None:
        out.copy_(torch.softmax(x, -1) + scratch.view(torch.float32)[0].nan_to_num(1.0))

    assert failed_check(judge(stale, scratch=64)) == "accuracy"


def test_an_answer_kept_from_checked_calls_is_found_in_the_timed_ones(
    judge: Callable[..., Failure | Judgement],
) -> None:
    kept: list[torch.Tensor] = []

    def lazy(x: torch.Tensor, out: torch.Tensor) -> None:
        if len(kept) < 2 * len(QUICK.families):
            right(x, out)
            kept.append(out.clone())
        else:
            out.copy_(kept[0])

    assert failed_check(judge(lazy)) == "timed outputs"


def test_a_call_that_does_nothing_once_it_is_timed_is_found(judge: Callable[..., Failure | Judgement]) -> None:
    calls = [0]

    def idle(x: torch.Tensor, out: torch.Tensor) -> None:
        calls[0] += 1
        if calls[0] <= 2 * len(QUICK.families):
            right(x, out)

    assert failed_check(judge(idle)) == "timed outputs"


def test_a_kernel_that_is_careless_once_it_is_timed_meets_every_family(
    judge: Callable[..., Failure | Judgement],
) -> None:
    calls = [0]

    def careless(x: torch.Tensor, out: torch.Tensor) -> None:
        calls[0] += 1
        right(x if calls[0] <= 2 * len(QUICK.families) else x.clamp(-1e30, 1e30).where(~x.isnan(), x), out)

    assert failed_check(judge(careless)) == "timed outputs"


def test_writing_answers_of_calls_that_were_not_made_is_found(
    judge: Callable[..., Failure | Judgement], session: DeviceSession
) -> None:
    def eager_beaver(x: torch.Tensor, out: torch.Tensor) -> None:
        for slot in range(session.slots.count):
            session.slots.outputs(slot)[0].copy_(torch.softmax(session.slots.inputs(slot)[0], -1))

    assert failed_check(judge(eager_beaver, policy=replace(QUICK, block_us=1.0))) == "calls"


def test_a_time_below_the_floor_is_refused(judge: Callable[..., Failure | Judgement], session: DeviceSession) -> None:
    outcome = judge(right, time_us=1e-6)
    assert failed_check(outcome) == "floor"


def test_work_that_the_events_do_not_see_fails_the_clock(judge: Callable[..., Failure | Judgement]) -> None:
    assert failed_check(judge(right, hidden_us=5000.0)) == "clock"


def test_a_fault_of_the_device_is_the_candidates_and_fatal(judge: Callable[..., Failure | Judgement]) -> None:
    with pytest.raises(DeviceFault) as caught:
        judge(right, fault_after=3)
    assert caught.value.fatal
    assert (caught.value.failure.stage, caught.value.failure.kind) == ("run", "memory")
    assert judge(right, time_us=50.0).verdict.passed  # type: ignore[union-attr]


def test_a_plan_whose_kernel_is_missing_fails_at_loading(
    session: DeviceSession, executor: FakeExecutor, tmp_path: Path
) -> None:
    executor.kernels = {}
    candidate = candidate_for(PROBLEM, "nothing")
    with pytest.raises(DeviceFault) as caught:
        examine(session, candidate, artifact_for(candidate, tmp_path), QUICK)
    assert not caught.value.fatal
    assert caught.value.failure.stage == "load"


def test_the_plan_that_the_compiler_made_is_the_one_that_runs(
    session: DeviceSession, executor: FakeExecutor, tmp_path: Path
) -> None:
    executor.kernels = {"right": right}
    author, final = candidate_for(PROBLEM, "softmax_of_the_author"), candidate_for(PROBLEM, "right")
    artifact = replace(artifact_for(final, tmp_path), candidate=digest(author))
    outcome = examine(session, author, artifact, QUICK)
    assert isinstance(outcome, Judgement)
    assert outcome.verdict.passed


def test_workspaces_too_large_for_the_device_are_refused(
    session: DeviceSession, executor: FakeExecutor, tmp_path: Path
) -> None:
    candidate = candidate_for(PROBLEM, "right", workspace_bytes=64)
    huge = replace(candidate, plan=replace(candidate.plan, workspaces=(Workspace(name="scratch", size_bytes=1 << 40),)))
    outcome = examine(session, huge, artifact_for(huge, tmp_path), QUICK)
    assert isinstance(outcome, Failure)
    assert outcome.kind == "memory"


def test_baselines_alone(session: DeviceSession) -> None:
    found = measure_baselines(session, replace(QUICK, baselines=("graph:eager", "eager")))
    assert {m.contender for m in found} == {"graph:eager", "eager"}
    assert all(m.median_us > 0 for m in found)


def test_products_are_timed_with_both_blas_where_several_baselines_are_asked_for(
    home: Path, executor: FakeExecutor
) -> None:
    text = PROBLEM.reference[0].text.replace("torch.softmax(x, -1)", "x @ x.T @ x")
    problem = replace(PROBLEM, name="product", reference=(replace(PROBLEM.reference[0], text=text),))
    made = DeviceSession(problem, TARGET, executor, lambda _: None)
    several = replace(QUICK, families=("given",), baselines=("graph:eager", "eager"))
    assert made._names(QUICK) == ("graph:eager",)
    assert made._names(several) == ("graph:eager", "eager", "library:cublas", "library:cublaslt")


# ------------------------------------------------------------------------------ hidden shapes

DYNAMIC = make_problem("dynamic")
HIDDEN = replace(QUICK, name="hidden", families=("given",), hidden_shapes=3)


@pytest.fixture
def at_hidden_shapes(home: Path, tmp_path: Path) -> Callable[[Kernel], Failure | Judgement]:
    def run(kernel: Kernel) -> Failure | Judgement:
        executor = FakeExecutor({kernel.__name__: kernel})
        made = candidate_for(DYNAMIC, kernel.__name__)
        session = DeviceSession(DYNAMIC, TARGET, executor, lambda _: None)
        return examine(session, made, artifact_for(made, tmp_path), HIDDEN)

    return run


def test_a_kernel_for_every_size_is_right_at_hidden_shapes(at_hidden_shapes: Callable[..., Judgement]) -> None:
    found = at_hidden_shapes(right)
    assert isinstance(found, Judgement)
    assert found.verdict.passed, found.verdict
    (check,) = [c for c in found.verdict.checks if c.name == "hidden shapes"]
    assert check.evidence.count("R=") == 3
    assert "R=1," in check.evidence


def test_a_kernel_for_the_declared_size_is_wrong_at_hidden_ones(at_hidden_shapes: Callable[..., Judgement]) -> None:
    def declared(x: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(torch.softmax(x, -1))
        if tuple(x.shape) != (32, 64):
            out.view(-1)[-1] = 7.0

    found = at_hidden_shapes(declared)
    assert isinstance(found, Judgement)
    (check,) = [c for c in found.verdict.checks if not c.passed]
    assert check.name == "accuracy"
    assert "R=" in check.evidence
    assert found.measurements == ()


# ---------------------------------------------------------------------------------- gradients

JOINT = joint()


def both_passes(factor: float) -> Kernel:
    def kernel(
        x: torch.Tensor, grad_out: torch.Tensor, weight: torch.Tensor,
        out: torch.Tensor, grad_x: torch.Tensor, grad_weight: torch.Tensor,
    ) -> None:  # fmt: skip
        p = torch.softmax(x, -1)
        out.copy_(p * weight)
        scaled = grad_out * weight
        grad_x.copy_(p * (scaled - factor * (scaled * p).sum(-1, keepdim=True)))
        grad_weight.copy_((p * grad_out).sum(0))

    return kernel


@pytest.mark.parametrize(("factor", "passes"), [(1.0, True), (0.999, False)])
def test_forward_and_backward_are_judged_together(factor: float, passes: bool, home: Path, tmp_path: Path) -> None:
    made = candidate_for(JOINT, "kernel")
    session = DeviceSession(JOINT, TARGET, FakeExecutor({"kernel": both_passes(factor)}), lambda _: None)
    found = examine(session, made, artifact_for(made, tmp_path), QUICK)
    assert isinstance(found, Judgement)
    assert found.verdict.passed == passes, found.verdict
    if passes:
        assert {m.contender for m in found.measurements} == {"candidate", "graph:eager"}
    else:
        assert "grad_x" in found.verdict.checks[-1].evidence


class Doubting:
    """A bound that never knows."""

    size_bytes, runs = 0, None

    def check(self, output: torch.Tensor) -> Finding:
        return Finding(False, "accuracy", 2.0, "perhaps", doubtful=True)


@pytest.mark.parametrize(("factor", "passes"), [(1.0, True), (1.001, False)])
def test_what_is_doubtful_is_settled_where_it_was_seen(
    factor: float, passes: bool, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scaled(x: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(torch.softmax(x, -1) * factor)

    made = candidate_for(DYNAMIC, "scaled")
    session = DeviceSession(DYNAMIC, TARGET, FakeExecutor({"scaled": scaled}), lambda _: None)
    session.draws._kept.clear()
    monkeypatch.setattr(AnyDraws, "_bounds", lambda *_: (Doubting(),))
    found = examine(session, made, artifact_for(made, tmp_path), HIDDEN)
    assert isinstance(found, Judgement)
    assert found.verdict.passed == passes, found.verdict
    accuracy = next(c for c in found.verdict.checks if c.name == "accuracy")
    assert ("after a closer look" in accuracy.evidence) == passes


def test_of_a_large_output_runs_are_compared_and_its_ends_always(
    executor: FakeExecutor, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draws, "LARGE_ELEMENTS", 1000)
    monkeypatch.setattr(draws, "runs_of", partial(parts.runs_of, length=64, runs=8))
    session = DeviceSession(PROBLEM, TARGET, executor, lambda _: None)
    held = session.draw("normal", 0)
    assert held is not None
    assert [bound.shape for bound in held.limits] == [(512,)]
    assert held.limits[0].runs is not None
    starts = held.limits[0].runs.starts
    assert (starts[0], starts[-1], len(set(starts))) == (0, 32 * 128 - 64, 8)
    assert held.limits[0].runs.place(70) == starts[1] + 6

    def wrong_at_the_end(x: torch.Tensor, out: torch.Tensor) -> None:
        right(x, out)
        out.view(-1)[-3] *= 1.5

    for kernel, passed in ((right, True), (wrong_at_the_end, False)):
        executor.kernels = {kernel.__name__: kernel}
        executor.time_us, executor.issued, executor.fault_after = 50.0, 0, None
        candidate = candidate_for(PROBLEM, *executor.kernels)
        outcome = examine(session, candidate, artifact_for(candidate, tmp_path), QUICK)
        assert isinstance(outcome, Judgement)
        assert outcome.verdict.passed is passed, outcome.verdict
    assert isinstance(outcome, Judgement)
    fault = next(check for check in outcome.verdict.checks if not check.passed)
    assert f"element {32 * 128 - 3}" in fault.evidence
