"""What all tests need: signals as a terminal's foreground job has them, tests/gpu only where it is asked for, and which
tests belong into one process.

A shell starts background jobs with SIGINT ignored, and nohup with SIGHUP ignored; both would be inherited by every
process that a test starts, and tests of Ctrl-C would wait in vain.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)

INHERITED = ("PYTHON", "KERNELWRIGHT_", "OMP_", "TORCH")
"""Beginnings of the names of variables that processes of all tests inherit."""
TESTS = Path(__file__).parent
GPU_TESTS = TESTS / "gpu"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--require-gpu", action="store_true", help="run tests/gpu too; there a skip is a failure")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    asked = config.getoption("--require-gpu") or any("gpu" in Path(a).parts for a in config.invocation_params.args)
    return True if collection_path == GPU_TESTS and not asked else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps tests together (`--dist loadgroup`) that share a fixture: each process would make it anew."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None and shares(item):
            item.add_marker(pytest.mark.xdist_group(item.path.relative_to(TESTS).as_posix()))


def shares(item: pytest.Item) -> bool:
    """Tells whether a test uses a fixture of these tests that lives longer than one test."""
    found = item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ()
    return any(fixture.baseid and fixture.scope != "function" for (*_, fixture) in found)


def inherited() -> dict[str, str]:
    """Returns the variables that change what processes of later tests see and do."""
    return {name: text for name, text in os.environ.items() if name.startswith(INHERITED)}


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    before = inherited()
    result = yield
    changed = sorted(dict(inherited().items() ^ before.items()))
    if changed:
        raise pytest.UsageError(
            f"importing the tests changed {', '.join(changed)} for every test: do it where it is used"
        )
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and item.config.getoption("--require-gpu") and GPU_TESTS in item.path.parents:
        report.outcome = "failed"
        report.longrepr = f"skipped although a GPU was required: {report.longrepr}"
    return report
