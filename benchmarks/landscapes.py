"""Strategies on landscapes made of recorded judgements: cheap, exact and the same on every machine.

    python benchmarks/landscapes.py run [--seeds 30] [--looks 4 8 16 32 64] [--workers 2]
    python benchmarks/landscapes.py page        docs/results/landscapes.md, of what lies in docs/results

docs/results/training-table.json holds what the judge found: all schedules of four cut spaces, and of 21 more problems
the few dozen points that a tuner chose. A **world** is a whole landscape that agrees with what was recorded of one
problem: recorded points keep their speeds; the others have what the parameters are worth, fitted to this problem's own
records with the average over all problems to fall back on, and drawn anew for each seed as far as the records leave it
open, with interactions and roughness of the size that the fit leaves over. A judgement adds noise drawn from the
problem's recorded intervals, more of it to a quick look than to a measurement. What a strategy is worth after so many
proposals is what `kernelwright optimize` would hand over then: the best of its three finalists on new runs.
**Covers**: spaces of 12 to 1152 points, one or two templates, every seed with a world and noise of its own.
**Does not cover**: what a judgement costs in seconds, disturbed machines, GPUs (the table has none).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
for place in (ROOT, ROOT / "src"):
    sys.path.insert(0, str(place))

from benchmarks.halving import Halving  # noqa: E402
from benchmarks.transfer import Prior, Seen  # noqa: E402

from kernelwright.search import Chain, Strategy  # noqa: E402
from kernelwright.search.evolve import Evolve  # noqa: E402
from kernelwright.search.field import Place  # noqa: E402
from kernelwright.search.random_search import RandomSearch  # noqa: E402
from kernelwright.search.tune import Tune  # noqa: E402
from kernelwright.testing.strategies import WIDE, coupled, fake_record, make_template, separable  # noqa: E402
from kernelwright.types import Candidate, Effort, Point, Template  # noqa: E402

RESULTS = ROOT / "docs" / "results"
TABLE, KEPT, PAGE = RESULTS / "training-table.json", RESULTS / "landscapes.json", RESULTS / "landscapes.md"
LOOKS = (4, 8, 16, 32, 64)
FINALISTS = 3
"""Of `optimize` (run/__init__.py)."""
EAGER_US = 1000.0
SHRINKAGE = 2.0
"""Imaginary records, each with the average effect, that a parameter's value begins with."""
ROUGH = 0.5
"""Part of what the fit leaves over that belongs to single points; the rest belongs to pairs of choices."""
ROOF = 0.05
"""Log speed by which the best of a world may exceed the best recorded, on average, and within which speeds near it are
pressed together: nothing is faster than its bytes, so that fast points are many and alike."""
NOISE_RATIO = {"screen": 1.0, "measure": math.sqrt(6 / 20), "final": math.sqrt(6 / 20)}
"""Of a deviation against a quick look's: one over the root of the rounds (judge/policies.py)."""
ROUNDS = math.sqrt(12 / 6)
"""A quick look's deviation against a recorded one's, which had twelve rounds or more."""
WILD = 0.3
"""Deviations beyond this are the recording machine's bad minutes, of which the judge says that it was disturbed."""
Choice = tuple[str, type, Any]
Make = Callable[[str, tuple[Template, ...], int, int], Strategy]


@dataclass(frozen=True)
class Recorded:
    """What was recorded of one problem."""

    family: str
    kind: str
    """whole (all points of cut spaces), partly (a tuner's choice) or made up."""
    spaces: tuple[tuple[str, tuple[tuple[str, tuple[Any, ...]], ...]], ...]
    logs: dict[tuple[str, Point], float]
    deviations: tuple[float, ...]

    @property
    def templates(self) -> tuple[Template, ...]:
        """Templates with the problem's spaces; what they emit says the point and nothing else."""
        return tuple(make_template(name, *parameters) for name, parameters in self.spaces)


@cache
def recorded() -> dict[str, Recorded]:
    """Returns every problem of the table, by family, and two that are made up."""
    found = {}
    for one in json.loads(TABLE.read_text())["problems"]:
        logs, deviations = dict[tuple[str, Point], float](), list[float]()
        for template in one["templates"]:
            names = [name for name, _ in template["space"]]
            for values, speed, low in template["records"]:
                logs[template["name"], tuple(zip(names, values, strict=True))] = math.log(speed)
                deviations += [min(WILD, math.log(speed / low) / 1.96)] if 0.0 < low <= speed else []
        spaces = tuple((t["name"], tuple((n, tuple(v)) for n, v in t["space"])) for t in one["templates"])
        kind = "whole" if one["split"] == "held-out" else "partly"
        found[one["family"]] = Recorded(one["family"], kind, spaces, logs, tuple(deviations))
    for shape in (separable, coupled):
        name = shape.__name__
        found[name] = Recorded(name, "made up", (("rows", WIDE),), {}, (0.02, 0.03, 0.05))
    return found


def choices(point: Point) -> tuple[Choice, ...]:
    return tuple((name, type(chosen), chosen) for name, chosen in point)


@cache
def fitted() -> tuple[
    dict[Choice, float], dict[str, tuple[dict[str, float], dict[Choice, float], dict[Choice, int]]], float
]:
    """Returns the average effects, each problem's own (levels of templates, effects, counts), and what is left over."""
    problems = [one for one in recorded().values() if one.kind == "partly"]
    average: dict[Choice, float] = {}
    for _ in range(4):
        own = {one.family: _own(one, average) for one in problems}
        sums: dict[Choice, list[float]] = {}
        for _, effects, counts in own.values():
            for choice, effect in effects.items():
                if counts.get(choice):
                    sums.setdefault(choice, []).append(effect)
        average = {choice: sum(some) / (len(some) + 1.0) for choice, some in sums.items()}
    left, degrees = 0.0, 0.0
    for one in problems:
        levels, effects, _ = own[one.family]
        for (name, point), log in one.logs.items():
            left += (log - levels[name] - sum(effects[c] for c in choices(point))) ** 2
        degrees += 0.5 * len(one.logs)  # the fit takes up about as much as it leaves
    for one in recorded().values():
        own.setdefault(one.family, _own(one, average))
    return average, own, math.sqrt(left / degrees)


def _own(
    one: Recorded, average: dict[Choice, float]
) -> tuple[dict[str, float], dict[Choice, float], dict[Choice, int]]:
    every = {(n, type(v), v) for _, parameters in one.spaces for n, values in parameters for v in values}
    effects = {choice: average.get(choice, 0.0) for choice in every}
    counts: dict[Choice, int] = {}
    levels = {name: 0.0 for name, _ in one.spaces}
    rows = [(name, choices(point), log) for (name, point), log in one.logs.items()]
    for _, some, _ in rows:
        for choice in some:
            counts[choice] = counts.get(choice, 0) + 1
    for _ in range(8):
        for name in levels:
            rest = [log - sum(effects[c] for c in some) for n, some, log in rows if n == name]
            levels[name] = statistics.fmean(rest) if rest else 0.0
        for choice in counts:
            rest = [
                log - levels[n] - sum(effects[c] for c in some) + effects[choice]
                for n, some, log in rows
                if choice in some
            ]
            effects[choice] = (sum(rest) + SHRINKAGE * average.get(choice, 0.0)) / (len(rest) + SHRINKAGE)
    return levels, effects, counts


class World:
    """One whole landscape of a problem, with the noise of looking at it."""

    def __init__(self, one: Recorded, seed: int) -> None:
        self.one, self._seed = one, f"{one.family} {seed}"
        self._known: dict[tuple[str, Point], float] = {}
        self._pairs: dict[tuple[str, Choice, Choice], float] = {}
        if one.kind == "made up":
            self._shape = {"separable": separable, "coupled": coupled}[one.family]
            return
        rng = random.Random(self._seed)
        _, own, left = fitted()
        self._levels, effects, counts = own[one.family]
        self._left = left
        self._roof = max(one.logs.values()) + abs(rng.gauss(0.0, ROOF))
        self._effects = {
            choice: effects[choice] + rng.gauss(0.0, left / math.sqrt(counts.get(choice, 0) + SHRINKAGE))
            for choice in sorted(effects, key=str)
        }

    def log(self, template: str, point: Point) -> float:
        """Returns the true log speed of a point."""
        key = (template, point)
        if key not in self._known:
            self._known[key] = self.one.logs[key] if key in self.one.logs else self._made(template, point)
        return self._known[key]

    def _made(self, template: str, point: Point) -> float:
        if self.one.kind == "made up":
            return math.log(EAGER_US / self._shape(template, point))
        some = choices(point)
        pairs = [(a, b) for i, a in enumerate(some) for b in some[:i]]
        each = self._left * math.sqrt((1.0 - ROUGH) / max(1, len(pairs)))
        rough = self._left * math.sqrt(ROUGH) * self._drawn(template, some)
        free = self._levels[template] + sum(self._effects[c] for c in some) + rough
        free += sum(each * self._together(template, a, b) for a, b in pairs)
        return self._roof - ROOF * math.log1p(math.exp(min(50.0, (self._roof - free) / ROOF)))

    def _together(self, template: str, one: Choice, other: Choice) -> float:
        key = (template, one, other)
        if key not in self._pairs:
            self._pairs[key] = self._drawn(key)
        return self._pairs[key]

    def best(self) -> float:
        """Returns the greatest log speed of all points."""
        return max(self.log(t.name, point) for t in self.one.templates for point in every_point(t))

    def look(self, candidate: Candidate, effort: str) -> float:
        """Returns a log speed as a judge would see it."""
        size = self._uniform(candidate.template, candidate.point, "size")
        deviation = self.one.deviations[int(size * len(self.one.deviations))] * ROUNDS * NOISE_RATIO[effort]
        return self.log(candidate.template, candidate.point) + deviation * self._drawn(
            candidate.template, candidate.point, effort
        )

    def _uniform(self, *what: object) -> float:
        told = hashlib.blake2b(f"{self._seed} {what}".encode(), digest_size=8).digest()
        return int.from_bytes(told, "big") / 2**64

    def _drawn(self, *what: object) -> float:
        return statistics.NormalDist().inv_cdf(min(max(self._uniform(*what), 1e-9), 1.0 - 1e-9))


@cache
def world_of(family: str, seed: int) -> tuple[World, float]:
    """Returns a world and its best log speed."""
    world = World(recorded()[family], seed)
    return world, world.best()


def every_point(template: Template) -> Iterator[Point]:
    points: list[Point] = [()]
    for parameter in template.space.parameters:
        points = [(*point, (parameter.name, chosen)) for point in points for chosen in parameter.values]
    return iter(points)


# ------------------------------------------------------------------------------------------------------------- trials


@cache
def earlier(family: str) -> Prior:
    """Returns what the records of all other problems say, as they would lie in the store."""
    return Prior(
        Seen(problem=one.family, template=name, point=point, speed=math.exp(log))
        for one in recorded().values()
        if one.kind == "partly" and one.family != family
        for (name, point), log in one.logs.items()
    )


def halving(family: str, templates: tuple[Template, ...], seed: int, limit: int) -> Strategy:
    return Halving(templates, seed=seed, limit=limit)


def tune(family: str, templates: tuple[Template, ...], seed: int, limit: int) -> Strategy:
    return Tune(templates, seed=seed, limit=limit)


class Informed(Tune):
    """The tuner, with a belief of what other problems' records say instead of the order of values."""

    prior = Prior()

    def _believed(self, place: Place) -> float:
        return self.prior.log_speed(self._field.templates[place.template], place.point)


def tune_with_records(family: str, templates: tuple[Template, ...], seed: int, limit: int) -> Strategy:
    tuner = Informed(templates, seed=seed, limit=limit)
    tuner.prior = earlier(family)
    return tuner


def then_evolve(first: Make) -> Make:
    """Returns half of the proposals for a tuner and half for evolution, as `kernelwright ablate` has it."""

    def made(family: str, templates: tuple[Template, ...], seed: int, limit: int) -> Strategy:
        tuner = first(family, templates, seed, max(1, round(0.5 * limit)))
        return Chain(tuner, lambda told: Evolve(templates, seed=seed, told=told, patience=limit), name="evolve")

    return made


STRATEGIES: dict[str, Make] = {
    "random": lambda family, templates, seed, limit: RandomSearch(templates, seed=seed, limit=limit),
    "halving": halving,
    "tune": tune,
    "tune, evolve": then_evolve(tune),
    "tune with records": tune_with_records,
}


def trial(family: str, name: str, limit: int, seed: int) -> float:
    """Returns what share of the best speed a strategy's kernel has after so many proposals."""
    world, best = world_of(family, seed)
    strategy = STRATEGIES[name](family, world.one.templates, seed, limit)
    seen: dict[Effort, dict[Candidate, float]] = {"measure": {}, "screen": {}}
    left = limit
    while left and (batch := strategy.ask()):
        results = []
        for proposal in batch[:left]:
            log = world.look(proposal.candidate, proposal.effort)
            seen[proposal.effort].setdefault(proposal.candidate, log)
            results.append((proposal, fake_record(proposal.candidate, proposal.effort, EAGER_US / math.exp(log))))
        left -= len(results)
        if len(results) == len(batch):
            strategy.tell(tuple(results))
    return math.exp(handed_over(world, seen) - best)


def handed_over(world: World, seen: dict[Effort, dict[Candidate, float]]) -> float:
    """Returns the true log speed of what `optimize` would choose."""
    points: dict[tuple[str, Point], Candidate] = {}
    for effort in ("measure", "screen"):
        for candidate in sorted(seen[effort], key=lambda c: -seen[effort][c]):
            points.setdefault((candidate.template, candidate.point), candidate)
    finalists = list(points.values())[:FINALISTS]
    chosen = max(finalists, key=lambda c: world.look(c, "final"))
    return world.log(chosen.template, chosen.point)


def cell(what: tuple[str, tuple[str, ...], tuple[int, ...], tuple[int, ...]]) -> list[list[Any]]:
    """Returns (problem, strategy, proposals, shares by seed) of some seeds of one problem."""
    family, names, looks, seeds = what
    found: dict[tuple[str, int], list[float]] = {}
    for seed in seeds:  # the world of a seed serves every strategy
        for name in names:
            for look in looks:
                found.setdefault((name, look), []).append(round(trial(family, name, look, seed), 4))
        world_of.cache_clear()
    return [[family, name, look, shares] for (name, look), shares in found.items()]


def run(names: tuple[str, ...], looks: tuple[int, ...], seeds: int, workers: int) -> None:
    """Makes all trials and writes docs/results/landscapes.json."""
    fitted()
    jobs = [(family, names, looks, tuple(range(seeds))) for family in recorded()]
    rows: list[list[Any]] = []
    with ProcessPoolExecutor(workers) as pool:
        for done in pool.map(cell, jobs):
            rows += done
            print(done[0][0], flush=True)
    kept = ",\n".join(json.dumps(row) for row in rows)
    KEPT.write_text(f'{{"seeds": {seeds}, "looks": {json.dumps(looks)}, "rows": [\n{kept}\n]}}\n')


# ------------------------------------------------------------------------------------------------------------ the page


def groups() -> dict[str, list[str]]:
    """Returns the problems by what they are good for."""
    partly = sorted(one.family for one in recorded().values() if one.kind == "partly")
    of = {kind: [one.family for one in recorded().values() if one.kind == kind] for kind in ("whole", "made up")}
    return {
        "held out: worlds of problems on which nothing was chosen": partly[1::2],
        "worlds of problems on which the tuner's constants were chosen": partly[::2],
        "cut spaces of which every point was recorded": of["whole"],
        "made up (`testing/strategies.py`)": of["made up"],
    }


def interval(numbers: Sequence[float]) -> str:
    """Returns a mean over problems with its 95 % bootstrap interval, problems drawn anew, in hundredths."""
    rng = random.Random(0)
    means = sorted(statistics.fmean(rng.choices(numbers, k=len(numbers))) for _ in range(2000))
    return f"{100 * statistics.fmean(numbers):+.1f} [{100 * means[50]:+.1f}, {100 * means[1949]:+.1f}]"


def page() -> str:
    """Returns the page of what lies in docs/results."""
    kept = json.loads(KEPT.read_text())
    shares = {(family, name, look): statistics.fmean(some) for family, name, look, some in kept["rows"]}
    names, looks = list(dict.fromkeys(name for _, name, _ in shares)), kept["looks"]
    told = (__doc__ or "").split("\n\n", 2)[2].strip()
    out = [
        "# Strategies on recorded landscapes", "",
        f"Made by `python benchmarks/landscapes.py run --seeds {kept['seeds']}`, then `page`; no clock is read.", "",
        told, "",
        "A world has a **roof**: speeds near the best recorded are pressed together, as where memory is the limit. "
        "`halving` is the tuner that was before (benchmarks/halving.py); `tune` is the present one; `tune, evolve` "
        "halves the proposals as `kernelwright ablate` does; `tune with records` believes what other "
        "problems' records say. Worlds are drawn around the average of all problems, so they flatter `tune with "
        "records`; the cut spaces, recorded whole, do not.", "",
        "The first number is the share of the best speed that is handed over, in hundredths, mean over problems and "
        f"{kept['seeds']} seeds; then what random search has less, with the 95 % bootstrap interval over problems.", "",
    ]  # fmt: skip
    for title, families in groups().items():
        out += [f"## {title[0].upper()}{title[1:]} ({len(families)})", ""]
        out += [f"| after | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
        for look in looks:
            row = []
            for name in names:
                own = [shares[family, name, look] for family in families]
                ahead = [shares[family, name, look] - shares[family, "random", look] for family in families]
                row.append(f"{100 * statistics.fmean(own):.1f}" + ("" if name == "random" else f"; {interval(ahead)}"))
            out.append(f"| {look} | {' | '.join(row)} |")
        out.append("")
    out += ["## Against the tuner that was before", "", "Means over all problems but the made-up ones:", ""]
    every = [family for family, one in recorded().items() if one.kind != "made up"]
    others = [name for name in names if name not in ("random", "halving")]
    out += [f"| after | {' | '.join(others)} |", "|---|" + "---|" * len(others)]
    for look in looks:
        cells = [interval([shares[f, name, look] - shares[f, "halving", look] for f in every]) for name in others]
        out.append(f"| {look} | {' | '.join(cells)} |")
    return "\n".join([*out, ""])


def main() -> None:
    """Does what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "page"])
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--looks", type=int, nargs="*", default=LOOKS)
    parser.add_argument("--only", nargs="*", choices=list(STRATEGIES), default=list(STRATEGIES))
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    if given.what == "run":
        run(tuple(given.only), tuple(given.looks), given.seeds, given.workers)
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
