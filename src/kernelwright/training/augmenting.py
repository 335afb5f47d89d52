"""More to learn from one kernel: the same with other names, and the same with a bug that the judge finds.

What comes out of here are proposals like any other: the corpus keeps those that the judge lets pass, or, of bugs, those
that it refuses.
Not here: other schedules and languages (the experts emit them), other sizes and layouts (families.py).
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from kernelwright import mutation
from kernelwright.search.authored.novelty import KEPT, TOKEN
from kernelwright.types import Candidate, Problem, SourceFile, digest, replace

DECLARED = re.compile(
    r"\b(?:float|double|int|int32_t|int64_t|size_t|bool|auto|F|D|I|L|M)(?:\s*[*&])?(?:\s+__restrict)?\s+"
    r"([A-Za-z_]\w*)\s*(?=[=;\[,):])"
)
NAMES = ("acc", "idx", "val", "lane", "tile", "part", "left", "top", "cur", "item", "pos", "run", "step", "word")


def renamed(problem: Problem, candidate: Candidate, rng: random.Random) -> Candidate | None:
    """Returns the candidate with other names for what its first source declares, None where there is nothing to rename.

    Names that a plan or another file may know stay: tensors, kernels, workspaces.
    """
    text = candidate.sources[0].text
    outside = {spec.name for spec in problem.arguments} | {w.name for w in candidate.plan.workspaces}
    outside |= {step.symbol for step in candidate.plan.steps} | KEPT
    words = {match[0] for match in TOKEN.finditer(text) if match.lastgroup == "word"}
    mine = [name for name in dict.fromkeys(DECLARED.findall(text)) if name not in outside]
    if not mine:
        return None
    fresh = (f"{name}{number}" for number in range(100) for name in rng.sample(NAMES, len(NAMES)))
    table = dict(zip(mine, (name for name in fresh if name not in words), strict=False))
    changed = TOKEN.sub(lambda m: table.get(m[0], m[0]) if m.lastgroup == "word" else m[0], text)
    return _with_text(candidate, changed, "augmented: names")


def broken(candidate: Candidate, *, count: int, seed: int) -> Iterator[Candidate]:
    """Yields the candidate with one planted bug each, of `mutation`'s kinds."""
    source = candidate.sources[0]
    for mutant in mutation.mutants(source, candidate.language, limit=count, seed=seed):
        yield _with_text(candidate, mutant.source.text, f"augmented: {mutant.operator}")


def _with_text(candidate: Candidate, text: str, author: str) -> Candidate:
    first = SourceFile(path=candidate.sources[0].path, text=text)
    return replace(
        candidate, sources=(first, *candidate.sources[1:]), author=author, parents=(digest(candidate),), template="",
        point=(),
    )  # fmt: skip
