"""Has whole spaces of schedules judged once, and keeps what was measured as a table that experiments can be run on.

    python benchmarks/training_table.py record --work DIR [--budget 9m]   again and again, until it says `done`
    python benchmarks/training_table.py write --work DIR                  docs/results/training-table.json

An experiment on the table costs no judgement, comes out the same on every machine, and compares everybody on the same
numbers; what the machine's noise did to a record on the day is part of the landscape and equal for all.
Spaces are cut to at most POINTS schedules, so that all of a space can be judged. Not here: the experiments
(training_small.py).
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from kernelwright import api, capture, languages
from kernelwright.judge import policies
from kernelwright.graph import Capture
from kernelwright.process import Worker
from kernelwright.search.speed import against_reference
from kernelwright.store import Store
from kernelwright.training import families, rows
from kernelwright.training.corpus import templates_of
from kernelwright.training.exercises import Exercise, recorded_of
from kernelwright.training.features import words_of
from kernelwright.training.judging import Court
from kernelwright.training.grammar import Grammar
from kernelwright.training.rows import Row, Schedules, Split
from kernelwright.types import Candidate, Judgement, Parameter, Space, Template, digest, replace

TABLE = Path(__file__).resolve().parents[1] / "docs" / "results" / "training-table.json"
POINTS, ROUNDS = 24, 12
"""Of a problem; of each judgement: a quick look's six are too few on a machine that does other things beside."""
HELD_OUT = ("leaky_bias", "tanh_residual", "row_sum", "centre_rows", "log_softmax_row", "entropy")


def cut(template: Template) -> Template:
    """Returns a template of at most POINTS points: parameters in order keep as many values as leave that many."""
    left, kept = POINTS, []
    for parameter in template.space.parameters:
        count = min(len(parameter.values), left)
        kept.append(Parameter(name=parameter.name, values=parameter.values[:count]))
        left //= count
    return replace(template, space=Space(parameters=tuple(kept)))


def court_of_table(store: Store) -> Court:
    """Returns the judge of one thread whose records make the table."""
    target = replace(languages.detect_target(), threads=1)
    return Court(target, store, screen=replace(policies.SCREEN, rounds=ROUNDS), thorough=policies.MEASURE)


def record(work: Path, budget_s: float) -> bool:
    """Goes on judging; returns whether everything is judged."""
    began = time.monotonic()
    worker = Worker(capture.MODULE)
    with Store(work / api.STORE) as store, court_of_table(store) as court:
        known = {c.problem.name: c for c in store.values("Capture")}
        for source in families.sources(work / "families", names=HELD_OUT, variants=1):
            captured = known.get(f"{source.family}.{source.family}")
            if captured is None:
                captured = capture.load(source.source, inputs=source.inputs, worker=worker)
                store.put(captured)
            grammar = Grammar(tuple(map(cut, templates_of(captured, court.target)[:1])))
            every = [c for choices in grammar.every() if (c := grammar.candidate(choices)) is not None]
            for first in range(0, len(every), 8):
                if time.monotonic() - began >= budget_s:
                    return False
                court.records(captured.problem, every[first : first + 8])
            print(f"{source.family}: {len(every)} schedules, {court.judged} judged now", flush=True)
    worker.close()
    return True


def table(work: Path) -> dict[str, Any]:
    """Returns the table as plain data: for each problem its space and (point, median, low, noise) of each record."""
    told: list[dict[str, Any]] = []
    with Store(work / api.STORE, create=False) as store, court_of_table(store) as court:
        for captured in sorted(store.values("Capture"), key=lambda c: str(c.problem.name)):
            told.append(_problem(captured, court))
        return {
            "what": f"every schedule of a cut space of {len(told)} problems, judged once under `{court.screen.name}`",
            "made": "python benchmarks/training_table.py record, then write",
            "target": court.target.architecture, "threads": court.target.threads,
            "policy": digest(court.screen), "thorough": digest(court.thorough), "problems": told,
        }  # fmt: skip


def _problem(captured: Capture, court: Any) -> dict[str, Any]:
    (template,) = map(cut, templates_of(captured, court.target)[:1])
    grammar, found = Grammar((template,)), []
    every = {c: grammar.point(choices) for choices in grammar.every() if (c := grammar.candidate(choices)) is not None}
    for candidate, judged in court.records(captured.problem, every).items():
        against = against_reference(judged.outcome) if isinstance(judged.outcome, Judgement) else None
        if judged.passed and against is not None:
            values = [choice for _, choice in every[candidate]]
            full = judged.policy == digest(court.thorough)
            found.append([values, round(against.speedup, 4), round(against.low, 4), round(judged.outcome.noise, 4), full])
    family = captured.problem.name.split(".")[0]
    return {
        "family": family, "split": "held-out" if family in HELD_OUT else "train", "digest": digest(captured.problem),
        "features": list(words_of(captured, court.target)), "template": template.name, "emitted": len(every),
        "space": [[p.name, list(p.values)] for p in template.space.parameters], "records": found,
    }  # fmt: skip
