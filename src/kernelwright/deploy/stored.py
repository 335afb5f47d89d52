"""A result folder of `optimize` as a bundle: exported once, kept in environment.home()/bundles.

Not here: what an export refuses (export.py).
"""

from __future__ import annotations

from pathlib import Path

from kernelwright import environment
from kernelwright.deploy.export import export
from kernelwright.run.recollect import recollect
from kernelwright.types import digest


def bundle_of(folder: Path) -> Path:
    """Returns the bundle of a result folder's best kernel, building it where that has not been done.

    Raises:
        UserError: neither a bundle nor a result with a kernel in it.
    """
    found = recollect(str(folder))
    place = environment.home() / "bundles" / digest(found.record).replace(":", "-")
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        export([found], place)
    return place
