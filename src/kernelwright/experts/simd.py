"""The vector header that every C++ candidate carries with it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from kernelwright.types import SourceFile


@cache
def simd_header() -> SourceFile:
    """Returns `simd.hpp`, so that a candidate's sources are complete."""
    return SourceFile(path="simd.hpp", text=Path(__file__).with_name("simd.hpp").read_text())
