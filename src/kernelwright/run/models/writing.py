"""`Writer`: answers a strategy's briefs by asking models, and says what became of each reply.

A brief becomes a prompt, the reply a candidate; edits that cannot be applied are asked for again once, then they have
only cost their tokens. What soft verifiers reject does not come back as a candidate, but for an audited share.
Not here: storing and paying (calls.py), which brief is due (search/authored).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.errors import UserError
from kernelwright.exchanges import Attempt, Message, Opinion, Reply, Request
from kernelwright.hacks.reviewing import Doubting
from kernelwright.llm import answers
from kernelwright.llm.prompts import Feedback, Prompt, Shown, edits_again, messages
from kernelwright.run.models import screening
from kernelwright.run.models.calls import Called, Calls
from kernelwright.run.models.kernels import candidate_of, shown, template_of
from kernelwright.run.models.telling import compiled, found, hardware_sheet, profile
from kernelwright.search.authored import Brief, Draft
from kernelwright.store import Run
from kernelwright.store.trajectories import Trajectories
from kernelwright.types import Candidate, Problem, Target, Template, digest, replace, value

MAX_TOKENS = 16_000
"""Of one answer: room for a long kernel after some thinking."""
REVIEW_TOKENS = 4_000


@value
class Writing:
    """How prompts are filled and answers are screened."""

    language: str
    max_tokens: int = MAX_TOKENS
    temperature: float | None = None
    reviewer: str = ""
    """Model that reviews candidates before they are judged; empty for no reviews."""
    profile: bool = False


@dataclass
class _Work:
    """One brief on its way."""

    brief: Brief
    request: Request
    called: Called
    conversation: tuple[Message, ...]
    answer: answers.Answer | None = None
    code: str = ""
    fault: str = ""
    candidate: Candidate | None = None
    template: Template | None = None
    opinions: tuple[Opinion, ...] = ()
    cost_usd: float = 0.0
    tokens: int = 0

    @property
    def reply(self) -> Reply | None:
        return self.called.reply


class Writer:
    """Answers briefs.

    Args:
        problem: what kernels are written for.
        target: where they run.
        calls: asks the models.
        trajectories: where it is noted what became of replies.
        run: that this belongs to.
        writing: how.
    """

    def __init__(
        self, problem: Problem, target: Target, *, calls: Calls, trajectories: Trajectories, run: Run, writing: Writing
    ) -> None:  # fmt: skip
        self.baselines: tuple[tuple[str, float], ...] = ()
        """What the user has already, once it is known."""
        self.suspected: set[str] = set()
        """Digests of the candidates that some soft verifier found suspicious and none rejected."""
        self._problem, self._target = problem, target
        self._calls = calls
        self._trajectories = trajectories
        self._run = run
        self._writing = writing
        self._hardware = hardware_sheet(target)

    def __call__(self, briefs: tuple[Brief, ...]) -> tuple[Draft, ...]:
        """Returns a draft for each brief."""
        conversations = [messages(brief.kind, self.prompt(brief)) for brief in briefs]
        requests = [self._request(brief, talk) for brief, talk in zip(briefs, conversations, strict=True)]
        works = [
            _Work(brief=brief, request=request, called=called, conversation=talk)
            for brief, request, called, talk in zip(
                briefs, requests, self._calls.answers(requests), conversations, strict=True
            )
        ]
        for work in works:
            self._read(work)
        self._mend([work for work in works if work.fault and work.answer and work.answer.edits])
        for work in works:
            self._make(work)
        self._review([work for work in works if work.candidate and not _rejected(work.opinions)])
        return tuple(self._draft(work) for work in works)

    # ------------------------------------------------------------------------- prompts

    def prompt(self, brief: Brief) -> Prompt:
        """Returns what the prompt of a brief tells."""
        feedback = None
        if brief.note:
            feedback = Feedback(subject="your last answer", text=brief.note)
        if brief.kind == "repair" and brief.record is not None:
            feedback = Feedback(subject="this kernel", text=found(brief.record))
        told = ""
        if self._writing.profile and brief.kind == "improve" and brief.record and brief.parent:
            parts = profile(self._problem, brief.record), compiled(self._problem, brief.parent, self._target)
            told = "\n\n".join(filter(None, parts))
        return Prompt(
            problem=self._problem,
            language=self._writing.language,
            hardware=self._hardware,
            baselines=self.baselines,
            exemplars=tuple(Shown(source=shown(e.candidate), speed=e.speed, intent=e.intent) for e in brief.exemplars),
            parent=shown(brief.parent) if brief.parent else "",
            parent_speed=brief.parent_speed,
            feedback=feedback,
            profile=told,
            intent=brief.intent,
            tried=brief.tried,
        )

    def _request(self, brief: Brief, talk: tuple[Message, ...]) -> Request:
        return Request(
            model=brief.model, messages=talk, max_tokens=self._writing.max_tokens,
            temperature=self._writing.temperature, ordinal=brief.number, kind=brief.kind,
        )  # fmt: skip

    # ------------------------------------------------------------------------- answers

    def _read(self, work: _Work) -> None:
        """Gets the code out of a reply."""
        reply = work.reply
        if reply is None:
            work.fault = work.called.fault or work.called.stop
            return
        work.cost_usd += reply.cost_usd
        work.tokens += reply.input_tokens + reply.output_tokens
        if reply.finish == "refusal":
            work.fault = "the model refused"
            return
        answer = work.answer = answers.parsed(reply.text)
        if work.brief.kind == "plan":
            return
        if answer.edits:
            parent = work.brief.parent
            try:
                if parent is None:
                    raise answers.EditFault("there is no file to edit: answer with a whole file")
                work.code = answers.applied(parent.sources[0].text, answer.edits)
            except answers.EditFault as fault:
                work.fault = str(fault)
        else:
            work.code = answer.code
            if not work.code:
                work.fault = "the answer broke off at its longest" if reply.finish == "length" else "no kernel in it"

    def _mend(self, works: list[_Work]) -> None:
        """Asks once more for what edits were to give."""
        language = self._writing.language
        requests = [
            replace(
                w.request,
                messages=edits_again(w.conversation, w.reply.text if w.reply else "", w.fault, language),
                kind="repair",
            )
            for w in works
        ]
        for work, called in zip(works, self._calls.answers(requests) if requests else (), strict=True):
            reply = called.reply
            if reply is None or work.answer is None:
                continue
            work.cost_usd += reply.cost_usd
            work.tokens += reply.input_tokens + reply.output_tokens
            again = answers.parsed(reply.text)
            code = again.code
            if again.edits and work.brief.parent is not None:
                try:
                    code = answers.applied(work.brief.parent.sources[0].text, again.edits)
                except answers.EditFault:
                    continue
            work.code, work.fault = code, "" if code else work.fault

    def _make(self, work: _Work) -> None:
        """Makes the candidate and has it screened from its text."""
        if work.fault or not work.code or work.reply is None:
            return
        parents = [e.candidate for e in work.brief.exemplars] if work.brief.parent is None else [work.brief.parent]
        language = self._writing.language
        try:
            work.candidate = candidate_of(
                self._problem, work.code, language=language, author=work.reply.model,
                parents=tuple(map(digest, parents)),
            )  # fmt: skip
        except UserError as error:
            work.fault = str(error)
            return
        work.template = template_of(self._problem, work.code, work.candidate, language=language)
        static = screening.static_opinion(self._problem, work.candidate, self._target)
        work.opinions = ((static,) if static else ()) + screening.doubts(work.candidate)

    def _review(self, works: list[_Work]) -> None:
        """Asks for opinions about candidates; several may object to one."""
        model = self._writing.reviewer
        if not model or not works:
            return
        pairs = [(work, subject) for work in works for subject in screening.REVIEWS]
        requests = [self._review_request(model, work, subject) for work, subject in pairs]
        replies = self._replies([work for work, _ in pairs], requests)
        for (work, subject), reply in zip(pairs, replies, strict=True):
            said = answers.opinion(reply.text) if reply else None
            if said and said[0]:
                work.opinions += (Opinion(verifier=subject, rejects=True, reason=said[1]),)
        self._doubt(model, [work for work in works if not _rejected(work.opinions)])

    def _doubt(self, model: str, works: list[_Work]) -> None:
        """Asks whether candidates are honest, which can make them suspicious and nothing else."""
        reviewer = Doubting(model, lambda requests: self._replies(works, requests))
        texts = [shown(work.candidate) for work in works if work.candidate]
        for work, review in zip(works, reviewer.review(texts, language=self._writing.language), strict=True):
            if review and review.suspicious:
                work.opinions += (screening.doubt(review, verifier=screening.HONESTY),)

    def _replies(self, works: Sequence[_Work], requests: Sequence[Request]) -> tuple[Reply | None, ...]:
        """Returns what is answered about each work, and counts what it cost."""
        replies = tuple(called.reply for called in self._calls.answers(requests))
        for work, reply in zip(works, replies, strict=True):
            if reply is not None:
                work.cost_usd += reply.cost_usd
                work.tokens += reply.input_tokens + reply.output_tokens
        return replies

    def _review_request(self, model: str, work: _Work, subject: str) -> Request:
        assert work.candidate is not None
        prompt = Prompt(
            problem=self._problem, language=self._writing.language, hardware=self._hardware,
            parent=shown(work.candidate), subject=screening.REVIEWS[subject],
        )  # fmt: skip
        return Request(
            model=model, messages=messages("review", prompt), max_tokens=REVIEW_TOKENS, temperature=None, kind="review"
        )

    def _draft(self, work: _Work) -> Draft:
        answer = work.answer or answers.Answer()
        candidate, fault = work.candidate, work.fault
        rejected = False
        if candidate is not None:
            work.opinions = screening.audited(candidate, work.opinions)
            objections = [o for o in work.opinions if o.rejects]
            rejected = bool(objections) and not objections[0].audited
            if work.opinions and not objections:
                self.suspected.add(digest(candidate))
            if rejected:
                fault = "; ".join(f"{o.verifier}: {o.reason}" for o in objections)
        if work.reply is not None:
            self._trajectories.note(
                self._run,
                Attempt(
                    request=digest(work.request),
                    kind=work.brief.kind,
                    candidate=digest(candidate) if candidate else "",
                    parent=digest(work.brief.parent) if work.brief.parent else "",
                    intent=work.brief.intent or answer.intent,
                    fault=fault,
                    opinions=work.opinions,
                ),
            )
        return Draft(
            candidate=None if rejected else candidate,
            template=None if rejected else work.template,
            intent=answer.intent,
            ideas=answer.ideas,
            fault=fault,
            rejected=rejected,
            model=work.reply.model if work.reply else "",
            cost_usd=work.cost_usd,
            tokens=work.tokens,
            stop=work.called.stop,
        )


def _rejected(opinions: Sequence[Opinion]) -> bool:
    return any(opinion.rejects for opinion in opinions)
