"""A witness worker that is already awake when the next candidate comes: importing torch takes a second or more.

A spare has seen no candidate, and nothing of it was made by a process that has: it is started anew, never forked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelwright.judge.witness.confined import Confined


class Spares:
    """At most one process that waits."""

    def take(self, descriptors: Sequence[int], environment: Mapping[str, str]) -> Confined:
        """Returns a process that is awake and has these descriptors."""
        confined = Confined(descriptors, environment)
        confined.wait_awake()
        return confined
