"""What a coding agent may ask of kernelwright, as functions of text to text.

Everything that it submits goes through the judge like any other candidate, sealed languages only; nothing here accepts
on its own. Not here: the protocol by which it asks (mcp.py).
"""

from __future__ import annotations

import threading
from pathlib import Path

from kernelwright import api, capture, languages, problems, run
from kernelwright.errors import UserError
from kernelwright.graph import Capture
from kernelwright.judge.policies import POLICIES, policies_for
from kernelwright.llm.prompts import GUIDED, Prompt, guide, messages
from kernelwright.run.models import telling
from kernelwright.run.models.kernels import candidate_of
from kernelwright.run.session import described
from kernelwright.search.speed import speed
from kernelwright.store import Store
from kernelwright.types import Candidate, Judgement, Record, Target, digest

AUTHOR = "agent"
SHOWN = 10


class Desk:
    """Answers an agent's questions about problems and kernels.

    Args:
        folder: result folders are made below it, one for each problem, as `optimize` makes them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._captures: dict[str, Capture] = {}
        # One judgement at a time: two would disturb each other's times.
        self._lock = threading.Lock()

    def list_problems(self) -> str:
        """Lists the built-in problems, one a line: name, group, what it is."""
        entries = (problems.get(name) for name in problems.names())
        return "\n".join(f"{e.name} ({e.group}): {e.description}" for e in entries)

    def read_guide(self, language: str) -> str:
        """Returns how a kernel is written in a language: cpp, cuda or triton."""
        if language not in GUIDED:
            raise UserError(f"there is no guide for {language!r}", f"use one of {', '.join(GUIDED)}")
        return guide(language)

    def show_problem(self, source: str, language: str) -> str:
        """Returns what must be computed, on what machine, and a kernel file to start from.

        Args:
            source: a built-in problem's name, or a Python file that defines Model, get_inputs and get_init_inputs.
            language: cpp for the processor, cuda or triton for the GPU.
        """
        self.read_guide(language)
        with self._lock:
            captured = self._captured(source)
            target = _target(language)
        problem = captured.problem
        prompt = Prompt(problem=problem, language=language, hardware=telling.hardware_sheet(target))
        skeleton = languages.skeleton(problem, language=language) if language != "triton" else ""
        return f"{messages('write', prompt)[1].text}\n## A file to start from\n\n{skeleton}"

    def submit_kernel(self, source: str, code: str, language: str, policy: str) -> str:
        """Judges a kernel and returns the verdict: every check, or the time beside the baselines.

        Args:
            source: as for show_problem.
            code: the whole kernel file.
            language: as for show_problem.
            policy: screen (quick), measure, or report (thorough: every baseline and the memory checkers).
        """
        if policy not in POLICIES:
            raise UserError(f"there is no policy {policy!r}", f"use one of {', '.join(POLICIES)}")
        self.read_guide(language)
        with self._lock:
            captured = self._captured(source)
            target = _target(language)
            candidate = candidate_of(captured.problem, code, language=language, author=AUTHOR)
            with Store(self._store(captured)) as store:
                store.put(captured)
                record = run.judge_candidate(
                    captured.problem, candidate, target, store=store, policy=policies_for(target)[policy]
                )
        return self._told(captured, candidate, record, target)

    def compare(self, source: str, language: str) -> str:
        """Returns the fastest kernels that are known for a problem, the fastest first, with their times.

        Args:
            source: as for show_problem.
            language: as for show_problem.
        """
        with self._lock:
            captured = self._captured(source)
            key, target = digest(captured.problem), digest(_target(language))
            path = self._store(captured)
            if not path.is_file():
                return "Nothing was judged yet."
            with Store(path, create=False) as store:
                records = [(speed(r), r) for r in store.records(problem=key, target=target, passed=True)]
                ranked = sorted((pair for pair in records if pair[0]), key=lambda pair: -(pair[0] or 0.0))[:SHOWN]
                lines = [
                    f"{described(r)} ({store.get(r.policy).name}), {r.candidate[:15]}, "
                    f"by {store.get(r.candidate).author}"
                    for _, r in ranked
                ]
        return "\n".join(lines) or "Nothing passed yet."

    def read_kernel(self, source: str, candidate: str) -> str:
        """Returns the source of a kernel that was judged.

        Args:
            source: as for show_problem.
            candidate: its digest, or the beginning of it.
        """
        with self._lock, Store(self._store(self._captured(source)), create=False) as store:
            found = [c for c in store.values("Candidate") if digest(c).startswith(candidate)]
        if len(found) != 1:
            raise UserError(f"{candidate!r} begins the digests of {len(found)} candidates", "give more of it")
        return "\n".join(source.text for source in found[0].sources)

    def _told(self, captured: Capture, candidate: Candidate, record: Record, target: Target) -> str:
        head = f"candidate {digest(candidate)}\n"
        if not record.passed:
            return f"{head}It did not pass.\n{telling.found(record)}"
        profiled = (
            f"{telling.profile(captured.problem, record)}\n{telling.compiled(captured.problem, candidate, target)}"
        )
        text = f"{head}It passed: {described(record)}.\n{profiled}"
        assert isinstance(record.outcome, Judgement)
        compared = (
            f"- {c.speedup:.2f} ({c.low:.2f} to {c.high:.2f}) against {c.baseline}" for c in record.outcome.comparisons
        )
        return "\n".join([text.rstrip(), *compared])

    def _captured(self, source: str) -> Capture:
        if source not in self._captures:
            self._captures[source] = capture.load(source)
        return self._captures[source]

    def _store(self, captured: Capture) -> Path:
        return self._folder / captured.problem.name / api.STORE


def _target(language: str) -> Target:
    return api.target_named("cpu" if language == "cpp" else "cuda")
