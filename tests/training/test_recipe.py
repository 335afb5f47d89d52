"""The recipe for many GPUs: its configuration can be read, agrees with itself, and its reward asks the gym."""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from examples.training import estimate

yaml = pytest.importorskip("yaml")
FOLDER = Path(__file__).parents[2] / "examples" / "training"


def test_the_configuration_agrees_with_itself() -> None:
    told = yaml.safe_load((FOLDER / "verl.yaml").read_text())
    actor, rollout = told["actor_rollout_ref"]["actor"], told["actor_rollout_ref"]["rollout"]
    gpus = told["trainer"]["nnodes"] * told["trainer"]["n_gpus_per_node"]
    batch = told["data"]["train_batch_size"]
    assert gpus == 8
    assert batch * rollout["n"] % gpus == 0
    assert batch % actor["ppo_mini_batch_size"] == 0
    assert gpus % rollout["tensor_model_parallel_size"] == 0
    assert told["data"]["max_prompt_length"] + told["data"]["max_response_length"] <= actor["ppo_max_token_len_per_gpu"]
    assert told["algorithm"]["adv_estimator"] == "grpo"
    assert actor["clip_ratio_low"] < actor["clip_ratio_high"]
    assert told["defaults"] == ["ppo_trainer", "_self_"]
    reward = told["reward"]["custom_reward_function"]
    assert (FOLDER / reward["path"]).is_file()
    assert reward["name"] == "compute_score"


def test_the_reward_is_the_gyms(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Client:
        def score(self, problem: str, reply: str, **more: Any) -> dict[str, Any]:
            asked.append((problem, reply, more))
            return {"reward": -1.0, "kind": "cheat", "passed": False, "speedup": None}

    package, client = ModuleType("kernelwright_env"), ModuleType("kernelwright_env.client")
    client.Client = Client  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kernelwright_env", package)
    monkeypatch.setitem(sys.modules, "kernelwright_env.client", client)
    spec = importlib.util.spec_from_file_location("recipe_reward", FOLDER / "reward.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.compute_score("kernelwright", "said", "softmax", {"language": "cuda", "exemplars": ["shown"]})
    assert found == {"score": -1.0, "passed": 0.0, "speedup": 0.0, "cheat": 1.0}
    assert asked == [("softmax", "said", {"language": "cuda", "exemplars": ("shown",)})]


ROUND = {
    "product_flops": 1e15, "bandwidth": 4e12, "judged_a_minute": 60.0, "full_cost": 4.0, "prompt_tokens": 3000.0,
    "answer_tokens": 1000.0, "learning_use": 0.5, "reading_use": 0.5, "prompts_read": 2.0, "learning_passes": 10.0,
    "imitation_passes": 8.0, "cache_bytes": 30e9, "built": 0.5, "judged_in_full": 0.25, "overhead": 1.5,
    "sft_rows": 5000.0, "select_steps": 10.0, "select_kept": 0.25, "contrast_steps": 100.0, "usd_a_gpu_hour": 3.0,
}  # fmt: skip
SIZE = estimate.Size(parameters=10e9, cache_bytes_a_token=50_000, gpus_a_replica=1)
ON = estimate.Machines(prompts=8, answers=10, gpus=4, judges=1)


def test_the_estimate_is_what_one_reckons_by_hand() -> None:
    assert set(ROUND) == set(estimate.known()["assumptions"])
    # 80 answers on 4 copies are 20 each. 10 GB beside 20 GB of weights hold floor(10e9 / (50,000 x 4,000)) = 50 of
    # them, so the weights are read once for each of 1,000 tokens: 20e12 bytes; the cache of 20 answers, 3,500 tokens
    # long on average: 20 x 1,000 x 3,500 x 50,000 = 3.5e12. At 2e12 bytes/s: 11.75 s.
    # Prompts: 2 x 10e9 x 8 x 2 x 3,000 / (4 x 5e14) = 0.48 s.
    assert estimate.writing_s(SIZE, ON, ROUND) == pytest.approx(11.75 + 0.48)
    # 10 x 10e9 x 80 x 4,000 / (4 x 5e14)
    assert estimate.learning_s(SIZE, ON, ROUND, rows=80, passes="learning_passes") == pytest.approx(16.0)
    # 40 built, each twice as dear because a quarter costs four more; one a second
    assert estimate.judging_s(ON, ROUND) == pytest.approx(80.0)
    sft, select, contrast = estimate.costs(SIZE, ON, ROUND)
    assert (sft.writing_s, sft.judging_s) == (0.0, 0.0)
    assert sft.learning_s == pytest.approx(1.5 * 8e10 * 5000 * 4000 / 2e15)
    assert sft.gpu_hours == pytest.approx(1200 / 3600 * 4)
    assert select.hours == pytest.approx(10 * (1.5 * 12.23 + 1.5 * 3.2 + 80) / 3600)
    assert contrast.gpu_hours == pytest.approx(100 * (1.5 * 12.23 + 1.5 * 16 + 80) / 3600 * 5)
    assert contrast.usd == pytest.approx(3 * contrast.gpu_hours)


def test_what_does_not_fit_together_is_written_in_turns_and_what_never_fits_is_refused() -> None:
    tight = ROUND | {"cache_bytes": 22.5e9}  # room for 12 of 20 answers
    assert estimate.writing_s(SIZE, ON, tight) == pytest.approx(11.75 + 10 + 0.48)
    with pytest.raises(SystemExit, match="more GPUs a replica"):
        estimate.writing_s(SIZE, ON, ROUND | {"cache_bytes": 20e9})
    shared = replace(SIZE, gpus_a_replica=2)  # 40 answers on each pair of GPUs, which read twice as fast
    assert estimate.writing_s(shared, ON, ROUND) == pytest.approx((20e12 + 7e12) / 4e12 + 0.48)


def test_cheap_is_never_dearer_and_every_assumption_matters() -> None:
    sides, on = estimate.values(), estimate.machines()
    for name in estimate.known()["sizes"]:
        low, high = (estimate.costs(estimate.size_of(name), on, sides[side]) for side in estimate.SIDES)
        assert all(a.usd < b.usd and a.hours < b.hours for a, b in zip(low, high, strict=True))
    before = sum(cost.usd for cost in estimate.costs(SIZE, ON, ROUND))
    for name in set(ROUND) - {"cache_bytes"}:
        after = sum(cost.usd for cost in estimate.costs(SIZE, ON, ROUND | {name: 1.1 * ROUND[name]}))
        assert not math.isclose(before, after, rel_tol=1e-6), name


def test_a_measured_model_sets_the_use_of_a_gpu() -> None:
    use = estimate.measured_use(20_000.0, 0.5e9)["learning_use"]
    assert use == pytest.approx((1e14 / 793e12, 1e14 / 662e12))
    with pytest.raises(SystemExit, match="no assumption is called speed"):
        estimate.values({"speed": (1.0, 2.0)})


def test_the_estimate_is_of_this_configuration_and_prints() -> None:
    told, on = yaml.safe_load((FOLDER / "verl.yaml").read_text()), estimate.machines(2)
    assert (on.prompts, on.answers) == (told["data"]["train_batch_size"], told["actor_rollout_ref"]["rollout"]["n"])
    assert (on.gpus, on.judges) == (told["trainer"]["nnodes"] * told["trainer"]["n_gpus_per_node"], 2)
    most = estimate.values()["dear"]
    assert most["prompt_tokens"] == told["data"]["max_prompt_length"]
    assert most["answer_tokens"] == told["data"]["max_response_length"]
    assert most["prompts_read"] == on.answers
    command = [sys.executable, str(FOLDER / "estimate.py"), "--size", "7B", "--assume", "usd_a_gpu_hour=1,1"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "| 7B | contrast |" in said
    assert "| usd_a_gpu_hour | 1 | 1 | USD | given |" in said
    for name, reason in json.loads((FOLDER / "assumptions.json").read_text())["assumptions"].items():
        assert f"| {name} |" in said
        assert reason["why"] in said or name == "usd_a_gpu_hour"
