"""How fast a record says its candidate is: the one number that strategies rank by.

Not here: whether a difference means anything; that needs the intervals (run/result.py).
"""

from __future__ import annotations

import math

from kernelwright.types import Comparison, Judgement, Record

REFERENCE_BASELINES = ("graph:eager", "eager")
"""What speeds are told against, the first that was timed: on a GPU eager's graph, whose launches cost what the
candidate's do."""


def against_reference(judgement: Judgement) -> Comparison | None:
    """Returns the comparison that a record's speed is told by, None where no such baseline was timed."""
    return next((c for name in REFERENCE_BASELINES if (c := judgement.against(name))), None)


def speed(record: Record) -> float | None:
    """Returns a number that is greater for a faster candidate; None for one that did not pass.

    It is the speedup against eager (on a GPU: its graph), from blocks that alternated with the candidate's, so that a
    slow minute of the machine does not count against a candidate. Where eager was not timed, it is
    1 over the geometric mean of the candidate's medians, in 1/µs. Numbers of different policies
    are not to be compared.
    """
    outcome = record.outcome
    if not isinstance(outcome, Judgement) or not record.passed:
        return None
    against = against_reference(outcome)
    if against is not None:
        return against.speedup
    medians = [m.median_us for m in outcome.measurements if m.contender == "candidate" and m.median_us > 0]
    return math.exp(-sum(map(math.log, medians)) / len(medians)) if medians else None
