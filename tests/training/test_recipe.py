"""The recipe for many GPUs: its configuration can be read, agrees with itself, and its reward asks the gym."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

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
