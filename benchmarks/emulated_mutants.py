"""Plants every bug in the corpus's CUDA kernels before the emulated judge and prints what survives: no GPU is needed.

    python benchmarks/emulated_mutants.py [NAME ...]

Each survivor must stand in tests/mutants/passes.txt with its reason; the exit status says whether all do.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kernelwright.judge.policies import EMULATED_SCREEN, FAMILIES
from kernelwright.languages import emulated_target
from kernelwright.mutation import Mutant, mutants
from kernelwright.mutation.score import Outcome
from kernelwright.run.mutate import judge_mutants
from kernelwright.selftest.kernel_files import CORPUS, kernel_of
from kernelwright.selftest.small_problems import make_problem
from kernelwright.store import Store
from kernelwright.types import Policy, replace

FOLDER = CORPUS / "mutants" / "kernels"
POLICY = replace(EMULATED_SCREEN, name="planted", families=FAMILIES, draws=1, call_deadline_s=10.0)
CHECKED = replace(POLICY, name="checked", families=("given",), memory_checkers=("address",))


def explained() -> dict[str, str]:
    """Returns the reasons of passes.txt by what stands before them."""
    lines = [line.partition(" | ") for line in (CORPUS / "mutants" / "passes.txt").read_text().splitlines()]
    return {mutant: why for mutant, _, why in lines if why}


def main(names: list[str]) -> int:
    """Returns 1 where something survived that nobody has explained, or that the address checker should have seen."""
    reasons, wrong = explained(), 0
    target = replace(emulated_target(), cache_bytes=1 << 16, threads=2)
    for path in sorted(FOLDER.glob("*.cu")):
        if names and path.stem not in names:
            continue
        kernel = kernel_of(path)
        problem = make_problem(kernel.problem)
        candidate = kernel.candidate(problem)

        def judged(bugs: Sequence[Mutant], policy: Policy) -> tuple[Outcome, ...]:
            with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "store.sqlite") as store:
                return judge_mutants(problem, candidate, bugs, target, store=store, policy=policy)  # noqa: B023

        outcomes = judged(mutants(candidate.sources[0], "cuda"), POLICY)
        states = [outcome.state for outcome in outcomes]
        told = ", ".join(f"{states.count(s)} {s}" for s in ("killed", "survived", "equivalent", "invalid"))
        survivors = [outcome.mutant for outcome in outcomes if outcome.state == "survived"]
        why = {m: reasons.get(f"{m.name}: {m.after}", "?") for m in survivors}
        beyond = [mutant for mutant in survivors if "memory checkers" in why[mutant]]
        seen = sum(outcome.state == "killed" for outcome in (judged(beyond, CHECKED) if beyond else ()))
        print(f"{path.name}: {told} of {len(outcomes)}; the address checker kills {seen} of {len(beyond)}", flush=True)
        for mutant in survivors:
            print(f"    {mutant.name}: {mutant.after} | {why[mutant]}", flush=True)
        wrong += list(why.values()).count("?") + len(beyond) - seen
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
