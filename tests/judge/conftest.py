"""The judge sessions that this folder's tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.judge.kernel_files import Sessions


@pytest.fixture(scope="session")
def sessions() -> Iterator[Sessions]:
    opened = Sessions()
    yield opened
    opened.close()
