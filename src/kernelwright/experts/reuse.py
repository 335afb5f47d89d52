"""What is worth keeping of a row between passes, and how wide vectors can be."""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright.experts import tensors as t
from kernelwright.experts.expression import Expression
from kernelwright.experts.frame import Loops, Segment, pass_of
from kernelwright.experts.index import Variable

COSTS = {
    **dict.fromkeys(("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "exp2", "log2", "log10"), 12),
    **dict.fromkeys(("erf", "sin", "cos", "erfc", "tan", "asin", "acos", "atan", "sinh", "cosh"), 24),
    **dict.fromkeys(("pow", "atan2", "fmod"), 100),
    **dict.fromkeys(("div", "sqrt", "rsqrt", "reciprocal"), 5),
}
"""Vector operations, roughly; everything else counts 1."""
THRESHOLDS = {"none": 10**9, "costly": 8, "all": 3, "registers": 1}


@dataclass(frozen=True)
class Kept:
    """A value that is stored in a row buffer in one pass and loaded in later ones."""

    value: Expression
    segment: Segment
    first: int
    """The pass that computes it."""
    number: int
    """Which row buffer."""


def kept_values(loops: Loops, levels: dict[t.Tensor, int], how: str, *, limit: int) -> list[Kept]:
    """Returns the values to keep: shared by several passes and dear enough, at most `limit` row buffers."""
    kept: list[Kept] = []
    for segment in loops.segments:
        roots: dict[int, list[Expression]] = {}
        for tensor, e in segment.folds.items():
            roots.setdefault(levels[tensor], []).append(e)
        for w in segment.writes:
            roots.setdefault(pass_of(w.value, levels), []).append(w.value)
        earlier: dict[Expression, int] = {}
        chosen: dict[Expression, int] = {}
        lane = segment.variables[-1]
        for number in sorted(roots):
            chosen |= shared(roots[number], earlier, lane, THRESHOLDS[how])
            for e in below(roots[number]):
                earlier.setdefault(e, number)
        kept += [Kept(e, segment, first, len(kept) + n) for n, (e, first) in enumerate(chosen.items())]
    return kept[:limit]


def shared(
    roots: list[Expression], earlier: dict[Expression, int], lane: Variable, least: int
) -> dict[Expression, int]:
    """Returns the outermost values below some roots that an earlier pass computed, with that pass."""
    found: dict[Expression, int] = {}
    stack = list(roots)
    seen: set[Expression] = set()
    while stack:
        e = stack.pop()
        if e in seen or lane not in e.variables:
            continue
        seen.add(e)
        if e in earlier and e.ctype == "float" and e.op not in ("fold", "scan") and cost(e, lane) >= least:
            found[e] = earlier[e]
        else:
            stack.extend(e.args)
    return found


def below(roots: list[Expression]) -> set[Expression]:
    """Returns every expression below some roots."""
    seen: set[Expression] = set()
    stack = list(roots)
    while stack:
        e = stack.pop()
        if e not in seen:
            seen.add(e)
            stack.extend(e.args)
    return seen


def cost(e: Expression, lane: Variable) -> int:
    """Returns roughly how many vector operations a value takes."""
    total = 0
    for x in below([e]):
        if lane not in x.variables or x.op in ("fold", "scan"):
            continue
        if x.op == "load" and any(lane in s.variables for s in x.args):
            total += 16
        elif x.op == "load":
            total += 1 if x.source.place.coefficient(lane) == 1 else 16
        else:
            total += COSTS.get(x.op, 1)
    return total


def lanes_of(loops: Loops, vector_bytes: int, extent: int) -> int:
    """Returns how many lanes a vector has: the widest type fits, and short loops get short vectors."""
    widest = 4
    for segment in loops.segments:
        lane = segment.variables[-1]
        values = [*segment.folds.values(), *(w.value for w in segment.writes)]
        for e in below(values):
            if lane in e.variables and e.ctype in ("double", "int64_t"):
                widest = 8
        widest = 8 if any(s.dtype in ("float64", "int64") for s in loops.kernel.scans) else widest
    lanes = vector_bytes // widest
    while lanes > 4 and lanes // 2 >= extent:
        lanes //= 2
    return lanes
