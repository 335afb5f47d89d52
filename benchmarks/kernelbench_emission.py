"""How many KernelBench tasks get a GPU candidate that compiles: `python benchmarks/kernelbench_emission.py CLONE`.

Needs no GPU. Every fifth, seventh and fourth task of levels 1, 2 and 3, shrunk as `bench kernelbench --cap` shrinks
them; the default point of the first CUDA template, built for sm_90a with an hour for each. Says nothing about speed.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from kernelwright import experts
from kernelwright.bench import running, tasks
from kernelwright.errors import KernelwrightError, UserError
from kernelwright.languages.bounded import Limits
from kernelwright.languages.cuda import Cuda
from kernelwright.types import Artifact, Candidate, Target

STEPS = {1: 5, 2: 7, 3: 4}
TARGET = Target(kind="cuda", architecture="sm_90a", features=(), threads=2, toolchain=())


def outcome(task: tasks.Task, folder: Path, cap: int) -> tuple[bool, str]:
    """Returns whether a task has a candidate that compiles, and one line about it."""
    try:
        _, captured, _, _ = running.usable(task, folder, running.Settings(cap=cap, admit=False))
    except (KernelwrightError, UserError) as error:
        return False, f"not captured: {error}"
    if captured.graph is None:
        return False, f"no graph: {captured.reason}"
    begun = time.process_time()
    found = experts.templates(captured.problem, captured.graph, target=TARGET)
    emit_s = time.process_time() - begun
    first = next((t for t in found.templates if t.name.startswith("cuda")), None)
    made = first.emit(first.space.default()) if first else None
    if not isinstance(made, Candidate):
        return False, f"{len(captured.graph.nodes)} operators: {'; '.join(r.text for r in found.refusals)}"
    before_s = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with tempfile.TemporaryDirectory() as empty:
        built = Cuda(Limits(time_s=3600.0)).compile(captured.problem, made, TARGET, Path(empty))
    compile_s = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before_s
    kernels = len({step.symbol for step in made.plan.steps})
    about = f"{len(captured.graph.nodes)} operators, {len(made.plan.steps)} steps, {kernels} kernels, "
    about += f"{', '.join(t.name for t in found.templates)}; emission {emit_s:.1f} s, compiler {compile_s:.1f} s"
    return isinstance(built, Artifact), about if isinstance(built, Artifact) else f"{about}: {built.message}"


def main() -> None:
    """Prints a line for each task, and the count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("root", type=Path)
    parser.add_argument("--cap", type=int, default=32)
    given = parser.parse_args()
    chosen = [t for level, step in STEPS.items() for t in tasks.kernelbench(given.root, levels=(level,))[1::step]]
    good = 0
    with tempfile.TemporaryDirectory() as folder:
        for task in chosen:
            done, about = outcome(task, Path(folder) / task.name, given.cap)
            good += done
            print(f"{'yes' if done else 'no '} {task.name}: {about}", flush=True)
    print(f"{good} of {len(chosen)} tasks have a GPU candidate that compiles")


if __name__ == "__main__":
    main()
