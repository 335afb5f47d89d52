"""The bundled recordings of CUDA and Triton kernels, judged on this machine's GPU: docs/results/authored-gpu.md.

    python benchmarks/authored_gpu.py --seconds 115        # five problems, both languages, three evolutions; then again
    python benchmarks/authored_gpu.py --problems softmax --languages cuda --evolve --built-in

Each kernel stands in the page with what the judge said and with what it is, the dishonest ones too. After that
`optimize` runs with the recordings as its model (--evolve). There are many more rows than in the built-ins, so
that a GPU is filled: the numbers that say so are replaced, in kernels as in references; --built-in leaves both as they
are. What is done is kept beside the page: a call that was cut off goes on, and says 3 until all is done. By hand:
`kernelwright optimize softmax --device cuda --model replay/examples/recordings/gpu/softmax_cuda.jsonl`, then
`kernelwright replay kernelwright-out/softmax`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
for place in (ROOT, ROOT / "src", ROOT / ".carry"):
    sys.path.insert(0, str(place))

from kernelwright import capture, languages, llm, problems, run  # noqa: E402
from kernelwright.errors import UserError  # noqa: E402
from kernelwright.exchanges import Opinion  # noqa: E402
from kernelwright.graph import Capture  # noqa: E402
from kernelwright.judge import Judge, policies_for  # noqa: E402
from kernelwright.run.models import Authors, screening  # noqa: E402
from kernelwright.run.models.kernels import candidate_of  # noqa: E402
from kernelwright.run.models.writing import Writing  # noqa: E402
from kernelwright.run.result import outcome_name  # noqa: E402
from kernelwright.run.session import described  # noqa: E402
from kernelwright.search.authored.evolution import Rules  # noqa: E402
from kernelwright.store import Store  # noqa: E402
from kernelwright.types import Candidate, Judgement, Problem, Record, Target, replace  # noqa: E402

RECORDINGS = ROOT / "examples" / "recordings" / "gpu"
PAGE = ROOT / "docs" / "results" / "authored-gpu.md"
FOLDER = ROOT / "kernelwright-out" / "authored-gpu"
EVOLVED = ("softmax", "rms_norm", "layer_norm")
UNFINISHED = 3
"""Exit status: time was up, the same command goes on."""
EVIDENCE_CHARACTERS = 90


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


def recorded(name: str, language: str) -> Iterator[tuple[Path, str, str]]:
    """Yields (file, intent, what it is: good, wrong or dishonest) of the kernels in a recording."""
    for line in (RECORDINGS / f"{name}_{language}.jsonl").read_text().splitlines():
        if line.startswith("{") and "file" in (data := json.loads(line)):
            yield RECORDINGS / data["file"], data["intent"], data["is"]


def fitted_recording(name: str, language: str, rows: int, folder: Path) -> Path:
    """Writes a recording whose kernels fit another number of rows, and returns its path."""
    for file, _, _ in recorded(name, language):
        path = folder / name / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(fitted(name, file.read_text(), rows))
    path = folder / f"{name}_{language}.jsonl"
    path.write_text((RECORDINGS / path.name).read_text())
    return path


@dataclass(frozen=True)
class Row:
    """What became of one recorded kernel."""

    problem: str
    language: str
    kernel: str
    intent: str
    kind: str
    """good, wrong or dishonest: what whoever wrote the recording says of it."""
    verdict: str
    """`passed`, or the stage or check that it failed at."""
    evidence: str = ""
    us: float = 0.0
    speedup: float = 0.0
    """Against eager's CUDA graph, with an interval."""
    low: float = 0.0
    high: float = 0.0
    floor: float = 0.0
    """The share of what this GPU allows at best."""
    rejected: str = ""
    """The soft verifier that would have rejected it before it was judged."""
    suspected: str = ""
    """The soft verifiers that found it suspicious."""


def judged(problem: Problem, name: str, languages_: list[str], rows: int, judge: Judge, target: Target) -> list[Row]:
    """Returns what became of each recorded kernel for a problem; all are built together."""
    made: list[tuple[Row, Candidate]] = []
    found: list[Row] = []
    for language in languages_:
        for file, intent, kind in recorded(name, language):
            row = Row(problem=name, language=language, kernel=file.stem, intent=intent, kind=kind, verdict="refused")
            try:
                text = fitted(name, file.read_text(), rows)
                candidate = candidate_of(problem, text, language=language, author="recording")
            except UserError as error:
                found.append(dataclasses.replace(row, evidence=error.message))
                continue
            said = (screening.static_opinion(problem, candidate, target), *screening.doubts(candidate))
            made.append((with_opinions(row, tuple(one for one in said if one)), candidate))
    records = judge.judge(tuple(candidate for _, candidate in made), policies_for(target)["measure"])
    for (row, _), record in zip(made, records, strict=True):
        print(f"{name} {row.language} {row.kernel}: {described(record)}", flush=True)
        found.append(with_record(row, record))
    return found


def with_opinions(row: Row, opinions: tuple[Opinion, ...]) -> Row:
    rejected = ", ".join(one.verifier for one in opinions if one.rejects)
    suspected = ", ".join(one.verifier for one in opinions if not one.rejects)
    return dataclasses.replace(row, rejected=rejected, suspected=suspected)


def with_record(row: Row, record: Record) -> Row:
    outcome = record.outcome
    row = dataclasses.replace(row, verdict=outcome_name(record))
    if not isinstance(outcome, Judgement):
        return dataclasses.replace(row, evidence=outcome.message)
    if not record.passed:
        return dataclasses.replace(row, evidence=next(c.evidence for c in outcome.verdict.checks if not c.passed))
    against = outcome.against("graph:eager")
    us = next((m.median_us for m in outcome.measurements if m.contender == "candidate"), 0.0)
    floor = outcome.floor_us / us if outcome.floor_us and us else 0.0
    if against is None:
        return dataclasses.replace(row, us=us, floor=floor)
    return dataclasses.replace(
        row, us=us, floor=floor, speedup=against.speedup, low=against.low, high=against.high
    )  # fmt: skip


def evolved(captured: Capture, name: str, rows: int, target: Target, budget_s: float) -> str:
    """Returns a line about an `optimize` whose model is the CUDA recording."""
    model = llm.model_of(f"replay/{fitted_recording(name, 'cuda', rows, FOLDER)}")
    rules = Rules(islands=1, tuning=False, patience=6)
    who = Authors(models=(model,), parallel=1, seed_limit=1, writing=Writing(language="cuda"), rules=rules)
    parts = run.parts_for(target)
    # The baselines that need no compilation: there are two minutes for everything.
    report = replace(parts.report, baselines=("graph:eager", "eager"), modes=("cold",), memory_checkers=())
    path = FOLDER / f"{name}.sqlite"
    with Store(path) as store:
        result = run.optimize(
            captured, target, store=store, budget_s=budget_s, seed=1, authors=who, parts=replace(parts, report=report)
        )
    by = result.best.author if result.best else "nobody"
    by = "the recording" if by.startswith("replay/") else f"`{by}`"
    ended = ", ".join(f"{number} {outcome}" for outcome, number in run.result.counted(result.rows))
    notes = "".join(f" {note}." for note in result.notes if "verified kernel" in note or "precision" in note)
    return f"- {name}: {result.why}; the best kernel is by {by}. Kernels: {ended}.{notes}\n"


# ------------------------------------------------------------------------------------------------------------ the page


def fastest(rows: list[Row]) -> str:
    """Returns a table of the fastest kernel that passed for each problem."""
    text = "| problem | fastest kernel | language | µs | against eager's graph | of the floor | passed | rejected |\n"
    text += f"{'|---' * 8}|\n"
    for name in dict.fromkeys(row.problem for row in rows):
        own = [row for row in rows if row.problem == name]
        passed = [row for row in own if row.verdict == "passed"]
        best = max(passed, key=lambda row: row.speedup, default=None)
        cells = (
            (best.kernel, best.language, f"{best.us:.1f}", _speed(best), f"{100 * best.floor:.0f} %") if best else ()
        )
        told = " | ".join(cells or ("none", "", "", "", ""))
        text += f"| {name} | {told} | {len(passed)} | {len(own) - len(passed)} |\n"
    return text


def caught(rows: list[Row]) -> str:
    """Returns what was caught, by what it is, and what soft verifiers had said of it before."""
    lines = []
    for kind in ("good", "wrong", "dishonest"):
        own = [row for row in rows if row.kind == kind]
        through = [f"{row.problem} {row.kernel}" for row in own if row.verdict == "passed"]
        lines.append(f"- {kind}: {len(through)} of {len(own)} passed")
        if kind != "good" and through:
            lines[-1] += f": **{', '.join(through)}**"
    objected = [row for row in rows if row.rejected or row.suspected]
    right = [row for row in objected if row.verdict != "passed"]
    failed = [row for row in rows if row.verdict != "passed"]
    precision = f"precision {100 * len(right) / len(objected):.0f} %" if objected else "no precision to tell"
    rejected, suspected = sum(bool(row.rejected) for row in rows), sum(bool(row.suspected) for row in rows)
    lines.append(
        f"- soft verifiers, before anything ran: rejected {rejected}, suspected {suspected}; the judge failed "
        f"{len(right)} of these {len(objected)} ({precision}), and {len(failed)} in all "
        f"(recall {100 * len(right) / max(1, len(failed)):.0f} %)"
    )
    return "\n".join(lines) + "\n"


def _speed(row: Row) -> str:
    return f"{row.speedup:.2f} [{row.low:.2f}, {row.high:.2f}]" if row.speedup else ""


def page(rows: list[Row], evolutions: list[str], head: str) -> str:
    """Returns the page."""
    text = f"# Recorded CUDA and Triton kernels\n\n{head}\n{fastest(rows)}\n{caught(rows)}"
    if evolutions:
        text += "\n## As the model of `optimize`\n\nOne seed of the experts, then the CUDA recordings' replies.\n\n"
        text += "".join(evolutions)
    text += (
        "\n## Every kernel\n\n| problem | language | kernel | is | what it tries | verdict | against eager's graph |\n"
    )
    text += f"{'|---' * 7}|\n"
    for row in rows:
        evidence = " ".join(row.evidence.replace("|", "/").split())[:EVIDENCE_CHARACTERS]
        verdict = f"{row.verdict} ({evidence})" if evidence else row.verdict
        cells = (row.problem, row.language, row.kernel, row.kind, row.intent, verdict, _speed(row))
        text += f"| {' | '.join(cells)} |\n"
    return text


def loaded(name: str, built_in: bool) -> tuple[Capture, int]:
    """Returns a problem and its number of rows."""
    rows = SCALINGS[name].rows if built_in else ROWS[name]
    source = FOLDER / f"{name}.py"
    source.write_text(problems.source_text(name) if built_in else scaled(name, rows))
    return capture.load(str(source)), rows


def main() -> int:
    """Does what is missing, and writes the page after each step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="*", default=list(SCALINGS), choices=list(SCALINGS))
    parser.add_argument("--languages", nargs="*", default=["cuda", "triton"], choices=["cuda", "triton"])
    parser.add_argument("--built-in", action="store_true", help="the built-ins' own sizes")
    parser.add_argument("--evolve", nargs="*", default=list(EVOLVED), choices=list(SCALINGS))
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of searching in each evolution")
    parser.add_argument("--seconds", type=float, default=1e9, help="then nothing new begins")
    parser.add_argument("--results", type=Path, default=PAGE)
    given = parser.parse_args()
    end = time.monotonic() + given.seconds
    FOLDER.mkdir(parents=True, exist_ok=True)
    target = languages.detect_device_target()
    done = given.results.with_name(f"{given.results.stem}{'-built-in' if given.built_in else ''}.json")
    known = json.loads(done.read_text()) if done.exists() else {"rows": {}, "evolutions": {}}
    command = f"python benchmarks/authored_gpu.py{' --built-in' if given.built_in else ''} --seconds {given.seconds:g}"
    tools = ", ".join(f"{tool} {version}" for tool, version in target.toolchain)
    head = f"Made by `{command}` on {datetime.now(UTC):%Y-%m-%d}.\n\n{target.device}, {target.architecture}; {tools}.\n"

    def keep() -> None:
        done.write_text(json.dumps(known))
        rows = [Row(**row) for name in given.problems for row in known["rows"].get(name, ())]
        lines = [known["evolutions"][name] for name in given.evolve if name in known["evolutions"]]
        given.results.write_text(page(rows, lines, head))

    judge: Judge | None = None
    for name in (n for n in given.problems if n not in known["rows"] and time.monotonic() < end):
        captured, rows = loaded(name, given.built_in)
        judge = judge or Judge(captured.problem, target)
        judge.turn_to(captured.problem)
        found = judged(captured.problem, name, given.languages, rows, judge, target)
        known["rows"][name] = [dataclasses.asdict(row) for row in found]
        keep()
    if judge is not None:
        judge.close()
    for name in (n for n in given.evolve if n not in known["evolutions"] and time.monotonic() < end):
        captured, rows = loaded(name, given.built_in)
        known["evolutions"][name] = evolved(captured, name, rows, target, given.budget)
        print(known["evolutions"][name], end="", flush=True)
        keep()
    keep()
    left = [n for n in given.problems if n not in known["rows"]] + [
        n for n in given.evolve if n not in known["evolutions"]
    ]
    return UNFINISHED if left else 0


if __name__ == "__main__":
    sys.exit(main())
