"""Evolution from the bundled recordings with the real judge: good kernels survive, bad and dishonest ones do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright import capture, languages, llm
from kernelwright.run import BUILT_IN, optimize
from kernelwright.run.models import Authors
from kernelwright.run.result import outcome_name
from kernelwright.search.authored.evolution import Rules
from kernelwright.store import Store
from kernelwright.store.trajectories import Trajectories
from kernelwright.types import replace

RECORDINGS = Path(__file__).parents[3] / "examples" / "recordings"
LITTLE = {"families": ("given", "large", "rows"), "rounds": 3, "block_us": 500.0, "memory_checkers": ()}
"""Enough to tell right from wrong here; the times mean nothing."""
CACHE_BYTES = 2 << 20
"""So that few slots make a footprint: `remembers` gives an old answer where it is called on one again and again."""
CASES = {
    "softmax": (("plain", "polynomial"), ("no_maximum", "remembers", "does_not_compile")),
    "rms_norm": (("two_passes", "streams"), ("no_weight",)),
    "swiglu": (("plain", "chunks"), ("hard", "every_other")),
}


def body(path: Path) -> str:
    return path.read_text().split('extern "C"')[1].strip()


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_recorded_evolution_ends_in_a_verified_kernel(name: str, tmp_path: Path) -> None:
    parts = replace(
        BUILT_IN, screen=replace(BUILT_IN.screen, **LITTLE), measure=replace(BUILT_IN.measure, **LITTLE),
        report=replace(BUILT_IN.report, **LITTLE, baselines=("eager",), draws=1, hidden_shapes=0),
    )  # fmt: skip
    captured, target = capture.load(name), replace(languages.detect_target(), cache_bytes=CACHE_BYTES)
    replayed = llm.model_of(f"replay/{RECORDINGS / name}.jsonl")
    who = Authors(models=(replayed,), parallel=1, seed_limit=1, rules=Rules(islands=1, tuning=False, patience=9))
    with Store(tmp_path / "s.sqlite") as store:
        result = optimize(captured, target, store=store, budget_s=1e9, parts=parts, seed=1, authors=who)
        attempts = tuple(Trajectories(store).attempts())
    assert result.report is not None
    assert result.report.passed
    assert result.best is not None
    outcomes = {body_of(row.candidate.sources[0].text): outcome_name(row.records[0][1]) for row in result.rows}
    good, bad = CASES[name]
    passed = {kernel: outcomes.get(body(RECORDINGS / name / f"{kernel}.cpp"), "not judged") for kernel in good + bad}
    # On a busy machine a clock check can fail an honest kernel; its answers must be right all the same.
    assert all(passed[kernel] in ("passed", "check: clock") for kernel in good), passed
    assert all(passed[kernel] not in ("passed", "not judged") for kernel in bad), passed
    assert len(attempts) >= len(good + bad)


def body_of(text: str) -> str:
    return text.split('extern "C"')[1].strip() if 'extern "C"' in text else text
