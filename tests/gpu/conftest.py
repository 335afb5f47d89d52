"""The device that this folder's tests share, and one judge for each problem."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright import environment, languages
from kernelwright.errors import KernelwrightError
from kernelwright.judge import Judge, policies_for
from kernelwright.types import Policy, Problem, Target, digest, replace


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "gpu" in item.path.parts:
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(scope="session", autouse=True)
def one_device_for_each_worker() -> None:
    """Where pytest runs in several processes, each takes one of the machine's GPUs, and those on one take turns."""
    number = re.search(r"\d+$", os.environ.get("PYTEST_XDIST_WORKER", ""))
    if number and (devices := environment.visible_devices()):
        turns = Path(tempfile.gettempdir(), f"kernelwright-turns-{os.environ.get('PYTEST_XDIST_TESTRUNUID', 'alone')}")
        os.environ.update(environment.sharing(devices[int(number[0]) % len(devices)], turns))


@pytest.fixture(scope="session")
def target() -> Target:
    try:
        return languages.detect_device_target()
    except KernelwrightError as error:
        pytest.skip(str(error))


class Judges:
    """One judge for each problem, made at first use; few at a time, since each holds device memory."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._open: dict[str, Judge] = {}

    def of(self, problem: Problem) -> Judge:
        key = digest(problem)
        if key not in self._open:
            while len(self._open) >= 2:
                self._open.pop(next(iter(self._open))).close()
            self._open[key] = Judge(problem, self.target)
        return self._open[key]

    def close(self) -> None:
        for judge in self._open.values():
            judge.close()


@pytest.fixture(scope="session")
def judges(target: Target) -> Iterator[Judges]:
    made = Judges(target)
    yield made
    made.close()


@pytest.fixture(scope="session")
def quick(target: Target) -> Policy:
    screen = policies_for(target)["screen"]
    return replace(screen, name="quick", rounds=4, call_deadline_s=2.0)
