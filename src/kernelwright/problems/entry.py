"""What a built-in problem is: a name and a reference file, with where its shape comes from.

Not here: the reference itself (reference/NAME.py, executed only in workers) and its tensors, which
the capture worker reads from it exactly as from a user's file.
"""

from __future__ import annotations

from kernelwright.types import value


@value
class Entry:
    """One built-in problem."""

    name: str
    """What the user types; the reference is `reference/NAME.py`."""
    group: str
    """The kind of operation: normalization, softmax, losses ..."""
    description: str
    """What it computes, in one line."""
    model: str
    """The model that its shape comes from."""

    @property
    def file(self) -> str:
        """Returns the reference's path, relative to the folder of this package."""
        return f"reference/{self.name}.py"
