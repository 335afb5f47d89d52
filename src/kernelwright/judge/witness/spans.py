"""Whether all that a device ran for some calls lies within the time that they were given: the all-stream span.

One block more than the timed ones, in a pass of its own, since recording slows launches. Before and after the calls, on
the harness's stream and outside its events, stands a copy of a size that the judge has just drawn: a mark. Both must be
recorded, all else must lie between them, and its span, from the first start to the last end on any stream, must be no
longer than what the events say (the wall, of calls that cannot be captured).

**Covers**: work on a stream that nobody waits for, work begun before the first event, a graph replayed on another
    stream than the events', events that tell too short a time; records that are missing, lost or impossible.
**Does not cover**: records made up or held back by a candidate that has got round the guard (outputs and the judge's
    clock are left); graphs that a kernel launches; what is over before the recording begins; less than the slack.

Not here: where records come from (activities.py), who asks for them (examine.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelwright.types import Check

SLACK_NS, SLACK_SHARE = 20_000, 0.02
"""How much may lie outside, and be apart between the clocks: others saw events and records 6 to 10 µs apart
(docs/decisions/0019). tests/gpu/test_spans.py prints what they are on the device at hand."""
CALLS, MARK_BYTES = 8, range(4097, 65_522, 2)
"""Calls of the block that is recorded, and what the size of a mark is drawn from: no tensor of numbers is so long."""


def span_check(told: Any, *, marks: Sequence[int], calls: int, least: int) -> Check:
    """Returns the check `span` of what `Engine.recorded` told, which a candidate may have written.

    So many calls, with no fewer activities than `least`, must lie between copies of so many bytes.
    """
    try:
        starts, ends, streams, sizes = np.array(told["activities"], np.int64).reshape(-1, 4).T
        lost, clock_ns = [int(told["dropped"]), int(told["code"])], int(told["clock_ns"])
    except (KeyError, TypeError, ValueError, OverflowError):
        why = told.get("why", "what was told of it has another form") if isinstance(told, dict) else "nothing was told"
        return Check(name="span", passed=False, evidence=f"{why!s:.120}")
    first, last, work = sizes == marks[0], sizes == marks[1], ~np.isin(sizes, marks)
    impossible, places = (starts <= 0).any() or (ends < starts).any(), set(streams[~work].tolist())
    begin, end, starts, ends = ends[first].max(initial=0), starts[last].max(initial=0), starts[work], ends[work]
    outside_ns = int(((np.minimum(ends, begin) - starts).clip(0) + (ends - np.maximum(starts, end)).clip(0)).sum())
    span_ns, window_ns = int(ends.max(initial=begin) - starts.min(initial=end)), int(end - begin)
    slack_ns, fault = SLACK_NS + SLACK_SHARE * max(0, clock_ns), ""
    if any(lost) or impossible:
        fault = f"records were lost ({lost[0]:.9g}, code {lost[1]:.9g}) or have a time that none can have: "
    elif (first.sum(), last.sum(), len(places)) != (1, 1, 1):
        fault = (
            f"the copies round the calls were recorded {first.sum()} and {last.sum()} times, not once on one stream: "
        )
    elif len(starts) < least:
        fault = "there are calls without any activity: "
    elif outside_ns > slack_ns:
        fault = "it has work outside the time of its calls: "
    elif span_ns > clock_ns + slack_ns or clock_ns > window_ns + slack_ns:
        fault = "clock and records disagree: "
    text = (
        f"{len(ends)} activities of {calls} calls on {len(set(streams[work].tolist()))} streams, from first to last "
        f"{span_ns / 1e3:.1f} µs, {clock_ns / 1e3:.1f} µs by the clock, {window_ns / 1e3:.1f} µs between the marks, "
        f"{outside_ns / 1e3:.1f} µs outside"
    )
    return Check(name="span", passed=not fault, evidence=fault + text)
