"""The one trusted worker beside the jailed build workers: it makes what a language's builds read and may not write.

Such as headers that a compiler carries and that have to be unpacked once. It sees no candidate.
Not here: builds (worker.py).
"""

from __future__ import annotations

from kernelwright import process
from kernelwright.languages import cache, table


def prepare(emit: process.Emit, *, language: str) -> bool:
    """Lets a language put what its builds need into `cache.toolchains()`."""
    del emit
    found = table.load(language)
    if isinstance(found, table.Prepared):
        cache.prepare(cache.toolchains())
        found.prepare()
    return True


if __name__ == "__main__":
    process.serve({"prepare": prepare})
