"""The judge sessions that this folder's tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.judge.kernel_files import Sessions
from tests.judge.python_files import Courtroom


@pytest.fixture(scope="session")
def sessions() -> Iterator[Sessions]:
    opened = Sessions()
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def courtroom() -> Iterator[Courtroom]:
    opened = Courtroom()
    yield opened
    opened.close()
