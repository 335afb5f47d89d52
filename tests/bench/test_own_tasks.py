"""The engine on forty tasks: each is loaded, becomes at least one kernel, and the judge passes it.

One process captures and one judges them all. A small policy tells right from wrong; it times nothing that counts.
What the engine itself takes for a task is printed (pytest -s), and not held: machines differ.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.bench import own_tasks

from kernelwright import capture, experts, languages
from kernelwright.bench import tasks
from kernelwright.graph import Capture
from kernelwright.judge import SCREEN, Judge
from kernelwright.process import Worker
from kernelwright.types import Candidate, Failure, replace

TINY = replace(
    SCREEN, name="tiny", families=("given", "integers"), rounds=3, block_us=50.0, baselines=("eager",),
    hidden_shapes=0, deadline_s=120.0, call_deadline_s=60.0,
)  # fmt: skip


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Capture]]:
    root = own_tasks.clone(tmp_path_factory.mktemp("clone"))
    worker = Worker(capture.MODULE)
    found = tasks.kernelbench(root, levels=(1, 2, 3))
    assert len(found) == 40
    yield {task.name: capture.load(task.path, worker=worker) for task in found}
    worker.close()


def test_every_task_becomes_a_kernel_that_the_judge_passes(captured: dict[str, Capture]) -> None:
    # As if the cache were small: fewer slots hold what a large one would take.
    target, wrong, judge = replace(languages.detect_target(), cache_bytes=1 << 20), [], None
    for name, each in captured.items():
        start_s = time.process_time()
        assert each.graph is not None, name
        offer = experts.templates(each.problem, each.graph, target=target)
        assert offer.templates, (name, [r.text for r in offer.refusals])
        template = offer.templates[0]
        made = template.emit(template.space.default())
        print(f"{name}: {len(offer.templates)} templates, {time.process_time() - start_s:.2f} s of the engine's own")
        assert isinstance(made, Candidate), (name, made)
        judge = judge or Judge(each.problem, target)
        judge.turn_to(each.problem)
        (record,) = judge.judge((made,), TINY)
        if not record.passed:
            fault = record.outcome
            said = fault.message if isinstance(fault, Failure) else [c for c in fault.verdict.checks if not c.passed]
            wrong.append((name, template.name, said))
    if judge:
        judge.close()
    assert wrong == []
