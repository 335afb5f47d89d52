"""A corpus on the disk: one verified kernel, or one bug with its repair, in each line of JSON.

    train.jsonl  held-out.jsonl    rows, split by family
    spaces.jsonl                   the schedules that each problem's templates can emit
    corpus.json                    what it was made of and what was left out
    *.parquet                      the same rows, where pyarrow is installed and they were asked for

Not here: where rows come from (corpus.py).
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from kernelwright import codec
from kernelwright.errors import MissingTool, UserError
from kernelwright.search.authored.novelty import normalised
from kernelwright.training.features import likeness
from kernelwright.types import OptionValue, Point, Space, value

Split = Literal["train", "held-out"]
SPLITS: tuple[Split, ...] = ("train", "held-out")
HELD_OUT_SHARE = 0.2


@value
class Row:
    """One line of a corpus. Every field is plain data, so that other tools can read it."""

    kind: Literal["kernel", "repair"]
    family: str
    problem: str
    """Its name."""
    problem_digest: str
    features: tuple[str, ...]
    reference: str
    """The reference's source."""
    language: str
    template: str = ""
    """Of the expert that emitted it; empty for what a model or person wrote."""
    point: Point = ()
    source: str
    """The kernel file, which `kernelwright judge` reads."""
    before: str = ""
    """Of a repair: the faulty source."""
    fault: str = ""
    """Of a repair: what was found."""
    speedup: float | None = None
    """Against eager; None where nothing was timed."""
    low: float | None = None
    """The lower end of its interval."""
    noise: float | None = None
    """The timer's, as a share."""
    author: str = ""
    origin: str = ""
    """How it came here: expert, store, or the augmentation that made it."""
    candidate: str = ""
    policy: str = ""
    target: str = ""
    when: str = ""
    """Digests of the record's values, and its moment: where the number comes from."""

    @property
    def fingerprint(self) -> str:
        """Equal for sources that are the same but for names, comments and spacing."""
        text = normalised(self.source) + "\n" + normalised(self.before)
        return hashlib.sha256(f"{self.kind}\n{self.language}\n{text}".encode()).hexdigest()


@value
class Schedules:
    """What one template can emit for one problem."""

    problem_digest: str
    template: str
    space: Space


def split_of(family: str, families: Iterable[str], share: float = HELD_OUT_SHARE) -> Split:
    """Returns where a family belongs: a draw by name, so that adding a family moves few others."""
    order = sorted(set(families), key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    return "held-out" if family in order[: round(share * len(order))] else "train"


def deduplicated(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Returns rows whose normalised sources differ, the fastest of equals; rows of schedules keep their points."""
    best: dict[tuple[str, str, OptionValue], Row] = {}
    for row in rows:
        key = (row.problem_digest, row.fingerprint, row.origin if row.origin.startswith("augmented") else "")
        known = best.get(key)
        if known is None or (row.speedup or 0.0) > (known.speedup or 0.0):
            best[key] = row
    return tuple(best.values())


def separated(rows: Sequence[Row], share: float = HELD_OUT_SHARE) -> dict[Split, tuple[Row, ...]]:
    """Returns the rows by split; a training row whose source also stands in a held-out family is left out."""
    families = {row.family for row in rows}
    places = {family: split_of(family, families, share) for family in families}
    held = tuple(row for row in rows if places[row.family] == "held-out")
    known = {row.fingerprint for row in held}
    kept = tuple(row for row in rows if places[row.family] == "train" and row.fingerprint not in known)
    return {"train": kept, "held-out": held}


def nearest(rows: Sequence[Row], features: Sequence[str], *, count: int, language: str = "") -> tuple[Row, ...]:
    """Returns the fastest verified kernel of each of the problems that are most like the given features.

    Args:
        rows: of a corpus.
        features: of the problem to be solved (features.py).
        count: at most so many.
        language: only kernels of this language; empty takes any.
    """
    best: dict[str, Row] = {}
    for row in rows:
        if row.kind != "kernel" or (language and row.language != language) or row.origin.startswith("augmented"):
            continue
        known = best.get(row.problem_digest)
        if known is None or (row.low or 0.0) > (known.low or 0.0):
            best[row.problem_digest] = row
    ranked = sorted(best.values(), key=lambda row: (-likeness(row.features, features), row.problem_digest))
    return tuple(ranked[:count])


# ------------------------------------------------------------------------------- files


def write(folder: Path, rows: dict[Split, tuple[Row, ...]], spaces: Sequence[Schedules], about: object) -> None:
    """Writes a corpus."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, some in rows.items():
        _replace(folder / f"{split}.jsonl", "".join(f"{_line(row)}\n" for row in some))
    _replace(folder / "spaces.jsonl", "".join(f"{codec.dumps(_space_data(space))}\n" for space in spaces))
    _replace(folder / "corpus.json", json.dumps(about, indent=1, ensure_ascii=False) + "\n")


def read(folder: Path, split: Split = "train") -> tuple[Row, ...]:
    """Returns a split's rows.

    Raises:
        UserError: the folder holds no corpus, or one that is damaged.
    """
    return tuple(_row(line, folder) for line in _lines(folder, f"{split}.jsonl"))


def read_spaces(folder: Path) -> tuple[Schedules, ...]:
    """Returns the schedule spaces of a corpus's problems."""
    return tuple(Schedules(**codec.loads(line)) for line in _lines(folder, "spaces.jsonl"))


def _space_data(one: Schedules) -> dict[str, object]:
    return {"problem_digest": one.problem_digest, "template": one.template, "space": one.space}


def write_parquet(folder: Path, rows: dict[Split, tuple[Row, ...]]) -> None:
    """Writes the rows as Parquet too."""
    for split, some in rows.items():
        to_parquet([_plain(row) for row in some], folder / f"{split}.parquet")


def to_parquet(lines: Sequence[dict[str, object]], path: Path) -> None:
    """Writes plain data as Parquet.

    Raises:
        MissingTool: pyarrow is not installed.
    """
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise MissingTool("Parquet needs pyarrow", "pip install 'kernelwright[parquet]'") from None
    parquet.write_table(arrow.Table.from_pylist(lines), path)


def _plain(row: Row) -> dict[str, object]:
    plain = codec.to_data(row)
    del plain[""]
    return {**plain, "point": json.dumps(plain["point"])}


def _line(row: Row) -> str:
    return json.dumps(_plain(row), ensure_ascii=False, separators=(",", ":"))


def _row(line: str, folder: Path) -> Row:
    try:
        plain = json.loads(line)
        point = tuple((str(name), choice) for name, choice in json.loads(plain.pop("point")))
        return Row(**{**plain, "features": tuple(plain["features"]), "point": point})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(
            f"{folder} holds a line that is no row: {error}", "make it again: kernelwright corpus build"
        ) from error


def _lines(folder: Path, name: str) -> Iterator[str]:
    try:
        text = (folder / name).read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"{folder} holds no corpus: {name}: {error.strerror}", "kernelwright corpus build --out DIR"
        ) from error
    return (line for line in text.splitlines() if line)


def _replace(path: Path, text: str) -> None:
    fresh = path.with_suffix(path.suffix + ".new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
