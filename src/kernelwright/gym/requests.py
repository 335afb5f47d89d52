"""What clients send, checked; and why something is refused, as it goes over HTTP.

Not here: HTTP itself (server.py), and what becomes of a submission (judging.py).
"""

from __future__ import annotations

from typing import Any

from kernelwright.llm import answers
from kernelwright.types import digest, value

MOST_TEXT = 200_000
"""Characters of a kernel or a reply."""
MOST_EXEMPLARS = 16
FIELDS = {"problem": str, "language": str, "code": str, "reply": str, "exemplars": list}


class Refused(Exception):
    """A request that cannot be served.

    Args:
        status: of HTTP.
        what: happened, in one line.
        fix: what to do next.
        retry_s: seconds after which the same may be accepted; 0 where it never is.
    """

    def __init__(self, status: int, what: str, fix: str, *, retry_s: int = 0) -> None:
        super().__init__(what)
        self.status, self.what, self.fix, self.retry_s = status, what, fix, retry_s


@value
class Submission:
    """One kernel that a client wants judged; equal ones are one."""

    problem: str
    language: str
    code: str
    """Empty where a reply held no kernel."""
    exemplars: tuple[str, ...] = ()
    """Sources that the author was shown: copies of them earn nothing."""

    @property
    def key(self) -> str:
        """By which the result is asked for: sending the same again, after a broken connection, is harmless."""
        return digest(self)[3:35]


def read_submission(data: Any, *, problems: tuple[str, ...], languages: tuple[str, ...]) -> Submission:
    """Returns what a client's JSON says.

    Args:
        data: {"problem": NAME, "code": a whole file, or "reply": a model's whole answer}; "language" and "exemplars"
            (a list of sources) may be left out.
        problems: that this gym has.
        languages: that kernels can be written in here; the first is the default.

    Raises:
        Refused: for anything else.
    """
    if not isinstance(data, dict):
        raise Refused(400, "the body is no JSON object", 'send {"problem": "softmax", "code": "..."}')
    for name, item in data.items():
        if not isinstance(item, FIELDS.get(name, ())):
            raise Refused(400, f"{name!r} cannot be {type(item).__name__}", f"known are {', '.join(FIELDS)}")
    if ("code" in data) == ("reply" in data):
        raise Refused(400, "there must be either code or reply", "send a kernel file, or a model's whole answer")
    problem, language = data.get("problem", ""), data.get("language", languages[0])
    if problem not in problems:
        raise Refused(404, f"there is no problem {problem!r} here", "GET /v1/problems lists them")
    if language not in languages:
        raise Refused(400, f"kernels cannot be written in {language!r} here", f"use {' or '.join(languages)}")
    exemplars = tuple(data.get("exemplars", ()))
    texts = (data.get("code", ""), data.get("reply", ""), *exemplars)
    if len(exemplars) > MOST_EXEMPLARS or not all(isinstance(t, str) and len(t) <= MOST_TEXT for t in texts):
        fix = f"at most {MOST_EXEMPLARS} exemplars, and {MOST_TEXT:,} characters of each text"
        raise Refused(413, "that is too much", fix)
    code = data["code"] if "code" in data else answers.parsed(data["reply"]).code
    return Submission(problem=problem, language=language, code=code, exemplars=exemplars)
