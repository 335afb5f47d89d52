from __future__ import annotations

from pathlib import Path

import pytest
from tests.deploy.making import bundle


@pytest.fixture(scope="session")
def scale_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with one right kernel whose number of rows may vary."""
    return bundle(tmp_path_factory.mktemp("scale"))
