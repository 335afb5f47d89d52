"""Small tensors are handled by one thread: on a busy machine threads wait for each other longer than they work."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest
import torch
from tests.judge.device.own_passes import build


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def own_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The judge's own kernels for whole tensors, for this processor."""
    return build(tmp_path_factory.mktemp("own"))
