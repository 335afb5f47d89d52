"""Finds a record with everything that it belongs to: in a store, in a result's folder, or in a file.

Not here: judging it again (verify.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelwright import codec
from kernelwright.errors import UserError
from kernelwright.run.outputs import EVIDENCE, FOLDER, RUNNER_UP
from kernelwright.run.verify import Remembered
from kernelwright.store import Store
from kernelwright.types import DIGEST_TAG, Candidate, Policy, Problem, Record, Target, digest

STORE = "store.sqlite"
LEAST_DIGITS = 6
USUAL = "kernelwright-out"
MEMBERS = {"problem": Problem, "kernel": Candidate, "target": Target, "policy": Policy, "record": Record}
"""The members of an evidence file, and what each must be."""


def recollect(subject: str, *, folders: Sequence[Path] = ()) -> Remembered:
    """Returns the record that a person names.

    Args:
        subject: a folder that `optimize` wrote (or `best` or `runner-up` in it), an evidence file, or the digest of a
            record or candidate, of which the first six digits are enough.
        folders: result folders whose stores are searched for a digest; default: kernelwright-out/*.

    Raises:
        UserError: nothing, or more than one record, has that name, or the files were changed since.
    """
    path = Path(subject)
    if path.is_dir():
        return _from_folder(path)
    if path.is_file():
        return _from_file(path)
    digits = subject.removeprefix(DIGEST_TAG)
    if len(digits) >= LEAST_DIGITS and all(c in "0123456789abcdef" for c in digits):
        return _from_stores(digits, folders)
    raise UserError(
        f"{subject} is no folder, no file, and no digest",
        f"give a result's best folder, its {EVIDENCE}, or at least {LEAST_DIGITS} digits of a record's digest",
    )


def _from_folder(path: Path) -> Remembered:
    places = (path, path / FOLDER, path / RUNNER_UP)
    folder = next((place for place in places if (place / EVIDENCE).is_file()), path)
    if not (folder / EVIDENCE).is_file():
        raise UserError(
            f"{path} holds no kernel with its evidence", "give the best or runner-up folder that `optimize` wrote"
        )
    found = _from_file(folder / EVIDENCE)
    for number, source in enumerate(found.candidate.sources):
        file = folder / source.path
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
        # The first source has a comment in front of it that says what it is.
        if not (text.endswith(source.text) if number == 0 else text == source.text):
            raise UserError(f"{file} is not the kernel of the record any more", "judge it with `kernelwright judge`")
    return found


def _from_file(path: Path) -> Remembered:
    try:
        data = codec.parsed(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, codec.CodecError) as error:
        raise UserError(f"{path} is no evidence file: {error}", f"give the {EVIDENCE} of a best folder") from None
    if not isinstance(data, dict):
        raise UserError(f"{path} is no evidence file", f"give the {EVIDENCE} of a best folder")
    missing = [name for name in MEMBERS if name not in data]
    if missing == ["kernel"] and isinstance(data.get("candidate"), str):
        return _completed(path, data)
    if missing:
        raise UserError(f"{path} lacks {', '.join(missing)}", f"it needs {', '.join(MEMBERS)}")
    return _checked(path, {name: _value(path, data[name]) for name in MEMBERS})


def _value(path: Path, data: Any) -> Any:
    """A file may come from anybody: what is no value is its fault, not ours."""
    try:
        made = codec.from_data(data)
    except codec.CodecError as error:
        raise UserError(f"{path} cannot be read: {error.message}", error.fix) from None
    if found := codec.misfit(made):
        raise UserError(f"{path} cannot be read: {found}", "give a file that nobody has changed")
    return made


def _completed(path: Path, data: dict[str, Any]) -> Remembered:
    """Takes the candidate of an older evidence file from the store that lies beside its folder."""
    store = path.parent.parent / STORE
    if not store.is_file():
        raise UserError(f"{path} holds no candidate, and there is no {store}", "optimize again to get one that does")
    values = {name: _value(path, data[name]) for name in MEMBERS if name != "kernel"}
    with Store(store, create=False) as opened:
        return _checked(path, values | {"kernel": opened.get(data["candidate"])})


def _checked(path: Path, values: dict[str, Any]) -> Remembered:
    for name, kind in MEMBERS.items():
        if not isinstance(values[name], kind):
            raise UserError(f"{path}: {name} is a {type(values[name]).__name__}", f"it must be a {kind.__name__}")
    record: Record = values["record"]
    named = {"problem": "problem", "kernel": "candidate", "target": "target", "policy": "policy"}
    for name, member in named.items():
        if digest(values[name]) != getattr(record, member) and name != "policy":
            raise UserError(f"{path}: the record belongs to another {member}", "give a file that nobody has changed")
    return Remembered(
        problem=values["problem"], candidate=values["kernel"], target=values["target"], policy=values["policy"],
        record=record, origin=str(path),
    )  # fmt: skip


def _from_stores(digits: str, folders: Sequence[Path]) -> Remembered:
    places = [folder / STORE for folder in folders] or sorted(Path(USUAL).glob(f"*/{STORE}"))
    if not places:
        raise UserError(f"there is no store in {USUAL}", "name the result's folder with --out")
    found: dict[str, tuple[Path, Record]] = {}
    for place in places:
        with Store(place, create=False) as store:
            for record in store.records():
                keys = (digest(record), record.candidate)
                if any(key.removeprefix(DIGEST_TAG).startswith(digits) for key in keys):
                    found[digest(record)] = (place, record)
    if not found:
        raise UserError(f"no record or candidate begins with {digits}", "name another result's folder with --out")
    candidates = {record.candidate for _, record in found.values()}
    if len(candidates) > 1:
        raise UserError(f"{digits} begins {len(found)} records of {len(candidates)} candidates", "give more digits")
    place, record = _most_thorough(found)
    with Store(place, create=False) as store:
        return Remembered(
            problem=store.get(record.problem), candidate=store.get(record.candidate), target=store.get(record.target),
            policy=store.get(record.policy), record=record, origin=str(place),
        )  # fmt: skip


def _most_thorough(found: dict[str, tuple[Path, Record]]) -> tuple[Path, Record]:
    """Returns of one candidate's records the one with the most rounds behind it, the latest of equals."""

    def weight(numbered: tuple[int, tuple[Path, Record]]) -> tuple[int, str, int]:
        number, (place, record) = numbered
        with Store(place, create=False) as store:
            policy: Policy = store.get(record.policy)
        return policy.rounds * policy.draws, record.when, number

    return max(enumerate(found.values()), key=weight)[1]
