"""The variables under which contenders run: threads are bound where the processor does the work, and only there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kernelwright.judge.conditions import environment

SAYS = "import os, torch; (torch.ones(1 << 16) + 1).sum(); print(len(os.sched_getaffinity(0)))"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor: nothing to bind")
@pytest.mark.parametrize("bound", [True, False])
def test_the_first_thread_has_one_processor_only_where_threads_are_bound(bound: bool) -> None:
    variables = {**os.environ, **environment(2, bound=bound)}
    told = subprocess.run([sys.executable, "-c", SAYS], env=variables, capture_output=True, text=True, check=True)
    assert (int(told.stdout) == 1) == bound
