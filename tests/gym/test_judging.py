"""The gym's queue and its one thread, with a judge that knows the answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.errors import UserError
from kernelwright.gym import Gym, GymSettings, Refused, Submission
from kernelwright.training.reward import RewardSettings, of_speedup

from .fakes import FakeJudge, kernel, opened

LONG_S = 60.0


@pytest.fixture
def judge() -> FakeJudge:
    return FakeJudge()


@pytest.fixture
def gym(tmp_path: Path, judge: FakeJudge) -> Iterator[Gym]:
    made = opened(tmp_path, judge, most_waiting=10)
    made.start()
    yield made
    judge.gate.set()
    made.stop(grace_s=LONG_S)


def sent(mark: str, problem: str = "softmax", exemplars: tuple[str, ...] = ()) -> Submission:
    code = kernel(mark) if mark else ""
    return Submission(problem=problem, language="cpp", code=code, exemplars=exemplars)


def test_rewards_are_those_of_training(gym: Gym) -> None:
    found = {m: gym.result(gym.submit(sent(m)), wait_s=LONG_S) for m in ("2.0x", "1.0x", "wrong", "cheat", "")}
    settings = RewardSettings()
    assert {mark: result["state"] for mark, result in found.items()} == dict.fromkeys(found, "done")
    assert found["2.0x"]["reward"] == of_speedup(1.8, settings)
    assert found["2.0x"]["reward"] > found["1.0x"]["reward"] > found["wrong"]["reward"] == 0.0 == found[""]["reward"]
    assert found["cheat"]["reward"] == settings.foul == -1.0
    assert [found[m]["kind"] for m in ("2.0x", "wrong", "cheat", "")] == ["verified", "wrong", "cheat", "failed"]
    assert found["2.0x"]["speedup"] == {"value": 2.0, "low": 1.8, "high": 2.2, "baseline": "eager"}
    assert "accuracy failed: as it says" in found["wrong"]["feedback"]


def test_a_copy_of_an_exemplar_earns_nothing(gym: Gym) -> None:
    exemplar = kernel("2.0x").replace("float* x", "float *  x  /* the same */")
    result = gym.result(gym.submit(sent("2.0x", exemplars=(exemplar,))), wait_s=LONG_S)
    assert (result["reward"], result["kind"], result["passed"]) == (0.0, "copy", True)


def test_gains_that_seem_too_good_are_judged_in_full(gym: Gym, judge: FakeJudge) -> None:
    result = gym.result(gym.submit(sent("6.0x")), wait_s=LONG_S)
    assert result["policy"] == "measure"
    assert result["reward"] == of_speedup(5.4, RewardSettings())
    assert [policy for _, policy, _ in judge.asked] == ["screen", "measure"]


def test_disturbed_times_are_taken_again_and_teach_nothing(gym: Gym, judge: FakeJudge) -> None:
    key = gym.submit(sent("disturbed"))
    result = gym.result(key, wait_s=LONG_S)
    assert (result["state"], result["reward"], result["kind"]) == ("undecided", None, "unclear")
    assert len(judge.asked) == 3
    assert gym.submit(sent("disturbed")) == key  # and may be tried again
    assert gym.result(key, wait_s=LONG_S)["state"] == "undecided"
    assert len(judge.asked) == 6


def test_equal_submissions_are_judged_once_and_problems_in_batches(gym: Gym, judge: FakeJudge) -> None:
    judge.gate.clear()
    first = gym.submit(sent("1.1x"))
    assert judge.entered.wait(LONG_S)
    marks = ("1.2x", "1.3x", "1.4x", "1.2x")
    keys = [gym.submit(sent(m, p)) for m in marks for p in ("rms_norm", "softmax")]
    assert len(set(keys)) == 6
    assert gym.result(keys[2], wait_s=0)["before"] == 2
    judge.gate.set()
    assert all(gym.result(key, wait_s=LONG_S)["state"] == "done" for key in (first, *keys))
    batch = ("1.2x", "1.3x", "1.4x")
    assert [(p, marks) for p, _, marks in judge.asked] == [
        ("softmax", ("1.1x",)),
        ("rms_norm", batch),
        ("softmax", batch),
    ]
    again = gym.result(gym.submit(sent("1.3x", exemplars=("int x;",))), wait_s=LONG_S)
    assert again["state"] == "done"
    assert len(judge.asked) == 3  # the store knew


def test_a_full_queue_refuses_and_an_old_one_is_given_back(tmp_path: Path, judge: FakeJudge) -> None:
    gym = opened(tmp_path, judge, most_waiting=2, patience_s=0.0)
    keys = [gym.submit(sent(m)) for m in ("1.1x", "1.2x")]
    with pytest.raises(Refused) as refused:
        gym.submit(sent("1.3x"))
    assert (refused.value.status, refused.value.retry_s) == (429, 5)
    gym.start()
    assert [gym.result(key, wait_s=LONG_S)["state"] for key in keys] == ["late", "late"]
    assert gym.stop(grace_s=LONG_S)
    assert judge.asked == []


def test_faults_end_their_batch_and_nothing_else(gym: Gym, judge: FakeJudge) -> None:
    crashed = gym.result(gym.submit(sent("crash")), wait_s=LONG_S)
    assert (crashed["state"], crashed["reward"]) == ("undecided", None)
    assert "the worker died" in crashed["why"]
    untraced = gym.result(gym.submit(sent("1.1x", "rotary")), wait_s=LONG_S)
    assert "it cannot be traced" in untraced["why"]
    broken = gym.result(gym.submit(Submission(problem="softmax", language="cpp", code="int x;")), wait_s=LONG_S)
    assert (broken["reward"], broken["kind"]) == (0.0, "failed")
    assert "extern" in broken["why"]
    assert gym.result(gym.submit(sent("1.1x")), wait_s=LONG_S)["reward"] > 0


def test_stopping_finishes_what_is_judged_and_gives_back_the_rest(tmp_path: Path, judge: FakeJudge) -> None:
    gym = opened(tmp_path, judge)
    gym.start()
    judge.gate.clear()
    first = gym.submit(sent("1.1x"))
    assert judge.entered.wait(LONG_S)
    second = gym.submit(sent("1.2x"))
    assert not gym.stop(grace_s=0.0)
    with pytest.raises(Refused) as refused:
        gym.submit(sent("1.3x"))
    assert refused.value.status == 503
    judge.gate.set()
    assert gym.stop(grace_s=LONG_S)
    assert [gym.result(key, wait_s=0)["state"] for key in (first, second)] == ["done", "stopped"]
    assert judge.closed == 1


def test_tasks_tell_what_to_do(gym: Gym) -> None:
    told = gym.task("softmax", "cpp", wait_s=LONG_S)
    assert [m["role"] for m in told["messages"]] == ["system", "user"]
    assert "torch.softmax" in told["messages"][1]["content"]
    assert 'extern "C" void' in told["skeleton"]
    for problem, language, status in (("rotary", "cpp", 422), ("gemm", "cpp", 404), ("softmax", "cuda", 400)):
        with pytest.raises(Refused) as refused:
            gym.task(problem, language, wait_s=LONG_S)
        assert refused.value.status == status


def test_only_the_latest_results_are_kept(tmp_path: Path, judge: FakeJudge) -> None:
    gym = opened(tmp_path, judge, most_kept=2)
    gym.start()
    keys = [gym.submit(sent(m)) for m in ("1.1x", "1.2x", "1.3x")]
    assert gym.result(keys[2], wait_s=LONG_S)["state"] == "done"
    with pytest.raises(Refused, match="no submission"):
        gym.result(keys[0], wait_s=0)
    assert gym.stop(grace_s=LONG_S)


def test_two_problems_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="one name"):
        Gym(GymSettings(sources=("softmax", "other/softmax.py")), tmp_path)
