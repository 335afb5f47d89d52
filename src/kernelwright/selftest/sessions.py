"""One judge session for each small problem, shared by everything of the corpus that it judges.

Not here: what must be caught (__init__.py), and timing (timing.py).
"""

from __future__ import annotations

from pathlib import Path

from kernelwright.errors import UserError
from kernelwright.judge import SCREEN, Judge
from kernelwright.judge.policies import FAMILIES
from kernelwright.languages import detect_device_target, detect_target, emulated_target
from kernelwright.run.session import disturbed
from kernelwright.selftest.kernel_files import Kernel, kernels
from kernelwright.selftest.small_problems import make_problem
from kernelwright.types import Candidate, Policy, Record, Target, replace

QUICK = replace(
    SCREEN,
    name="quick",
    families=(
        *SCREEN.families,
        "powers",
        "huge",
        "tiny",
        "shifted",
        "patchwork",
        "exact",
        "lowest",
        "sparse",
        "single",
    ),
    rounds=6,
    block_us=400.0,
    call_deadline_s=3.0,
    hidden_shapes=3,
)
PLANTED = replace(QUICK, name="planted", families=FAMILIES)
"""For planted bugs: every family, since a bug that any of them shows must be caught."""
AGAIN = 3
SMALL_CACHE_BYTES = 2 << 20
"""So that few slots make a footprint: these sessions are about verdicts, not times."""
SMALL_EMULATED_CACHE_BYTES = 1 << 16


def target_of(device: str) -> Target:
    """Returns what the self-test judges on: cpu, emulated or cuda.

    Raises:
        UserError: for any other name, and where there is no such device.
    """
    if device == "cuda":
        return detect_device_target()
    if device == "emulated":
        return replace(emulated_target(), cache_bytes=SMALL_EMULATED_CACHE_BYTES, threads=2)
    if device != "cpu":
        raise UserError(f"there is no device {device!r} to test the judge on", "use cpu, emulated or cuda")
    return replace(detect_target(), cache_bytes=SMALL_CACHE_BYTES)


class Sessions:
    """Judges the kernels of the corpus, a batch for each problem, the first time one of them is asked for.

    One judge turns from problem to problem, so that its processes start once.
    """

    def __init__(self, target: Target | None = None) -> None:
        self.target = target or target_of("cpu")
        self._judge: Judge | None = None
        self._records: dict[Path, Record] = {}

    def judge(self, problem: str) -> Judge:
        """Returns the judge, turned to a problem."""
        if self._judge is None:
            self._judge = Judge(make_problem(problem), self.target)
        self._judge.turn_to(make_problem(problem))
        return self._judge

    def record(self, kernel: Kernel) -> Record:
        """Returns a kernel's record; every other kernel of its folder and problem is judged with it."""
        if kernel.path not in self._records:
            self.judge_all([k for k in kernels(kernel.path.parent.name) if k.problem == kernel.problem])
        return self._records[kernel.path]

    def judge_all(self, batch: list[Kernel]) -> list[Record]:
        """Returns the records of some kernels of one problem, in their order."""
        problem = make_problem(batch[0].problem)
        records = self.records(batch[0].problem, [k.candidate(problem) for k in batch])
        self._records.update(zip([k.path for k in batch], records, strict=True))
        return records

    def records(self, problem: str, candidates: list[Candidate], policy: Policy = QUICK) -> list[Record]:
        """Returns the records of some candidates of a problem, in their order.

        What only the clocks stopped is judged again, a few times at most: a busy machine disturbs some, a forger is
        stopped each time.
        """
        judge = self.judge(problem)
        records = list(judge.judge(candidates, policy))
        for _ in range(AGAIN):
            held_up = [i for i, record in enumerate(records) if disturbed(record)]
            again = judge.judge([candidates[i] for i in held_up], policy)
            for i, record in zip(held_up, again, strict=True):
                records[i] = record
        return records

    def close(self) -> None:
        """Ends the judge."""
        if self._judge is not None:
            self._judge.close()
            self._judge = None
