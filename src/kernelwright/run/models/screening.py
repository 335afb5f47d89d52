"""Soft verifiers: what may be said about a candidate before the judge spends anything on it.

They reject early or raise suspicion; none of them can accept. Some of what they reject goes to the judge all the same,
drawn by the candidate's digest, so that it can be told how often they are right.
**Covers**: what the language's own rules refuse without a compiler; marks of dishonest code; reviews by a model, by
the hack database and by the classifier (hacks/reviewing.py).
**Does not cover**: compiling, which is the judge's first stage and costs no device either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kernelwright import hacks, languages
from kernelwright.errors import MissingTool
from kernelwright.exchanges import Attempt, Opinion
from kernelwright.hacks.reviewing import Review, reviews
from kernelwright.run.models.kernels import own_text
from kernelwright.store import Store
from kernelwright.types import Candidate, Failure, Problem, Target, digest, replace, value

STATIC = "static"
HONESTY = "honesty"
"""What a model that reviews is asked for beside REVIEWS; its doubts never reject."""
REVIEWS = {
    "compilation": "it does not compile, or its launch lines or plan do not fit its functions",
    "memory": "it reads or writes outside its buffers, in some thread, row or tail, or two threads write one place",
    "numerics": "its answers are wrong or too coarse for some inputs: overflow, cancellation, NaN, infinities, lost "
    "elements, precision that is less than the reference's",
}
"""What each review looks for."""
AUDITED_SHARE = 4
"""One in so many rejected candidates goes to the judge all the same."""


def static_opinion(problem: Problem, candidate: Candidate, target: Target) -> Opinion | None:
    """Returns what can be said from the text alone, None where nothing stands out."""
    try:
        fault = languages.load(candidate.language).key(problem, candidate, target)
    except MissingTool:
        fault = ""
    if isinstance(fault, Failure):
        return Opinion(verifier=STATIC, rejects=True, reason=f"{fault.kind}: {fault.message}")
    text = "\n".join(source.text for source in candidate.sources)
    reasons = [f"it {idiom}" for idiom in hacks.suspicions(text)]
    return Opinion(verifier=STATIC, rejects=False, reason="; ".join(reasons)) if reasons else None


def doubts(candidate: Candidate) -> tuple[Opinion, ...]:
    """Returns the suspicions of the reviewers that cost nothing: the hack database and the classifier."""
    said = reviews(own_text(candidate), language=candidate.language)
    return tuple(doubt(review) for review in said if review.suspicious)


def doubt(review: Review, *, verifier: str = "") -> Opinion:
    """Returns a reviewer's suspicion as an opinion, which never rejects."""
    return Opinion(verifier=verifier or review.reviewer, rejects=False, reason="; ".join(review.reasons))


def audited(candidate: Candidate, opinions: tuple[Opinion, ...]) -> tuple[Opinion, ...]:
    """Returns the opinions, marked where this candidate goes to the judge in spite of a rejection."""
    chosen = int(digest(candidate)[-8:], 16) % AUDITED_SHARE == 0
    return tuple(replace(o, audited=True) if chosen and o.rejects else o for o in opinions)


@value
class Precision:
    """How often one soft verifier was right, by the judge's verdicts."""

    verifier: str
    rejected: int
    audited: int
    """Rejected candidates that were judged all the same."""
    right: int
    """Of these, those that the judge rejected too."""
    suspected: int
    suspected_right: int
    missed: int
    """Candidates that it let pass and the judge did not."""
    passed: int
    """Candidates that it let pass and the judge did, too."""

    @property
    def precision(self) -> float | None:
        """The share of its objections that the judge shared, by those that were judged; None without any."""
        judged = self.audited + self.suspected
        return (self.right + self.suspected_right) / judged if judged else None

    @property
    def recall(self) -> float | None:
        """The share of what the judge failed that it objected to, the rejected scaled up from the audited; None where
        nothing failed, or rejections were never audited."""
        if self.rejected and not self.audited:
            return None
        found = self.suspected_right + (self.rejected * self.right / self.audited if self.audited else 0.0)
        return found / (found + self.missed) if found + self.missed else None


def precisions(attempts: Iterable[Attempt], store: Store) -> tuple[Precision, ...]:
    """Returns the precision of every verifier that gave an opinion; the static one always."""
    counts: dict[str, Counter[str]] = {STATIC: Counter()}
    judged: list[tuple[tuple[Opinion, ...], bool]] = []
    for attempt in attempts:
        if not attempt.candidate:
            continue
        records = tuple(store.records(candidate=attempt.candidate))
        failed = any(not record.passed for record in records)
        for opinion in attempt.opinions:
            count = counts.setdefault(opinion.verifier, Counter())
            kind = "rejected" if opinion.rejects else "suspected"
            count[kind] += 1
            if records:
                count[f"{kind} judged"] += 1
                count[f"{kind} right"] += failed
        if records:
            judged.append((attempt.opinions, failed))
    for name, count in counts.items():
        for opinions, failed in judged:
            if not any(o.verifier == name for o in opinions):
                count["missed" if failed else "passed"] += 1
    return tuple(
        Precision(
            verifier=name, rejected=count["rejected"], audited=count["rejected judged"], right=count["rejected right"],
            suspected=count["suspected judged"], suspected_right=count["suspected right"], missed=count["missed"],
            passed=count["passed"],
        )
        for name, count in counts.items()
    )  # fmt: skip


def precision_text(found: Precision) -> str:
    """Returns one line about a verifier."""
    text = f"{found.verifier}: rejected {found.rejected}"
    text += f" ({found.right} of {found.audited} that were judged all the same failed)" if found.audited else ""
    if found.suspected:
        text += f", suspected {found.suspected} ({found.suspected_right} failed)"
    text += f", let {found.passed + found.missed} pass of which {found.missed} failed"
    if found.precision is None or found.recall is None:
        return text
    return f"{text}; precision {100 * found.precision:.0f} %, recall {100 * found.recall:.0f} %"
