"""How a fault's address is told: relative to the nearest tensor of its region."""

from __future__ import annotations

import pytest

from kernelwright.judge.runner import _nearest, _outside
from kernelwright.judge.slots import Buffer

BUFFERS = (
    Buffer("x", 0, 2048, 8192, 4096, None),
    Buffer("out", 1, 1024, 4096, 1000, None),
    Buffer("scale", 1, 3072, 4096, 16, None),
)


@pytest.mark.parametrize(
    ("title", "offset", "words"),
    [
        ("input", 2048, "byte 0 of x"),
        ("input", 8192 + 2048 + 12, "byte 12 of x"),
        ("input", 2048 + 4096 + 12, "12 bytes after the end of x"),
        ("input", 8192 + 2048 - 8, "8 bytes before x"),
        ("input", 1040, "1008 bytes before x"),
        ("output", 4096 + 1024 + 1000, "0 bytes after the end of out"),
    ],
)
def test_inside_a_region(title: str, offset: int, words: str) -> None:
    assert _nearest(BUFFERS, title, offset) == words


@pytest.mark.parametrize(
    ("title", "offset", "words"),
    [
        ("output", -24, "1048 bytes before out"),
        ("output", 9 * 4096, f"{9 * 4096 - (7 * 4096 + 3072 + 16)} bytes after the end of scale"),
        ("workspace", 5, "at byte 5"),
    ],
)
def test_outside_a_region(title: str, offset: int, words: str) -> None:
    assert _outside(BUFFERS, title, offset, 8) == words
