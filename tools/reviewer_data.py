"""Writes src/kernelwright/hacks/classifier.json: what each trait weighs, and from which sum a kernel is suspicious.

    python tools/reviewer_data.py

A test compares the file with the corpus, so run this when a cheat, an honest kernel or a trait comes or changes.
A trait weighs the log-odds of cheats to honest kernels that have it, as in a naive Bayes classifier, but never less
than nothing. Within each problem family and language cheats and honest kernels weigh the same, so that what a family
looks like says nothing; cheats that only wrong values give away are left out. Limits are what honest kernels reach by
weights that knew nothing of their problem family.
How well that works is measured by benchmarks/reviewer.py, on the folds made here.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tools import hacks_data  # noqa: E402

from kernelwright.hacks.idioms import traits  # noqa: E402
from kernelwright.hacks.reviewing import WEIGHTS, Classifier  # noqa: E402

PROBLEM = re.compile(r"^(?://|#) PROBLEM: (?:odd_)?(\w+?)(?:_b?float\d+)?$", re.MULTILINE)
SEALED = {".cpp": "cpp", ".cu": "cuda"}
"""The languages that are reviewed by their traits: where a candidate's own Python runs, tricks are others."""
KINDS = {
    "wrong values": "accuracy non-finite written",
    "answers that depend on when": "timed.outputs later.outputs calls state clock floor environment structure threads "
    "processes thread protocol",
    "refused sources": "include asm directive attribute type syntax source printf symbol plan link instruction "
    "constructor import syscall launch stack",
    "faults": "signal resources memory timeout guards inputs.unchanged abort exception input-written out-of-bounds "
    "misaligned assert trap exit",
}
"""Kinds of tricks, by the first check or failure that catches them."""
KIND_OF = {check.replace(".", " "): kind for kind, checks in KINDS.items() for check in checks.split()}
PROBLEMS = ("honest", "honest_cuda", "mutants/kernels", "languages/cuda")
"""Honest kernels like those that people write; `languages/honest` is C++ that is strange on purpose."""
FOLDS = 4
"""Of problem families, beside softmax: most cheats are of that one, so it is a fold of its own."""
ALLOWANCE = 1.001
"""A limit lies this much above the highest honest score."""
PRIOR = 10.0
"""Kernels of each class that are supposed to have a trait, and as many not to have it, before any is looked at."""


@dataclass(frozen=True)
class Case:
    """A kernel that the judge has spoken about."""

    language: str
    family: str
    traits: tuple[str, ...]
    cheats: bool


def fitted(cases: Iterable[Case]) -> dict[str, float]:
    """Returns the weight of each trait that has one.

    The same for the same cases in any order. Cheats of a family without an honest kernel in their language say nothing.
    """
    some = tuple(cases)
    counts = Counter((case.language, case.family, case.cheats) for case in some)
    held: dict[bool, dict[str, list[float]]] = {True: {}, False: {}}
    whole: dict[bool, list[float]] = {True: [], False: []}
    for case in some:
        own, other = (counts[case.language, case.family, kind] for kind in (case.cheats, not case.cheats))
        weight = (own + other) / own if other else 0.0 if case.cheats else 1.0
        whole[case.cheats].append(weight)
        for trait in case.traits:
            held[case.cheats].setdefault(trait, []).append(weight)

    def share(trait: str, kind: bool) -> float:
        return (math.fsum(held[kind].get(trait, ())) + PRIOR) / (math.fsum(whole[kind]) + 2 * PRIOR)

    odds = {trait: math.log(share(trait, True) / share(trait, False)) for trait in held[True]}
    return {trait: round(weight, 4) for trait, weight in sorted(odds.items()) if weight > 0}


@dataclass(frozen=True)
class Kernel:
    """A file of the corpus, with what its folder says that the judge does with it."""

    name: str
    folder: str
    language: str
    family: str
    kind: str
    """Of trick; empty for an honest kernel."""
    deceives: bool
    text: str
    traits: tuple[str, ...]

    @property
    def fold(self) -> int:
        """The family's fold."""
        if self.family == "softmax":
            return 0
        return 1 + int(hashlib.sha256(self.family.encode()).hexdigest(), 16) % FOLDS

    @property
    def case(self) -> Case:
        """What the classifier learns from."""
        return Case(language=self.language, family=self.family, traits=self.traits, cheats=bool(self.kind))


def kind_of(check: str) -> str:
    """Returns the kind of trick that a check or failure catches first.

    Raises:
        ValueError: no kind has it.
    """
    if check not in KIND_OF:
        raise ValueError(f"no kind of trick has {check!r}; add it to KINDS in tools/reviewer_data.py")
    return KIND_OF[check]


@functools.cache
def kernels() -> tuple[Kernel, ...]:
    """Returns every cheat and honest kernel in C++ and CUDA."""
    found = []
    for folder in (*hacks_data.CHEATS, *hacks_data.HONEST):
        for path in (p for p in hacks_data.kernels(folder) if p.suffix in SEALED):
            told, text = path.read_text(), hacks_data.text_of(path)
            problem = PROBLEM.search(told)
            usual = "softmax" if folder in ("cheats", "cheats_cuda", "honest", "honest_cuda") else path.stem
            family = problem[1] if problem else usual
            hack = hacks_data.hack_of(path, SEALED[path.suffix]) if folder in hacks_data.CHEATS else None
            found.append(Kernel(
                name=path.stem, folder=folder, language=SEALED[path.suffix],
                family="softmax" if "softmax" in family else family, kind=kind_of(hack.caught_by[0]) if hack else "",
                deceives=bool(hack and hack.deceives), text=text, traits=traits(text),
            ))  # fmt: skip
    return tuple(found)


Score = Callable[[Kernel], float]
Fit = Callable[[tuple[Kernel, ...]], Score]
"""Makes of known kernels what scores others."""


def by_log_odds(known: Iterable[Kernel]) -> Score:
    """Fits the classifier to known kernels; what only wrong values tell from an honest one is left out."""
    weights = fitted(kernel.case for kernel in known if kernel.deceives or not kernel.kind)
    return lambda kernel: Classifier(weights, {}).score(kernel.traits)


def held_out(fit: Fit, *, families: bool = True, kinds: bool = True) -> dict[Kernel, float]:
    """Returns each kernel's score by what was fitted without its problem family's fold and without its kind of trick.

    Several did not know an honest kernel's family, and each of them lacks one kind of trick: it gets their mean.
    Without `families`, a kernel's fold is drawn by its name; without `kinds`, all kinds are known.
    """

    def fold(kernel: Kernel) -> int:
        drawn = hashlib.sha256(f"{kernel.folder}/{kernel.name}".encode()).hexdigest()
        return kernel.fold if families else int(drawn, 16) % (FOLDS + 1)

    scores: dict[Kernel, list[float]] = {}
    for number in range(FOLDS + 1):
        for kind in KINDS if kinds else ("",):
            known = tuple(k for k in kernels() if fold(k) != number and (not kind or k.kind != kind))
            score = fit(known)
            for kernel in kernels():
                if fold(kernel) == number and kernel.kind in ((kind, "") if kind else (kernel.kind,)):
                    scores.setdefault(kernel, []).append(score(kernel))
    return {kernel: statistics.fmean(some) for kernel, some in scores.items()}


def limits(scores: dict[Kernel, float], *, without: int | None = None) -> dict[str, float]:
    """Returns, by language, a sum just above the score of each honest kernel in PROBLEMS; of one fold
    fewer where that is asked."""
    honest = [(k, score) for k, score in scores.items() if k.folder in PROBLEMS and k.fold != without]
    return {
        language: round(ALLOWANCE * max(score for k, score in honest if k.language == language), 4)
        for language in SEALED.values()
    }


def packed() -> str:
    """Returns the file's text."""
    weights = fitted(kernel.case for kernel in kernels() if kernel.deceives or not kernel.kind)
    return json.dumps({"limits": limits(held_out(by_log_odds, kinds=False)), "weights": weights}, indent=1) + "\n"


if __name__ == "__main__":
    WEIGHTS.write_text(packed())
    told = json.loads(WEIGHTS.read_text())
    print(f"{WEIGHTS.relative_to(ROOT)}: {len(told['weights'])} weights, limits {told['limits']}")
