"""The bundled GPU recordings without a GPU: the good kernels are right, the bad and dishonest ones are noticed.

CUDA C++ is judged emulated; Triton runs in its interpreter and is compared with float64 here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.authored_gpu import SCALINGS, fitted, recorded, scaled

from benchmarks import authored_gpu
from kernelwright import capture, llm
from kernelwright.exchanges import Request
from kernelwright.judge import Judge
from kernelwright.judge.policies import EMULATED_SCREEN
from kernelwright.languages import emulated_target
from kernelwright.languages.interpreted import Interpreted, interpret
from kernelwright.llm import answers
from kernelwright.process import Worker
from kernelwright.run.models.kernels import candidate_of
from kernelwright.run.result import outcome_name
from kernelwright.types import Problem, replace

SMALL = {"softmax": 8, "rms_norm": 3, "swiglu": 8, "layer_norm": 8, "cross_entropy": 2}
"""Rows: so that grids are whole numbers, and fibers few."""
QUICK = replace(
    EMULATED_SCREEN, name="quick", families=("given", "large", "shifted", "nonfinite"), hidden_shapes=0,
    call_deadline_s=60.0,
)  # fmt: skip


def good(name: str, language: str) -> set[str]:
    return {file.stem for file, _, kind in recorded(name, language) if kind == "good"}


class Problems:
    """Captures the small problems with one worker, each when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._known, self._worker = folder, dict[str, Problem](), Worker(capture.MODULE)

    def __call__(self, name: str) -> Problem:
        if name not in self._known:
            path = self._folder / f"{name}.py"
            path.write_text(scaled(name, SMALL[name]))
            self._known[name] = capture.load(str(path), worker=self._worker).problem
        return self._known[name]

    def close(self) -> None:
        self._worker.close()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Problems]:
    made = Problems(tmp_path_factory.mktemp("problems"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def judges() -> Iterator[dict[str, Judge]]:
    made: dict[str, Judge] = {}
    yield made
    for judge in made.values():
        judge.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", SCALINGS)
def test_cuda_recordings_are_what_they_are_said_to_be(name: str, small: Problems, judges: dict[str, Judge]) -> None:
    problem = small(name)
    if not judges:
        judges["cuda"] = Judge(problem, replace(emulated_target(), cache_bytes=1 << 16, threads=2))
    judge = judges["cuda"]
    judge.turn_to(problem)
    named = {
        file.stem: candidate_of(
            problem, fitted(name, file.read_text(), SMALL[name]), language="cuda", author="recording"
        )
        for file, _, _ in recorded(name, "cuda")
    }
    found = dict(zip(named, map(outcome_name, judge.judge(tuple(named.values()), QUICK)), strict=True))
    assert {stem for stem, said in found.items() if said == "passed"} == good(name, "cuda"), found
    assert len(found) >= 2 * len(good(name, "cuda"))


def drawn(name: str, problem: Problem) -> tuple[dict[str, bytes], Any]:
    """Inputs of a problem, with large values in them, and the answer in float64."""
    generator: Any = np.random.default_rng(7)
    values: dict[str, Any] = {
        t.name: (40.0 * generator.standard_normal(t.shape)).astype(np.float32)
        for t in problem.inputs + problem.parameters
        if t.dtype == "float32"
    }
    wide = {k: v.astype(np.float64) for k, v in values.items()}
    if name == "softmax":
        powers = np.exp(wide["scores"] - wide["scores"].max(-1, keepdims=True))
        truth = powers / powers.sum(-1, keepdims=True)
    elif name == "rms_norm":
        x = wide["hidden_states"]
        truth = wide["weight"] * x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
    elif name == "swiglu":
        with np.errstate(over="ignore"):
            truth = wide["gate"] / (1 + np.exp(-wide["gate"])) * wide["up"]
    elif name == "layer_norm":
        values["x"] += 30
        x = values["x"].astype(np.float64)
        centred = x - x.mean(-1, keepdims=True)
        truth = centred / np.sqrt((centred**2).mean(-1, keepdims=True)) * wide["norm_weight"] + wide["norm_bias"]
    else:
        values["logits"] -= 200
        logits = values["logits"].astype(np.float64)
        targets = generator.integers(0, 50257, logits.shape[0])
        top = logits.max(-1)
        losses = np.log(np.exp(logits - top[:, None]).sum(-1)) + top - logits[np.arange(len(targets)), targets]
        return {"logits": values["logits"].tobytes(), "targets": targets.tobytes()}, losses.mean()
    return {k: v.tobytes() for k, v in values.items()}, truth


@pytest.mark.slow
@pytest.mark.parametrize("name", SCALINGS)
def test_triton_recordings_are_what_they_are_said_to_be(name: str, small: Problems) -> None:
    pytest.importorskip("triton")
    problem = small(name)
    inputs, truth = drawn(name, problem)
    right = {}
    for file, _, _ in recorded(name, "triton"):
        text = fitted(name, file.read_text(), SMALL[name])
        made = candidate_of(problem, text, language="triton", author="recording")
        outcome = interpret(problem, made, inputs)
        assert isinstance(outcome, Interpreted), outcome
        got = np.frombuffer(outcome.outputs["out"], np.float32).reshape(truth.shape)
        right[file.stem] = bool(np.allclose(got, truth, rtol=2e-5, atol=2e-6 * np.abs(truth).max()))
    assert {stem for stem, fine in right.items() if fine} == good(name, "triton"), right


@pytest.mark.parametrize("language", ["cuda", "triton"])
@pytest.mark.parametrize("name", SCALINGS)
def test_recordings_can_be_replayed(name: str, language: str, tmp_path: Path) -> None:
    path = authored_gpu.fitted_recording(name, language, authored_gpu.ROWS[name], tmp_path)
    model = llm.model_of(f"replay/{path}")
    for file, intent, _ in recorded(name, language):
        text = file.read_text()
        reply = model.complete(Request(model=model.name, messages=(), max_tokens=1000))
        while not (answer := answers.parsed(reply.text)).code:  # a refusal, as models have them
            reply = model.complete(Request(model=model.name, messages=(), max_tokens=1000))
        assert answer.intent == intent
        assert answer.code == fitted(name, text, authored_gpu.ROWS[name])
        assert (answer.code != text) or "grid=264" in text, file


def test_the_page_names_what_was_caught_and_what_was_not() -> None:
    row = authored_gpu.Row(problem="softmax", language="cuda", kernel="a", intent="i", kind="good", verdict="passed")
    rows = [
        dataclasses.replace(row, us=20.0, speedup=1.5, low=1.4, high=1.6, floor=0.5),
        dataclasses.replace(row, kernel="b", us=10.0, speedup=3.0, low=2.9, high=3.1, floor=0.9),
        dataclasses.replace(row, kernel="c", kind="dishonest", verdict="check: replay", evidence="12 | of 13\nelements",
                            rejected="static"),
        dataclasses.replace(row, kernel="d", kind="wrong", verdict="build: syntax"),
        dataclasses.replace(row, kernel="e", kind="wrong", verdict="passed", us=50.0, speedup=0.5, suspected="hacks"),
        dataclasses.replace(row, problem="swiglu", kernel="f", kind="dishonest", verdict="check: values"),
    ]  # fmt: skip
    text = authored_gpu.page(rows, ["- softmax: fine\n"], "Made by hand.\n")
    assert "| softmax | b | cuda | 10.0 | 3.00 [2.90, 3.10] | 90 % | 3 | 2 |" in text
    assert "| swiglu | none |  |  |  |  | 0 | 1 |" in text
    assert "- good: 2 of 2 passed\n- wrong: 1 of 2 passed: **softmax e**\n- dishonest: 0 of 2 passed\n" in text
    assert "rejected 1, suspected 1; the judge failed 1 of these 2 (precision 50 %), and 3 in all (recall 33 %)" in text
    assert "| check: replay (12 / of 13 elements) |" in text
    assert "- softmax: fine" in text
