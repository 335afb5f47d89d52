"""A judge that reads a kernel's time off its text, and an author that always finds something a little faster.

A kernel says `// time: 300` (µs); `// wrong` fails a check, and `// broken` does not compile.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.search.fake_judge import FakeJudge, FakeParts

from kernelwright.types import Candidate, Failure, Policy, Record, digest, replace

TIME = re.compile(r"// time: (\d+)")
FORM = """extern "C" void rows(const float* x, float* out) {{
    // time: {time}
    out[0] = x[0] * {time}.0f;{more}
}}
"""


def kernel(time_us: int, more: str = "") -> str:
    return FORM.format(time=time_us, more=more)


def reply(time_us: int, *, more: str = "", intent: str = "", ideas: tuple[str, ...] = ()) -> str:
    listed = "".join(f"- {idea}\n" for idea in ideas)
    return f"Intent: {intent or f'{time_us} µs'}\n\nReasons.\n\n```cpp\n{kernel(time_us, more)}```\n\nIdeas:\n{listed}"


class TextJudge(FakeJudge):
    def judge(self, candidates: tuple[Candidate, ...], policy: Policy) -> Any:
        for candidate in candidates:
            text = candidate.sources[0].text
            self.landscape = lambda _, __, text=text: _time_of(text)  # type: ignore[misc]
            for record in super().judge((candidate,), policy):
                yield _broken(record) if "// broken" in text else record


def _time_of(text: str) -> float | None:
    found = TIME.search(text)
    return None if "// wrong" in text or not found else float(found[1])


def _broken(record: Record) -> Record:
    return replace(record, outcome=Failure(stage="build", kind="syntax", message="expected ';' before '}' token"))


@dataclass
class TextParts(FakeParts):
    """Parts without templates: whatever is judged was written by an author."""

    templates: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=lambda: {"noise": 0.0})
    judge: type[TextJudge] = TextJudge

    def _judge(self, problem: Any, target: Any, *, on_event: Any = None) -> TextJudge:
        made = self.judge(problem, target, on_event=on_event, **self.options)
        self.judges.append(made)
        return made


class Improver:
    """Answers with a kernel a little faster than the fastest of the prompt, now and then with something else."""

    def __init__(self, log: Path | None = None) -> None:
        self.asked = 0
        self.log = log
        self._lock = threading.Lock()

    def __call__(self, prompt: str) -> str:
        with self._lock:
            self.asked += 1
            number = self.asked
        if "Write no code." in prompt:
            return "Ideas:\n- read less\n- write less\n- think less\n"
        times = [int(found) for found in TIME.findall(prompt)]
        best = min(times, default=900)
        if number % 7 == 3:
            return "I would rather not say."
        if number % 7 == 5:
            return reply(best, more=f"\n    // wrong {number}")
        return reply(max(100, best * 9 // 10 - number % 5), ideas=("unroll by four",))


def authored_by(candidates: Any) -> set[str]:
    return {digest(candidate) for candidate in candidates}
