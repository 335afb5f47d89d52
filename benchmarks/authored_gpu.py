"""The bundled recordings of CUDA and Triton kernels, judged on this machine's GPU; writes docs/results/authored_gpu.md.

    python benchmarks/authored_gpu.py                                 # five problems, both languages, sizes of a GPU
    python benchmarks/authored_gpu.py --problems softmax --languages cuda --built-in
    python benchmarks/authored_gpu.py --evolve --budget 60            # `optimize` with the recordings as the model, too

Each kernel stands in the table with what the judge said, the dishonest ones too. There are many
more rows than in the built-ins, so that a GPU is filled: the numbers that say so are replaced, in kernels as in
references; --built-in leaves both as they are. By hand: `kernelwright optimize softmax --device cuda --model
replay/examples/recordings/gpu/softmax_cuda.jsonl`, then `kernelwright replay kernelwright-out/softmax`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
for place in (ROOT, ROOT / "src", ROOT / ".carry"):
    sys.path.insert(0, str(place))

from kernelwright import capture, languages, llm, problems, run  # noqa: E402
from kernelwright.errors import UserError  # noqa: E402
from kernelwright.graph import Capture  # noqa: E402
from kernelwright.judge import Judge, policies_for  # noqa: E402
from kernelwright.run.models import Authors  # noqa: E402
from kernelwright.run.models.kernels import candidate_of  # noqa: E402
from kernelwright.run.models.writing import Writing  # noqa: E402
from kernelwright.run.result import outcome_name  # noqa: E402
from kernelwright.run.session import described  # noqa: E402
from kernelwright.store import Store  # noqa: E402
from kernelwright.types import Judgement, Problem, Record, Target  # noqa: E402

RECORDINGS = ROOT / "examples" / "recordings" / "gpu"
TABLE = ROOT / "docs" / "results" / "authored_gpu.md"
FOLDER = ROOT / "kernelwright-out" / "authored-gpu"
HEAD = "| problem | language | kernel | what it tries | verdict | against eager's graph |\n|---|---|---|---|---|---|\n"


@dataclass(frozen=True)
class Scaling:
    """What says how many rows a problem has: in its reference, in kernels, and numbers that follow from it."""

    rows: int
    """Of the built-in."""
    said: str
    """In the reference."""
    instead: str
    """With a place for another number."""
    grids: tuple[int, ...]
    """Grids that grow with the rows."""


SCALINGS = {
    "softmax": Scaling(8192, "batch, heads, length, length", "{}, length", (8192, 1024)),
    "rms_norm": Scaling(512, "tokens = 512", "tokens = {}", (512,)),
    "swiglu": Scaling(256, "tokens = 256", "tokens = {}", (2752,)),
    "layer_norm": Scaling(4096, "batch, length, hidden_size", "{}, hidden_size", (4096, 512)),
    "cross_entropy": Scaling(64, "tokens = 64", "tokens = {}", (64,)),
}
ROWS = {"softmax": 65536, "rms_norm": 8192, "swiglu": 2048, "layer_norm": 32768, "cross_entropy": 512}
"""Where a GPU is to be filled."""


def scaled(name: str, rows: int) -> str:
    """Returns a problem's reference with another number of rows."""
    text, scaling = problems.source_text(name), SCALINGS[name]
    if text.count(scaling.said) != 1:
        raise ValueError(f"{name} says {scaling.said!r} {text.count(scaling.said)} times")
    return text.replace(scaling.said, scaling.instead.format(rows))


def fitted(name: str, code: str, rows: int) -> str:
    """Returns a recorded kernel for another number of rows."""
    scaling = SCALINGS[name]
    for grid in scaling.grids:
        code = re.sub(rf"\bgrid={grid}\b", f"grid={grid * rows // scaling.rows}", code)
    code = re.sub(rf"(\bTOKENS ?= ?){scaling.rows}\b", rf"\g<1>{rows}", code)
    return re.sub(rf"(kernelwright-workspace: \w+ \w+ ){scaling.rows}\b", rf"\g<1>{rows}", code)


def recorded(name: str, language: str) -> Iterator[tuple[str, str, str]]:
    """Yields (file's stem, intent, text) of the kernels in a recording."""
    for line in (RECORDINGS / f"{name}_{language}.jsonl").read_text().splitlines():
        if line.startswith("{") and "file" in (data := json.loads(line)):
            path = RECORDINGS / data["file"]
            yield path.stem, data["intent"], path.read_text()


def fitted_recording(name: str, language: str, rows: int, folder: Path) -> Path:
    """Writes a recording whose kernels fit another number of rows, and returns its path."""
    for stem, _, text in recorded(name, language):
        path = folder / name / f"{stem}{'.cu' if language == 'cuda' else '.py'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(fitted(name, text, rows))
    path = folder / f"{name}_{language}.jsonl"
    path.write_text((RECORDINGS / path.name).read_text())
    return path


def judged(problem: Problem, name: str, language: str, rows: int, judge: Judge, target: Target) -> Iterator[str]:
    """Yields a line of the table for each recorded kernel."""
    for stem, intent, text in recorded(name, language):
        try:
            made = candidate_of(problem, fitted(name, text, rows), language=language, author="recording")
        except UserError as error:
            yield f"| {name} | {language} | {stem} | {intent} | refused: {error.message} | |\n"
            continue
        record = next(iter(judge.judge((made,), policies_for(target)["measure"])))
        print(f"{name} {language} {stem}: {described(record)}", flush=True)
        yield f"| {name} | {language} | {stem} | {intent} | {outcome_name(record)} | {_speed(record)} |\n"


def _speed(record: Record) -> str:
    if not isinstance(record.outcome, Judgement) or not record.passed:
        return ""
    found = record.outcome.against("graph:eager")
    return f"{found.speedup:.2f} [{found.low:.2f}, {found.high:.2f}]" if found else ""


def evolved(captured: Capture, name: str, language: str, rows: int, target: Target, budget_s: float) -> str:
    """Returns a line about an `optimize` whose model is the recording."""
    model = llm.model_of(f"replay/{fitted_recording(name, language, rows, FOLDER)}")
    who = Authors(models=(model,), parallel=1, seed_limit=4, writing=Writing(language=language))
    with Store(FOLDER / f"{name}-{language}.sqlite") as store:
        result = run.optimize(captured, target, store=store, budget_s=budget_s, seed=1, authors=who)
    by = result.best.author if result.best else "nobody"
    return f"- {name}, {language}: {result.why} (the best is by {by}; {result.judged} judged)\n"


def main() -> None:
    """Judges, and writes the page after each problem."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--problems", nargs="*", default=list(SCALINGS), choices=list(SCALINGS))
    parser.add_argument("--languages", nargs="*", default=["cuda", "triton"], choices=["cuda", "triton"])
    parser.add_argument("--built-in", action="store_true", help="the built-ins' own sizes")
    parser.add_argument("--evolve", action="store_true")
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--results", type=Path, default=TABLE)
    given = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    target = languages.detect_device_target()
    table, lines, judge = "", "", None
    head = f"Made by `python benchmarks/authored_gpu.py {' '.join(sys.argv[1:])}` on {datetime.now(UTC):%Y-%m-%d}.\n\n"
    for name in given.problems:
        size = SCALINGS[name].rows if given.built_in else ROWS[name]
        source = FOLDER / f"{name}.py"
        source.write_text(problems.source_text(name) if given.built_in else scaled(name, size))
        captured = capture.load(str(source))
        judge = judge or Judge(captured.problem, target)
        judge.turn_to(captured.problem)
        for language in given.languages:
            for row in judged(captured.problem, name, language, size, judge, target):
                table += row
            if given.evolve:
                judge.close()
                judge = None
                lines += evolved(captured, name, language, size, target, given.budget)
                judge = Judge(captured.problem, target)
        text = f"# Recorded CUDA and Triton kernels\n\n{head}{target.device}, {target.architecture}.\n\n{HEAD}{table}"
        given.results.write_text(f"{text}\n## As the model of `optimize`\n\n{lines}" if lines else text)
    if judge is not None:
        judge.close()


if __name__ == "__main__":
    main()
