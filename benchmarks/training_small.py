"""The small author of schedules against search at equal numbers of judgements, on a table of recorded judgements.

    python benchmarks/training_small.py learn --work DIR      every stage and variant, three seeds; goes on when called again
    python benchmarks/training_small.py compare --work DIR    docs/results/training-small.json, and the table as Markdown

Nothing is judged: training_table.py did that once (docs/results/training-table.json). Everybody gets the same held-out
problems and the same number of judged schedules; what the author saw of others while it learnt is told beside it.
**Covers**: random search, tuner, evolution; sft alone, self-supervised only, GRPO without exemplars, with random ones,
with ones of distinct speed buckets. **Does not cover**: spaces of more than a few dozen schedules, other machines.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from training_table import TABLE, write_corpus

from kernelwright.search import Chain, Strategy
from kernelwright.search.authored.briefs import Exemplar
from kernelwright.search.evolve import Evolve
from kernelwright.search.random_search import RandomSearch
from kernelwright.search.speed import speed
from kernelwright.search.tune import Tune
from kernelwright.training import exercises, vocabulary
from kernelwright.training.authors import CHECKPOINT_MODEL, Author
from kernelwright.training.checkpoints import Checkpoints
from kernelwright.training.practice import Drawing, SchedulePractice, drawn
from kernelwright.training.reward import RewardSettings
from kernelwright.training.stages import Settings, Training
from kernelwright.types import Candidate, Record, digest

KEPT = TABLE.with_name("training-small.json")
SCALE = RewardSettings(slow=0.125, fast=16.0)
SEEDS, DRAWS = 3, 4
"""Of training; of searching with each trained author."""
LIMIT, LOOKS = 12, (3, 6, 12)
"""Judged schedules of each held-out problem, and after how many of them is looked."""
LONG, SHORT = 90, 30
VARIANTS: dict[str, tuple[tuple[Any, ...], ...]] = {
    # name: (stage, steps, exemplars in practice), one after the other
    "untrained": (("sft", 1, "none"),),
    "sft only": (("sft", SHORT, "none"),),
    "self-supervised only": (("sft", SHORT, "none"), ("select", LONG, "none")),
    "GRPO without exemplars": (("sft", SHORT, "none"), ("select", SHORT, "none"), ("contrast", LONG - SHORT, "none")),
    "contrastive, random": (("sft", SHORT, "none"), ("select", SHORT, "none"), ("contrast", LONG - SHORT, "random")),
    "contrastive, buckets": (("sft", SHORT, "none"), ("select", SHORT, "none"), ("contrast", LONG - SHORT, "buckets")),
}
"""All that generate have as many steps that do."""


class Counted(exercises.Recorded):
    """Notes which schedules were looked up."""

    def __init__(self, some: tuple[exercises.Exercise, ...]) -> None:
        super().__init__(some, SCALE)
        self.seen: set[str] = set()
        self.asked = 0

    def rewards(
        self, exercise: exercises.Exercise, candidates: Iterable[Candidate], *, exemplars: tuple[str, ...] = ()
    ) -> dict[Candidate, Any]:
        """Returns reward and record of each candidate."""
        some = tuple(candidates)
        self.asked += len(some)
        self.seen.update(map(digest, some))
        return super().rewards(exercise, some, exemplars=exemplars)


def learn(work: Path, corpus: Path) -> None:
    """Trains every variant with every seed; what is there already stays."""
    practised = exercises.recorded(corpus, "train")
    every = (*practised, *exercises.recorded(corpus, "held-out"))
    told = vocabulary.words(w for e in every for w in (*e.features, *e.grammar(frozenset()).vocabulary()))
    for seed in range(SEEDS):
        for name, stages in VARIANTS.items():
            parent = ""
            for place, (stage, steps, how) in enumerate(stages):
                label = " ".join(f"{s}{n}{h}" for s, n, h in stages[: place + 1])
                folder = work / f"{label} seed{seed}".replace(" ", "-")
                if not (folder / "done.json").is_file():
                    print(f"{name}, seed {seed}: {stage}", flush=True)
                    _stage(folder, parent, practised, told, Settings(
                        stage=stage, seed=seed, exemplars=how, plain=0.5 if how != "none" else 1.0, save_every=1000,
                    ), steps, rate=1e-9 if name == "untrained" else 3e-3)  # fmt: skip
                parent = str(folder / CHECKPOINT_MODEL)


def _stage(
    folder: Path, parent: str, practised: tuple[exercises.Exercise, ...], told: tuple[str, ...], settings: Settings,
    steps: int, *, rate: float,
) -> None:  # fmt: skip
    kept = Checkpoints(folder, {}, resume=folder.is_dir())
    judges = Counted(practised)
    rates = {"learning": rate, "micro": 64, "entropy": 0.02}
    with Author(parent, words=told, seed=settings.seed, rates=rates, device="cpu") as author:
        Training(SchedulePractice(author), practised, judges, settings, kept).run(steps=steps)
    about = {"answers": judges.asked, "distinct": len(judges.seen)}
    (folder / "done.json").write_text(json.dumps(about))


# ---------------------------------------------------------------------------- comparing


def searched(make: Callable[[], Strategy], judges: exercises.Recorded, exercise: exercises.Exercise) -> list[float]:
    """Returns the best speed after each of LIMIT judged schedules of a strategy; what it measures again is free."""
    strategy, curve, seen = make(), [], dict[str, float]()
    while len(seen) < LIMIT and (batch := strategy.ask()):
        for proposal in batch:
            record = judges.rewards(exercise, [proposal.candidate])[proposal.candidate][1]
            strategy.tell(((proposal, record),))
            if digest(proposal.candidate) not in seen and len(seen) < LIMIT:
                seen[digest(proposal.candidate)] = speed(record) or 0.0
                curve.append(max(seen.values()))
    return curve


def asked(
    practice: SchedulePractice, judges: exercises.Recorded, exercise: exercises.Exercise, how: Drawing, seed: int
) -> list[float]:
    """Returns the best speed after each of LIMIT judged schedules of an author: as in `optimize`, every second prompt
    shows what was found so far."""
    known: dict[str, Exemplar] = {}
    curve: list[float] = []
    rng = random.Random(f"{exercise.key} {seed}")
    for number in range(8 * LIMIT):
        shown = drawn(tuple(known.values()), 2, how, rng) if number % 2 else ()
        (answers,) = practice.sample([(exercise, shown)], 4, seed=rng.getrandbits(31))
        for answer in answers:
            if isinstance(answer, Candidate) and digest(answer) not in known and len(curve) < LIMIT:
                record = judges.rewards(exercise, [answer])[answer][1]
                known[digest(answer)] = Exemplar(candidate=answer, speed=speed(record) or 0.0)
                curve.append(max(e.speed for e in known.values()))
        if len(curve) >= LIMIT:
            break
    return curve


def strategies(exercise: exercises.Exercise, seed: int) -> dict[str, Callable[[], Strategy]]:
    """Returns what searches without having learnt anything; they may propose more than LIMIT, of which some come twice."""
    templates, limit = exercise.templates, 2 * LIMIT
    return {
        "random search": lambda: RandomSearch(templates, seed=seed, limit=limit),
        "tuner": lambda: Tune(templates, seed=seed, limit=limit),
        "evolution": lambda: Chain(
            Tune(templates, seed=seed, limit=LIMIT // 2),
            lambda told: Evolve(templates, seed=seed, told=told, patience=LIMIT), name="evolve",
        ),
    }  # fmt: skip


def compare(work: Path, corpus: Path) -> dict[str, Any]:
    """Returns, for everybody, a curve of shares of the best that is known for each problem and seed."""
    held = exercises.recorded(corpus, "held-out")
    judges = exercises.Recorded(held, SCALE)
    best = {e.key: max(row.speedup or 0.0 for row in e.rows) for e in held}
    found: dict[str, list[tuple[str, list[float]]]] = {}

    def note(name: str, exercise: exercises.Exercise, curve: list[float]) -> None:
        padded = curve + [curve[-1] if curve else 0.0] * (LIMIT - len(curve))
        found.setdefault(name, []).append((exercise.name, [round(s / best[exercise.key], 4) for s in padded]))

    for exercise in held:
        for seed in range(SEEDS * DRAWS):
            for name, make in strategies(exercise, seed).items():
                note(name, exercise, searched(make, judges, exercise))
    for name, stages in VARIANTS.items():
        label = " ".join(f"{s}{n}{h}" for s, n, h in stages)
        for seed in range(SEEDS):
            folder = work / f"{label} seed{seed}".replace(" ", "-") / CHECKPOINT_MODEL
            with Author(str(folder), device="cpu") as author:
                practice = SchedulePractice(author)
                for exercise in held:
                    for draw in range(DRAWS):
                        note(name, exercise, asked(practice, judges, exercise, stages[-1][2], SEEDS * draw + seed))
    looked = {
        p.parent.name: json.loads(p.read_text()) for p in sorted(work.glob("*/done.json"))
    }  # fmt: skip
    steps = {
        p.parent.name: [round(json.loads(line).get("reward", 0.0), 4) for line in p.read_text().splitlines()]
        for p in sorted(work.glob("select*/steps.jsonl")) + sorted(work.glob("sft*/steps.jsonl"))
    }  # fmt: skip
    return {
        "problems": {e.name: {"schedules": len(e.rows), "best": best[e.key]} for e in held},
        "curves": found, "looked at in training": looked, "rewards": steps,
    }  # fmt: skip


def table(kept: dict[str, Any]) -> list[str]:
    """Returns the comparison as Markdown."""
    rng = random.Random(0)
    heads = " | ".join(f"after {look}" for look in LOOKS)
    out = [f"| who | trials | {heads} |", "|---|---|" + "---|" * len(LOOKS)]
    for name, trials in kept["curves"].items():
        cells = []
        for look in LOOKS:
            low, high = interval(trials, look, rng)
            cells.append(f"{statistics.fmean(curve[look - 1] for _, curve in trials):.3f} ({low:.3f} to {high:.3f})")
        out.append(f"| {name} | {len(trials)} | {' | '.join(cells)} |")
    return out


def interval(trials: list[tuple[str, list[float]]], look: int, rng: random.Random) -> tuple[float, float]:
    """Returns the 95 % bootstrap interval of the mean over problems of the mean over seeds, problems drawn as well."""
    of: dict[str, list[float]] = {}
    for problem, curve in trials:
        of.setdefault(problem, []).append(curve[look - 1])
    groups = list(of.values())
    means = sorted(
        statistics.fmean(statistics.fmean(rng.choices(g, k=len(g))) for g in rng.choices(groups, k=len(groups)))
        for _ in range(1000)
    )
    return means[25], means[974]


def main() -> None:
    """Does what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["learn", "compare"])
    parser.add_argument("--work", type=Path, default=Path("kernelwright-out/training-small"))
    given = parser.parse_args()
    corpus = given.work / "corpus"
    write_corpus(json.loads(TABLE.read_text()), corpus)
    if given.what == "learn":
        learn(given.work, corpus)
        return
    kept = compare(given.work, corpus)
    KEPT.write_text(json.dumps(kept) + "\n")
    print("\n".join(table(kept)))


if __name__ == "__main__":
    main()
