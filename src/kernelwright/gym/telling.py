"""What clients are told, as plain data: tasks, and results with reward, verdict and feedback.

Not here: the words of verdicts and prompts (run/models/telling.py, llm/prompts).
"""

from __future__ import annotations

from typing import Any

from kernelwright import languages
from kernelwright.hacks import Resemblance
from kernelwright.languages import is_emulated
from kernelwright.llm.prompts import Prompt, messages
from kernelwright.llm.secrets import scrubbed
from kernelwright.run.models import telling
from kernelwright.search.speed import against_reference
from kernelwright.training.reward import Reward, RewardSettings
from kernelwright.types import Candidate, Judgement, Policy, Problem, Record, Target, digest


def task_of(name: str, problem: Problem, language: str, target: Target) -> dict[str, Any]:
    """Returns a problem as a client gets it: a conversation that asks for a kernel, and a file to start from."""
    prompt = Prompt(problem=problem, language=language, hardware=telling.hardware_sheet(target))
    return {
        "problem": name, "language": language, "description": problem.description, "digest": digest(problem),
        "messages": [{"role": m.role, "content": m.text} for m in messages("write", prompt)],
        "reference": "\n".join(file.text for file in problem.reference),
        "skeleton": languages.skeleton(problem, language=language) if language != "triton" else "",
    }  # fmt: skip


def result_of(
    candidate: Candidate, record: Record, worth: Reward, *, policy: Policy, problem: Problem, target: Target,
    like: tuple[Resemblance, ...],
) -> dict[str, Any]:  # fmt: skip
    """Returns what a judged kernel is worth, and why.

    The reward is None where the machine disturbed the times again and again: nothing may be learnt from it. On an
    emulated GPU, which tells no times, being right is all there is to earn.
    """
    outcome = record.outcome
    against = against_reference(outcome) if isinstance(outcome, Judgement) and record.passed else None
    value: float | None = worth.value if worth.counts else None
    kind, why = worth.kind, worth.why
    if record.passed and is_emulated(target):
        value, kind, why = RewardSettings().right, "verified", "right; an emulated GPU tells no times"
    feedback = telling.profile(problem, record) if record.passed else telling.found(record)
    return {
        "reward": value, "kind": kind, "why": why, "passed": record.passed, "policy": policy.name,
        "speedup": None if against is None else {
            "value": against.speedup, "low": against.low, "high": against.high, "baseline": against.baseline,
        },
        "candidate": digest(candidate), "record": digest(record), "feedback": scrubbed(feedback),
        "resembles": [
            {"hack": r.hack.name, "score": round(r.score, 3), "caught_by": list(r.hack.caught_by)} for r in like
        ],
    }  # fmt: skip


def stopped(why: str) -> dict[str, Any]:
    """Returns the result of what was not judged."""
    return {"reward": None, "kind": "unclear", "why": scrubbed(why), "passed": None}
