"""Plants every bug in the corpus's CUDA kernels before the emulated judge and prints what survives: no GPU is needed.

    python benchmarks/emulated_mutants.py [NAME ...]

Each survivor must stand in tests/mutants/passes.txt with its reason; the exit status says whether all do.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from kernelwright.judge.policies import EMULATED_SCREEN, FAMILIES
from kernelwright.languages import emulated_target
from kernelwright.mutation import mutants
from kernelwright.run.mutate import judge_mutants
from kernelwright.selftest.kernel_files import CORPUS, kernel_of
from kernelwright.selftest.small_problems import make_problem
from kernelwright.store import Store
from kernelwright.types import replace

FOLDER = CORPUS / "mutants" / "kernels"
POLICY = replace(EMULATED_SCREEN, name="planted", families=FAMILIES, draws=1, call_deadline_s=10.0)


def explained() -> dict[str, str]:
    """Returns the reasons of passes.txt by what stands before them."""
    lines = [line.partition(" | ") for line in (CORPUS / "mutants" / "passes.txt").read_text().splitlines()]
    return {mutant: why for mutant, _, why in lines if why}


def main(names: list[str]) -> int:
    """Returns 1 where something survived that nobody has explained."""
    reasons, unknown = explained(), 0
    target = replace(emulated_target(), cache_bytes=1 << 16, threads=2)
    for path in sorted(FOLDER.glob("*.cu")):
        if names and path.stem not in names:
            continue
        kernel = kernel_of(path)
        problem = make_problem(kernel.problem)
        candidate = kernel.candidate(problem)
        planted = mutants(candidate.sources[0], "cuda")
        with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "store.sqlite") as store:
            outcomes = judge_mutants(problem, candidate, planted, target, store=store, policy=POLICY)
        states = [outcome.state for outcome in outcomes]
        told = ", ".join(f"{states.count(s)} {s}" for s in ("killed", "survived", "equivalent", "invalid"))
        print(f"{path.name}: {told} of {len(outcomes)}", flush=True)
        for mutant in (outcome.mutant for outcome in outcomes if outcome.state == "survived"):
            line = f"{mutant.name}: {mutant.after}"
            unknown += line not in reasons
            print(f"    {line} | {reasons.get(line, '?')}", flush=True)
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
