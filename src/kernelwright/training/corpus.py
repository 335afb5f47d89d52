"""`corpus build`: verified kernels over many problem families, from experts, tuner, authors and stored trajectories.

Every kernel in it passed the judge, every bug in it was refused; each line says which record that stands in. What was
judged once is not judged again, so that a build that was stopped goes on.
Not here: the files (rows.py), and what is proposed beside the experts' schedules (augmenting.py).
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from kernelwright import capture, experts
from kernelwright.errors import SourceError, UserError
from kernelwright.graph import Capture
from kernelwright.languages import device_file
from kernelwright.languages.kernel_file import PLAN_MARK
from kernelwright.process import Worker
from kernelwright.run.models.telling import found as told
from kernelwright.run.outputs import plan_data
from kernelwright.search.speed import against_reference
from kernelwright.search.tune import Tune
from kernelwright.store import Store
from kernelwright.store.trajectories import Trajectories
from kernelwright.training import augmenting, families, rows
from kernelwright.training.features import words_of
from kernelwright.training.judging import Court
from kernelwright.training.rows import Row, Schedules
from kernelwright.types import Candidate, Judgement, Policy, Record, Target, Template, digest, replace, value

CAPTURED = "captured.json"
"""Which source became which problem, so that a build that goes on need not trace it again."""


@value
class Plan:
    """How much is made."""

    names: tuple[str, ...] = ()
    """Families; empty for all."""
    variants: int = len(families.SHAPES)
    each: int = 12
    """Schedules that the tuner may propose for each problem and target."""
    bugs: int = 2
    seed: int = 0
    budget_s: float = float("inf")
    held_out: float = rows.HELD_OUT_SHARE


@value
class Built:
    """What a build made."""

    rows: tuple[tuple[str, int], ...]
    """(split, rows)."""
    families: tuple[tuple[str, int], ...]
    skipped: tuple[str, ...]
    """Sources that gave nothing, and why."""
    finished: bool
    """False where the budget ended before every source was worked on."""
    judged: int


def build(
    folder: Path, courts: tuple[Court, ...], store: Store, plan: Plan, *, others: tuple[Store, ...] = (),
    on_text: Callable[[str], None] = lambda _: None,
) -> Built:  # fmt: skip
    """Makes or completes a corpus in a folder.

    Args:
        folder: where its files go.
        courts: one for each target that kernels are made for; they keep their records in `store`.
        store: of this corpus.
        plan: how much.
        others: stores whose verified kernels and repairs are taken over.
        on_text: called with lines of progress.
    """
    began, skipped, finished = time.monotonic(), [], True
    todo = tuple(families.sources(folder / "families", names=plan.names, variants=plan.variants))
    with _Capturing(folder, store) as capturing:
        for number, source in enumerate(todo, 1):
            if time.monotonic() - began >= plan.budget_s:
                finished = False
                break
            on_text(f"{number} of {len(todo)}: {source.family} {source.variant}".rstrip())
            try:
                captured = capturing.of(source)
                proposed = sum(_populate(captured, court, plan) for court in courts)
            except (SourceError, UserError) as error:
                skipped.append(f"{source.family} {source.variant}: {error.message}")
                continue
            if not proposed:
                skipped.append(f"{source.family} {source.variant}: no expert writes it")
    made = list(rows.deduplicated(row for one in (store, *others) for row in rows_of(one)))
    split = rows.separated(made, plan.held_out)
    spaces = tuple(_spaces(store, courts))
    counts = {name: len(some) for name, some in split.items()}
    of_split = {name: len({row.family for row in some}) for name, some in split.items()}
    about = {
        "rows": counts, "families": of_split, "kinds": Counter(row.kind for row in made),
        "languages": Counter(row.language for row in made), "origins": Counter(row.origin for row in made),
        "finished": finished, "skipped": skipped, "seed": plan.seed, "schedules_each": plan.each,
    }  # fmt: skip
    rows.write(folder, split, spaces, about)
    return Built(
        rows=tuple((str(name), count) for name, count in counts.items()),
        families=tuple((str(name), count) for name, count in of_split.items()), skipped=tuple(skipped),
        finished=finished, judged=sum(court.judged for court in courts),
    )  # fmt: skip


class _Capturing:
    """Captures sources, each once in a folder's life."""

    def __init__(self, folder: Path, store: Store) -> None:
        self._path, self._store = folder / CAPTURED, store
        self._known: dict[str, str] = json.loads(self._path.read_text()) if self._path.is_file() else {}
        self._captures: dict[str, Capture] = (
            {digest(c.problem): c for c in store.values("Capture")} if self._known else {}
        )
        self._worker: Worker | None = None

    def of(self, source: families.Source) -> Capture:
        key = " ".join((source.source, *source.inputs))
        if (known := self._captures.get(self._known.get(key, ""))) is not None:
            return known
        if self._worker is None or not self._worker.alive:
            self._worker = Worker(capture.MODULE)
        found = capture.load(source.source, inputs=source.inputs, worker=self._worker)
        self._store.put(found)
        self._known[key] = digest(found.problem)
        self._path.write_text(json.dumps(self._known, indent=1))
        return found

    def __enter__(self) -> _Capturing:
        return self

    def __exit__(self, *_: object) -> None:
        if self._worker is not None:
            self._worker.close()


def templates_of(captured: Capture, target: Target) -> tuple[Template, ...]:
    """Returns what the experts can emit for a target in its sealed C-like languages."""
    if captured.graph is None:
        return ()
    offered = experts.templates(captured.problem, captured.graph, target=target).templates
    made = ((template, template.emit(template.space.default())) for template in offered)
    return tuple(t for t, default in made if isinstance(default, Candidate) and default.language in ("cpp", "cuda"))


def _populate(captured: Capture, court: Court, plan: Plan) -> int:
    """Has schedules and their augmentations judged, and returns how many."""
    templates = templates_of(captured, court.target)
    if not templates:
        return 0
    problem = captured.problem
    tune = Tune(templates, seed=plan.seed, limit=plan.each)
    found: dict[Candidate, Record] = {}
    while batch := tune.ask():
        records = court.records(problem, (proposal.candidate for proposal in batch))
        tune.tell(tuple((proposal, records[proposal.candidate]) for proposal in batch))
        found |= records
    passed = [(candidate, record) for candidate, record in found.items() if record.passed]
    if passed:
        best, _ = max(passed, key=lambda pair: _low(pair[1]) or 0.0)
        rng = random.Random(f"{plan.seed} {digest(best)}")
        other = augmenting.renamed(problem, best, rng)
        more = [*([other] if other else []), *augmenting.broken(best, count=plan.bugs, seed=plan.seed)]
        court.records(problem, more)
    return len(found)


def _spaces(store: Store, courts: Iterable[Court]) -> Iterator[Schedules]:
    captures = tuple(store.values("Capture"))
    for captured in captures:
        for court in courts:
            for template in templates_of(captured, court.target):
                yield Schedules(problem_digest=digest(captured.problem), template=template.name, space=template.space)


# -------------------------------------------------------------------------------- rows


def rows_of(store: Store) -> Iterator[Row]:
    """Yields a row for each verified kernel of a store, and for each fault of which the repair is known."""
    captures: dict[str, Capture] = {digest(c.problem): c for c in store.values("Capture")}
    policies: dict[str, Policy] = {}
    best: dict[tuple[str, str], Record] = {}
    failed: dict[str, Record] = {}
    for record in store.records():
        if record.problem not in captures:
            continue
        policies.setdefault(record.policy, store.get(record.policy))
        if not record.passed:
            failed[record.candidate] = record
            continue
        key = (record.candidate, record.target)
        known = best.get(key)
        if known is None or policies[record.policy].rounds >= policies[known.policy].rounds:
            best[key] = record
    good = {record.candidate: record for record in best.values() if record.candidate not in failed}
    targets = {record.target: store.get(record.target) for record in good.values()}
    for mended, record in good.items():
        yield _row(captures[record.problem], store.get(mended), record, targets[record.target])
    for bad, mended in _repairs(store, failed, good):
        record = good[mended]
        row = _row(captures[record.problem], store.get(mended), record, targets[record.target])
        before = store.get(bad)
        origin = before.author if before.author.startswith("augmented") else "store"
        yield replace(row, kind="repair", before=text_of(before), fault=told(failed[bad]), origin=origin)


def _repairs(store: Store, failed: dict[str, Record], good: dict[str, Record]) -> Iterator[tuple[str, str]]:
    """Yields (faulty, repaired): planted bugs with the kernel they were planted in, and models' own repairs."""
    for key in failed:
        candidate = store.get(key)
        if candidate.author.startswith("augmented") and candidate.parents and candidate.parents[0] in good:
            yield key, candidate.parents[0]
    for attempt in Trajectories(store).attempts():
        if attempt.kind == "repair" and attempt.parent in failed and attempt.candidate in good:
            yield attempt.parent, attempt.candidate


def _row(captured: Capture, candidate: Candidate, record: Record, target: Target) -> Row:
    problem, outcome = captured.problem, record.outcome
    assert isinstance(outcome, Judgement)
    against = against_reference(outcome)
    augmented = candidate.author.startswith("augmented")
    return Row(
        kind="kernel", family=family_of(problem.name), problem=problem.name, problem_digest=digest(problem),
        features=words_of(captured, target), reference=problem.reference[0].text, language=candidate.language,
        template=candidate.template, point=candidate.point, source=text_of(candidate),
        speedup=against.speedup if against else None, low=against.low if against else None, noise=outcome.noise,
        author=candidate.author, origin=candidate.author if augmented else "expert" if candidate.template else "store",
        candidate=digest(candidate), policy=record.policy, target=record.target, when=record.when,
    )  # fmt: skip


def family_of(name: str) -> str:
    """Returns the family that a problem's name belongs to: `softmax`, and `row_sum` for row_sum.py:row_sum."""
    first, _, second = name.partition(".")
    return first if second == first else name


def text_of(candidate: Candidate) -> str:
    """Returns a candidate's first file as `kernelwright judge` reads it: with its plan where one must be said."""
    text = candidate.sources[0].text
    plan = candidate.plan
    if candidate.language == "cuda" and "kernelwright-launch:" not in text:
        return device_file.plan_lines(plan, candidate.options) + text
    if candidate.language != "cpp" or PLAN_MARK in text or (len(plan.steps) == 1 and not plan.workspaces):
        return text
    lines = f"{PLAN_MARK} {json.dumps(plan_data(candidate))}".splitlines()
    return "".join(f"// {line}\n" for line in lines) + text


def _low(record: Record) -> float | None:
    against = against_reference(record.outcome) if isinstance(record.outcome, Judgement) else None
    return against.low if against else None
