"""What an emulated kernel did wrong, from the address at which it stopped.

The emulation (include/kernelwright_emulation/fibers.hpp) ends a call by an access to an odd address below 65536, where
nothing is ever mapped; the address holds the fault's kind and the source's line.
Not here: faults of the machine, such as writes beyond a tensor (judge/runner.py).
"""

from __future__ import annotations

MOST_LINES = 2047
KINDS = {
    2: ("barrier", "a barrier of the block is not reached by all of its threads"),
    3: ("barrier", "a barrier, vote or shuffle of a warp is not reached by all lanes that its mask names"),
    4: ("mask", "a lane takes part in a vote or shuffle whose mask does not name it"),
    5: ("misaligned", "an access whose address is not a multiple of what its type needs"),
    6: ("out-of-bounds", "an access outside an array"),
    7: ("race", "two threads read and write one place in shared memory, and no barrier orders them"),
    8: ("stack", "a thread has used up its stack"),
    9: ("resources", "a block needs more shared memory than it can have: 48 KiB static, 227 KiB together"),
    10: ("trap", "the kernel stopped itself"),
    11: ("race", "two threads change one place in the device's memory without a barrier or an atomic operation"),
}
"""By number: the failure's kind, and what happened."""
OF_ARRAYS = (6, 7, 9)
"""Kinds whose line can be that of a shared array's declaration."""


def explain(address: int) -> tuple[str, str] | None:
    """Returns the kind and the words of a fault, None for an address that is none of the emulation's."""
    number, line = divmod((address - 1) // 2, MOST_LINES + 1)
    if address % 2 == 0 or number not in KINDS:
        return None
    kind, words = KINDS[number]
    where = (
        "" if not line else f" (line {line}{', where the array is declared or used' if number in OF_ARRAYS else ''})"
    )
    return kind, f"{words}{where}"
