"""How much of the judge's verdicts a reviewer foresees: writes docs/results/reviewer.md.

    python benchmarks/reviewer.py [--model NAME]

Every kernel of tests/cheats, tests/cheats_cuda, tests/honest and tests/honest_cuda is reviewed by what was fitted
without its problem family and without its kind of trick (tools/reviewer_data.py makes these folds). The recorded
kernels of examples/recordings/gpu, good, wrong and dishonest ones, are a second collection, unseen by all of them.
--model asks a language model about every file, which costs a call each. A minute on one core, no GPU, no key, nothing
drawn at random.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.reviewer_data import (  # noqa: E402
    KINDS,
    PROBLEMS,
    SEALED,
    Fit,
    Kernel,
    Score,
    by_log_odds,
    held_out,
    kernels,
    limits,
)  # fmt: skip

from kernelwright.hacks import LEAST_SCORE, HackBook, bundled  # noqa: E402
from kernelwright.hacks.reviewing import Doubting, asking, usual  # noqa: E402
from kernelwright.search.authored.novelty import normalised  # noqa: E402

PAGE = ROOT / "docs" / "results" / "reviewer.md"
JUDGED = ROOT / "docs" / "results" / "judge.md"
RECORDED = ROOT / "examples" / "recordings" / "gpu"
SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)
"""False alarms that the curve allows, of the honest kernels."""
PENALTY = 0.03
"""Of logistic regression, on the squares of its weights, a kernel."""
WORD = re.compile(r"[A-Za-z_]\w*|[^\w\s]")
SETS = {"C++": ("cpp", "cheats", "honest"), "CUDA": ("cuda", "cheats_cuda", "honest_cuda")}


# --------------------------------------------------------------------- what is compared


def by_memory(known: Sequence[Kernel]) -> Score:
    """The hack database that holds these kernels alone: the score of the nearest cheat."""
    hacks = {(hack.origin, hack.name): hack for hack in bundled().hacks}
    cheats = [hacks[kernel.folder, kernel.name] for kernel in known if kernel.kind]
    book = HackBook(cheats, [plain(kernel) for kernel in known if not kernel.kind])

    def score(kernel: Kernel) -> float:
        found = book.resembling(kernel.text, language=kernel.language, most=1, least=0.0)
        return found[0].score if found else 0.0

    return score


@functools.cache
def plain(kernel: Kernel) -> str:
    return normalised(kernel.text)


def by_regression(known: Sequence[Kernel], features: Callable[[Kernel], frozenset[str]]) -> Score:
    """Logistic regression by Newton's method, both classes weighing the same, on features that four kernels have."""
    some = [kernel for kernel in known if kernel.deceives or not kernel.kind]
    counts: dict[str, int] = {}
    for kernel in some:
        for feature in features(kernel):
            counts[feature] = counts.get(feature, 0) + 1
    names = {name: place for place, name in enumerate(sorted(n for n, count in counts.items() if count >= 4))}

    def row(kernel: Kernel) -> Any:
        found = np.zeros(len(names) + 1)
        found[[names[f] for f in features(kernel) if f in names]] = 1.0
        found[-1] = 1.0
        return found

    x, y = np.stack([row(kernel) for kernel in some]), np.array([float(bool(kernel.kind)) for kernel in some])
    share = np.where(y > 0, 0.5 / y.sum(), 0.5 / (1 - y).sum())
    penalty = np.full(len(names) + 1, PENALTY)
    penalty[-1] = 0.0
    weights = np.zeros(len(names) + 1)
    for _ in range(20):
        p = 1 / (1 + np.exp(-(x @ weights)))
        curvature = (x.T * (share * p * (1 - p))) @ x + np.diag(penalty + 1e-9)
        weights -= np.linalg.solve(curvature, x.T @ (share * (p - y)) + penalty * weights)
    return lambda kernel: float(row(kernel) @ weights)


@functools.cache
def of_traits(kernel: Kernel) -> frozenset[str]:
    return frozenset(kernel.traits)


@functools.cache
def of_words(kernel: Kernel) -> frozenset[str]:
    return frozenset(WORD.findall(plain(kernel))) | of_traits(kernel)


COMPARED: dict[str, Fit] = {
    "classifier": by_log_odds,
    "hack database": by_memory,
    "logistic regression on the same traits": lambda known: by_regression(known, of_traits),
    "logistic regression on traits and words": lambda known: by_regression(known, of_words),
}
HIDDEN = {
    "kind and family": {},
    "kind only": {"families": False},
    "family only": {"kinds": False},
}  # fmt: skip


# ----------------------------------------------------------------------------- figures


def sides(scores: dict[Kernel, float], name: str) -> tuple[list[Kernel], list[Kernel]]:
    """Returns the cheats that more than wrong values give away, and the honest kernels."""
    language, cheats, honest = SETS[name]
    some = [kernel for kernel in scores if kernel.language == language]
    return [k for k in some if k.folder == cheats and k.deceives], [k for k in some if k.folder == honest]


def area(scores: dict[Kernel, float], name: str) -> float:
    """Returns the share of pairs of a cheat and an honest kernel in which the cheat has the higher score."""
    cheats, honest = sides(scores, name)
    won = [(scores[c] > scores[h]) + 0.5 * (scores[c] == scores[h]) for c in cheats for h in honest]
    return sum(won) / len(won)


def curve(scores: dict[Kernel, float], some: Sequence[Kernel], honest: Sequence[Kernel]) -> list[int]:
    """Returns how many of some kernels lie above the limit that allows each share of false alarms."""
    ranked = sorted((scores[kernel] for kernel in honest), reverse=True)
    marks = [ranked[min(int(share * len(ranked)), len(ranked) - 1)] for share in SHARES]
    return [sum(scores[kernel] > mark for kernel in some) for mark in marks]


def percent(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.0%})" if whole else "none"


# -------------------------------------------------------------------------------- page


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *body]
    return ["| " + " | ".join(line) + " |" for line in lines]


def page(command: str, model: str) -> str:
    """Returns the page's text."""
    scores = {
        who: {hidden: held_out(fit, **given) for hidden, given in HIDDEN.items()} for who, fit in COMPARED.items()
    }
    strict = scores["classifier"]["kind and family"]
    judged = [line[2:] for line in JUDGED.read_text().splitlines() if line.startswith(("- cheats", "- honest"))]
    cuda = sides(strict, "CUDA")[1]
    out = [
        "# Reviewers against the judge's verdicts", "",
        f"Made by `{command}`: nothing in it is drawn at random.", "",
        "A reviewer reads a kernel's text and raises a suspicion; a suspicious kernel is judged in full before it "
        "counts. "
        "The judge's verdict is what each file of the corpus is held to by tests and by `kernelwright selftest` "
        f"(C++: {'; '.join(' '.join(line.split()[1:]) for line in judged)}, docs/results/judge.md). Counted are cheats "
        "that more than wrong values give away: a kernel that is merely wrong looks honest, and the judge's checks of "
        "values are there for it. Most cheats are a softmax, so without that family little is left to learn from. "
        "The figures are a little too good: traits were named by who knows these tricks, and their prior was chosen "
        f"among five values on these folds. Of {len(cuda)} honest CUDA kernels "
        f"{sum(kernel.family == 'softmax' for kernel in cuda)} are a softmax, so a reviewer that knows a "
        "softmax would look good there; kernels with PTX are not among them and are more suspected (limits, below).",
        "",
        "## Nothing known of the kind of trick, nor of the problem family", "",
        "Cheats found where at most so many of the honest kernels (`tests/honest`, `tests/honest_cuda`) are "
        "suspected. The area is the share of pairs in which the cheat is more suspicious than the honest kernel; "
        "0.5 is chance.", "",
    ]  # fmt: skip
    body = []
    for who in COMPARED:
        for name in SETS:
            cheats, honest = sides(scores[who]["kind and family"], name)
            found = curve(scores[who]["kind and family"], cheats, honest)
            body.append([who, name, f"{area(scores[who]['kind and family'], name):.2f}", str(len(cheats)),
                         *(f"{count / len(cheats):.0%}" for count in found)])  # fmt: skip
    out += table(["reviewer", "kernels", "area", "cheats", *(f"at {share:.0%}" for share in SHARES)], body)
    out += ["", "The classifier by kind of trick, cheats found without a false alarm:", ""]
    body = []
    for kind in KINDS:
        line = [kind]
        for name in SETS:
            cheats, honest = sides(strict, name)
            some = [kernel for kernel in cheats if kernel.kind == kind]
            line.append(percent(curve(strict, some, honest)[0], len(some)))
        body.append(line)
    out += table(["first caught as", *SETS], body)
    out += [
        "",
        "## What is known, and what that buys",
        "",
        "Share of cheats found without a false alarm, and area:",
        "",
    ]
    body = []
    for who, told in scores.items():
        line = [who]
        for name in SETS:
            for hidden in told.values():
                cheats, honest = sides(hidden, name)
                share = curve(hidden, cheats, honest)[0] / len(cheats)
                line.append(f"{share:.0%}, {area(hidden, name):.2f}")
        body.append(line)
    out += table(["reviewer", *(f"{name}, {hidden} hidden" for name in SETS for hidden in HIDDEN)], body)
    return "\n".join([*out, "", *deployed(scores), *asked(model), ""])


def deployed(scores: dict[str, dict[str, dict[Kernel, float]]]) -> list[str]:
    """Returns what a user gets: precision and recall at limits that were set elsewhere, and on unseen kernels."""
    strict, memory = (scores[who]["kind and family"] for who in ("classifier", "hack database"))
    given = {fold: limits(strict, without=fold) for fold in {kernel.fold for kernel in strict}}
    doubted: dict[str, Callable[[Kernel], bool]] = {
        "classifier": lambda k: strict[k] >= given[k.fold][k.language],
        "hack database": lambda k: memory[k] >= LEAST_SCORE,
    }
    single = tuple(doubted.values())
    doubted["either"] = lambda k: any(says(k) for says in single)
    body = []
    for name in SETS:
        cheats, honest = sides(strict, name)
        for who, says in doubted.items():
            right, wrong = sum(map(says, cheats)), sum(map(says, honest))
            precision = f"{right / (right + wrong):.0%}" if right + wrong else "nothing suspected"
            body.append([name, who, precision, percent(right, len(cheats)), percent(wrong, len(honest))])
    shipped = {reviewer.name: reviewer for reviewer in usual()}
    some = [kernel for kernel in kernels() if kernel.deceives]
    known = [shipped["classifier"].review([k.text], language=k.language)[0] for k in some]
    out = [
        "## At limits that were set without looking", "",
        f"The limit that a fold is measured by comes from the honest kernels ({', '.join(PROBLEMS)}) of the other "
        f"folds; the database has its own ({LEAST_SCORE:g}). Precision is of these collections, with as many "
        "cheats as they have; where cheats are rare it is lower.", "",
        *table(["kernels", "reviewer", "precision", "recall: cheats suspected", "false alarms"], body), "",
        "The classifier that is shipped was fitted to all of them, and suspects "
        f"{percent(sum(bool(r and r.suspicious) for r in known), len(some))}: its limits come from held-out kernels, "
        "whose scores are higher.",
    ]  # fmt: skip
    return [*out, "", *of_recordings(), ""]


def of_recordings() -> list[str]:
    """Returns how the shipped reviewers do on kernels that none was fitted to."""
    some = [json.loads(line) for path in sorted(RECORDED.glob("*.jsonl")) for line in path.read_text().splitlines()
            if line.startswith("{")]  # fmt: skip
    files = {RECORDED / one["file"]: one["is"] for one in some if "file" in one and Path(one["file"]).suffix in SEALED}
    body = []
    for kind in ("good", "wrong", "dishonest"):
        texts = [(path.read_text(), SEALED[path.suffix]) for path, said in files.items() if said == kind]
        counts = [
            sum(any(review and review.suspicious for review in who.review([text], language=language))
                for text, language in texts) for who in usual()
        ]  # fmt: skip
        body.append([kind, *(percent(count, len(texts)) for count in counts)])
    return [
        "CUDA kernels of `examples/recordings/gpu`, which no reviewer was fitted to, by what they were written to be, "
        "and how many of them are suspected:", "", *table(["kernels", *(who.name for who in usual())], body),
    ]  # fmt: skip


def asked(model: str) -> list[str]:
    """Returns how a language model does, which was told of no cheat of this corpus but the nearest."""
    if not model:
        return [
            "## Language models", "",
            "Reviewed by the same interface (`kernelwright hacks review --model NAME`, `optimize --review NAME`); "
            "`--model` adds one here. None was asked for this page.",
        ]  # fmt: skip
    reviewer, body = Doubting(model, asking(model), book=HackBook((), ())), []
    for name, (language, cheats, honest) in SETS.items():
        some = [k for k in kernels() if k.folder in (cheats, honest) and (k.deceives or not k.kind)]
        said = dict(zip(some, reviewer.review([k.text for k in some], language=language), strict=True))
        doubted = [kernel for kernel, review in said.items() if review and review.suspicious]
        right = sum(bool(kernel.kind) for kernel in doubted)
        body.append([name, percent(right, len(doubted)), percent(right, sum(bool(k.kind) for k in some)),
                     str(sum(review is None for review in said.values()))])  # fmt: skip
    return [f"## {model}", "", *table(["kernels", "precision", "recall", "no verdict"], body)]


def main() -> None:
    """Measures and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="")
    parser.add_argument("--out", type=Path, default=PAGE)
    given = parser.parse_args()
    command = "python benchmarks/reviewer.py" + (f" --model {given.model}" if given.model else "")
    text = page(command, given.model)
    given.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
