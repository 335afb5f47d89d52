"""Which KernelBench tasks get a GPU candidate, and what that costs: `python benchmarks/kernelbench_emission.py CLONE`.

Needs no GPU and little memory: every task is traced at its published sizes without contents (capture/outlining.py), the
experts are asked for an H200, and the default point of each CUDA template is emitted; the first is compiled with
`--build`. A task that cannot be a function of its inputs is taken as `bench kernelbench` takes it. Times are CPU
seconds of our own processes, compilers among them. Says nothing about speed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from kernelwright import capture, experts
from kernelwright.bench import tasks, variants
from kernelwright.errors import KernelwrightError, UserError
from kernelwright.graph import Capture
from kernelwright.languages.bounded import Limits
from kernelwright.languages.cuda import Cuda
from kernelwright.process import Worker
from kernelwright.types import Artifact, Candidate, Target

TARGET = Target(kind="cuda", architecture="sm_90a", features=("multiprocessors_132",), threads=16, toolchain=())
BUFFERS = "buffer_mutation"
MOST_S = 30.0
"""What the engine may need of a task."""


@dataclass
class Line:
    """What became of one task."""

    task: str
    form: str = "published"
    """Or `copy` (bench/variants.py), `evaluation`."""
    operators: int = 0
    steps: int = 0
    templates: str = ""
    why: str = ""
    """Why there is no candidate."""
    trace_s: float = 0.0
    emit_s: float = 0.0
    build_s: float = 0.0

    @property
    def total_s(self) -> float:
        """All of it."""
        return self.trace_s + self.emit_s + self.build_s


def cpu_s(worker: Worker) -> float:
    """Returns the CPU seconds that a running worker has used."""
    fields = Path(f"/proc/{worker.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def outlined(task: tasks.Task, folder: Path, worker: Worker, line: Line) -> Capture | None:
    """Returns what a task is traced to, in the first form that has a graph."""
    attempts = (
        ("published", Path(task.path), False),
        ("copy", None, False),
        ("evaluation", Path(task.path), True),
    )
    for form, path, evaluation in attempts:
        line.form = form
        try:
            source = path or variants.as_a_function(Path(task.path), folder)
            found = capture.load(str(source), evaluation=evaluation, worker=worker, form="outlined")
        except (KernelwrightError, UserError) as error:
            line.why = str(error)
            return None
        line.why = found.reason
        drawn = any("dropout" in node.op for node in found.graph.nodes) if found.graph else False
        if BUFFERS not in found.reason and not drawn:
            return found
    return None


def measured(task: tasks.Task, folder: Path, worker: Worker, *, build: bool) -> Line:
    """Returns what becomes of one task."""
    line, begun = Line(task=task.name), cpu_s(worker)
    captured = outlined(task, folder, worker, line)
    line.trace_s = cpu_s(worker) - begun
    if captured is None or captured.graph is None:
        return line
    line.operators, begun = len(captured.graph.nodes), time.process_time()
    found = experts.templates(captured.problem, captured.graph, target=TARGET)
    made = [t.emit(t.space.default()) for t in found.templates if t.name.startswith("cuda")]
    line.emit_s = time.process_time() - begun
    line.templates = ", ".join(t.name for t in found.templates)
    right = [c for c in made if isinstance(c, Candidate)]
    if not right:
        line.why = "; ".join(
            [r.text for r in found.refusals] + [c.message for c in made if not isinstance(c, Candidate)]
        )
        return line
    line.steps = len(right[0].plan.steps)
    if build:
        before_s = children_s()
        with tempfile.TemporaryDirectory() as empty:
            built = Cuda(Limits(time_s=3600.0)).compile(captured.problem, right[0], TARGET, Path(empty))
        line.build_s = children_s() - before_s
        line.why = "" if isinstance(built, Artifact) else built.message
    return line


def children_s() -> float:
    """Returns the CPU seconds of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def page(lines: list[Line], command: str) -> str:
    """Returns the table as Markdown."""
    good = [line for line in lines if not line.why]
    slow = [line for line in lines if line.total_s > MOST_S]
    total = [line.total_s for line in lines]
    parts = [
        "# KernelBench tasks with a GPU candidate", "", f"    {command}", "",
        f"{len(good)} of {len(lines)} tasks have a GPU candidate at their published sizes (nothing ran on a GPU). "
        f"CPU seconds of one task: median {statistics.median(total):.1f}, most {max(total):.1f}; {len(slow)} need more "
        f"than {MOST_S:.0f}.", "",
        "| task | taken as | operators | steps | templates | trace | emit | build | why not |",
        "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for line in lines:
        cells = (
            line.task, line.form, line.operators, line.steps, line.templates, f"{line.trace_s:.1f}",
            f"{line.emit_s:.1f}", f"{line.build_s:.1f}", line.why.replace("|", "\\|")[:160],
        )  # fmt: skip
        parts.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(parts) + "\n"


def main() -> None:
    """Prints a line for each task, and writes the page; lines that `--kept` holds are not made again."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("root", type=Path)
    parser.add_argument("--task", default="", help="only tasks with this text in their names")
    parser.add_argument("--build", action="store_true", help="compile the first candidate")
    parser.add_argument("--kept", type=Path, help="a file of lines, to go on with")
    parser.add_argument("--page", type=Path, help="where the table goes")
    given = parser.parse_args()
    known: dict[str, Line] = {}
    if given.kept and given.kept.is_file():
        known = {line["task"]: Line(**line) for line in map(json.loads, given.kept.read_text().splitlines())}
    todo, lines = tasks.kernelbench(given.root, levels=(1, 2, 3), only=given.task), []
    worker = Worker(capture.MODULE)
    with tempfile.TemporaryDirectory() as folder:
        for task in todo:
            line = known.get(task.name)
            if line is None:
                if not worker.alive:
                    worker = Worker(capture.MODULE)
                line = measured(task, Path(folder), worker, build=given.build)
                if given.kept:
                    with given.kept.open("a") as file:
                        file.write(json.dumps(asdict(line)) + "\n")
            lines.append(line)
            print(f"{'no ' if line.why else 'yes'} {line.task} ({line.form}): {line.operators} operators, {line.steps} "
                  f"steps, {line.templates}; {line.trace_s:.1f} + {line.emit_s:.1f} + {line.build_s:.1f} s {line.why}",
                  flush=True)  # fmt: skip
    worker.close()
    command = f"python benchmarks/kernelbench_emission.py KernelBench{' --build' if given.build else ''}"
    if given.page:
        given.page.write_text(page(lines, command))
    print(f"{sum(1 for line in lines if not line.why)} of {len(lines)} tasks have a GPU candidate")


if __name__ == "__main__":
    main()
