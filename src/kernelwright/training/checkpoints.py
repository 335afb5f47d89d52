"""Where a stage is kept between its calls: model, optimiser, step and archive, all of one moment.

    checkpoint-000040/   model/, optimiser.pt, state.json; the newest complete one counts
    steps.jsonl          one line for each step
    archive.jsonl        verified kernels that the author found, in order
    model/               the model of the newest checkpoint, for `--model` and `local:`

Lines after the newest checkpoint belong to steps that will be made again; they are cut off when a stage goes on.
Not here: what a step is (stages.py).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernelwright import codec
from kernelwright.errors import UserError
from kernelwright.search.authored.briefs import Exemplar
from kernelwright.training.authors import CHECKPOINT_MODEL, Author
from kernelwright.types import Candidate

STATE, STEPS, ARCHIVE = "state.json", "steps.jsonl", "archive.jsonl"


class Checkpoints:
    """A stage's folder.

    Args:
        folder: made when missing.
        about: what a stage that goes on must have in common with what began.
        resume: go on from what lies there; otherwise the folder must be empty of checkpoints.

    Raises:
        UserError: the folder holds another stage, or one while `resume` is False, or none while it is True.
    """

    def __init__(self, folder: Path, about: dict[str, Any], *, resume: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._about = folder, json.loads(json.dumps(about))
        self.latest = max(folder.glob("checkpoint-*"), default=None)
        self.step = self._archived = 0
        if self.latest is None:
            if resume and not (folder / STEPS).exists():
                raise UserError(f"{folder} holds no stage to go on with", "leave --resume out")
        elif not resume:
            raise UserError(f"{folder} holds a stage already", "add --resume, or name another --out")
        else:
            state = json.loads((self.latest / STATE).read_text())
            if changed := [k for k, v in self._about.items() if state["about"].get(k) != v]:
                raise UserError(f"{folder} was begun with another {', '.join(changed)}", "name another --out")
            self.step, self._archived = state["step"], state["archive"]
        _cut(folder / STEPS, self.step)
        _cut(folder / ARCHIVE, self._archived)

    @property
    def model(self) -> str:
        """The folder of the newest checkpoint's model; empty where there is none."""
        return str(self.latest / CHECKPOINT_MODEL) if self.latest else ""

    def note(self, line: dict[str, Any]) -> None:
        """Counts a step and keeps its line."""
        self.step += 1
        with (self.folder / STEPS).open("a") as file:
            file.write(json.dumps(line) + "\n")

    def archive(self, key: str, exemplar: Exemplar) -> None:
        """Keeps a kernel that the author found."""
        self._archived += 1
        line = {"problem": key, "speed": exemplar.speed, "candidate": codec.to_data(exemplar.candidate)}
        with (self.folder / ARCHIVE).open("a") as file:
            file.write(json.dumps(line) + "\n")

    def archived(self) -> Iterator[tuple[str, Exemplar]]:
        """Yields what the author had found by the newest checkpoint, with each problem's digest."""
        path = self.folder / ARCHIVE
        for line in path.read_text().splitlines() if path.exists() else ():
            data = json.loads(line)
            candidate = codec.from_data(data["candidate"])
            assert isinstance(candidate, Candidate)
            yield data["problem"], Exemplar(candidate=candidate, speed=data["speed"])

    def save(self, author: Author) -> None:
        """Writes a checkpoint of this step; the one before goes once it is complete."""
        made = self.folder / f"checkpoint-{self.step:06d}"
        if self.latest == made:
            return
        fresh = self.folder / ".unfinished"
        shutil.rmtree(fresh, ignore_errors=True)
        author.save(fresh)
        state = {"about": self._about, "step": self.step, "archive": self._archived}
        (fresh / STATE).write_text(json.dumps(state, indent=1))
        fresh.rename(made)
        link = self.folder / ".model"
        link.unlink(missing_ok=True)
        link.symlink_to(f"{made.name}/{CHECKPOINT_MODEL}")
        link.replace(self.folder / CHECKPOINT_MODEL)
        if self.latest is not None:
            shutil.rmtree(self.latest, ignore_errors=True)
        self.latest = made

    def lines(self) -> list[dict[str, Any]]:
        """Returns the lines of all steps."""
        path = self.folder / STEPS
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _cut(path: Path, count: int) -> None:
    if not path.exists():
        return
    lines = path.read_text().splitlines()[:count]
    fresh = path.with_suffix(".new")
    fresh.write_text("".join(f"{line}\n" for line in lines))
    fresh.replace(path)
