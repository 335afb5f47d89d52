"""The files of a result: a kernel that can be judged again as it lies there, its plan, its evidence.

Not here: reports for people (report).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from kernelwright import codec
from kernelwright.errors import KernelwrightError, UserError
from kernelwright.languages.kernel_file import PLAN_MARK
from kernelwright.languages.plan import ELEMENT_BYTES
from kernelwright.run.result import Result, Row
from kernelwright.run.session import described
from kernelwright.types import Binding, Candidate, LaunchPlan, Workspace, digest

FOLDER = "best"
"""Of a kernel that is faster than every baseline."""
RUNNER_UP = "runner-up"
"""Of the fastest kernel that passed, where it was not shown to be faster than every baseline."""
EVIDENCE = "evidence.json"
WITNESSED = "witnessed, not sealed: this file's own Python ran in the measured process; look at it before you deploy it"


def write_best(result: Result, out_dir: str | Path) -> Path | None:
    """Writes the best kernel into `out_dir`/best, or runner-up, and returns that folder, None where nothing passed.

    Only a kernel that is the answer lies in `best`, so that one that ties, loses, or lacks its final judgement is not
    picked up by mistake; it lies in `runner-up`. Whichever an earlier result left there is removed. A folder holds
    the candidate's sources, of which the first carries the launch plan as a comment that `kernelwright judge` reads,
    `plan.json`, and `evidence.json`: the record, and the problem, candidate, target and policy that it belongs to,
    which `kernelwright verify` judges again.

    Raises:
        UserError: when the folder cannot be written, or holds something that is not ours.
    """
    folder = Path(out_dir) / (FOLDER if result.answer == "kernel" else RUNNER_UP)
    row = next((row for row in result.rows if row.candidate == result.best), None)
    try:
        for name in (FOLDER, RUNNER_UP):
            _clear(folder.with_name(name))
        if row is None:
            return None
        _write(folder, _texts(result, row))
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}", "name another folder with --out") from error
    return folder


def _clear(folder: Path) -> None:
    if not folder.exists():
        return
    if any(folder.iterdir()) and not (folder / EVIDENCE).is_file():
        raise UserError(f"{folder} holds files that kernelwright did not write", "name another folder with --out")
    shutil.rmtree(folder)


def _write(folder: Path, texts: dict[str, str]) -> None:
    # Under another name until it is complete, so that a crash leaves nothing that looks like a result.
    unfinished = folder.with_name(f".{folder.name}-unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    for path, text in texts.items():
        (unfinished / path).parent.mkdir(parents=True, exist_ok=True)
        (unfinished / path).write_text(text, encoding="utf-8")
    unfinished.rename(folder)


def _texts(result: Result, row: Row) -> dict[str, str]:
    """Returns each file's text by its path."""
    candidate = row.candidate
    first, *others = candidate.sources
    texts = {first.path: _header(result, row) + first.text}
    texts |= {source.path: source.text for source in others}
    texts["plan.json"] = _pretty({"plan": codec.to_data(candidate.plan), "options": codec.to_data(candidate.options)})
    evidence = {
        "answer": result.answer,
        "why": result.why,
        "candidate": digest(candidate),
        "kernel": codec.to_data(candidate),
        "seed": result.seed,
        "record": codec.to_data(result.report or row.latest),
        "records": {name: codec.to_data(record) for name, record in row.records},
        "target": codec.to_data(result.target),
        "policy": codec.to_data(result.policy),
        "problem": codec.to_data(result.problem),
    }
    if outside := [path for path in texts if Path(path).is_absolute() or ".." in Path(path).parts]:
        raise KernelwrightError(f"a candidate's source has the path {outside[0]!r}, which leads out of its folder")
    return texts | {EVIDENCE: _pretty(evidence)}


def _pretty(data: object) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _header(result: Result, row: Row) -> str:
    """Returns the comment in front of the kernel: what it is, how fast, and the plan, once."""
    candidate = row.candidate
    said = described(result.report or row.latest)
    lines = [
        f"{result.problem.name}: {said} on {result.target.architecture}, {result.target.threads} threads",
        f"candidate {digest(candidate)}",
    ]
    if candidate.point:
        lines.append(f"{candidate.template}: {', '.join(f'{name}={chosen}' for name, chosen in candidate.point)}")
    if candidate.witnessed:
        lines.append(WITNESSED)
        return "".join(f"# {line}\n" for line in lines) + "\n"
    if PLAN_MARK not in candidate.sources[0].text:
        lines += f"{PLAN_MARK} {json.dumps(plan_data(candidate), indent=1)}".splitlines()
    return "".join(f"// {line}\n" for line in lines) + "\n"


def plan_data(candidate: Candidate) -> dict[str, Any]:
    """Returns a candidate's plan and options in the form of a kernel file's plan comment."""
    plan = candidate.plan
    data: dict[str, Any] = {
        "steps": [{"call": step.symbol, "arguments": [_argument(a) for a in step.arguments]} for step in plan.steps]
    }
    if plan.workspaces:
        data["workspaces"] = {space.name: _workspace(space, plan) for space in plan.workspaces}
    if candidate.options:
        data["options"] = dict(candidate.options)
    return data


def _argument(binding: Binding) -> str | dict[str, Any]:
    if binding.kind == "scalar":
        return {"name": binding.name, "type": binding.ctype, "value": binding.scalar}
    if binding.kind == "axis" and binding.ctype != "int64_t":
        return {"name": binding.name, "type": binding.ctype}
    return binding.name


def _workspace(space: Workspace, plan: LaunchPlan) -> dict[str, Any]:
    used = (a.ctype for step in plan.steps for a in step.arguments if a.kind == "workspace" and a.name == space.name)
    ctype = next(used, "uint8_t").removeprefix("const ")
    if isinstance(space.size_bytes, str):
        return {"type": ctype, "count": f"ceil_div({space.size_bytes}, {ELEMENT_BYTES[ctype]})"}
    return {"type": ctype, "count": space.size_bytes // ELEMENT_BYTES[ctype]}
