"""What is wrong with a store: every check behind `Store.verify`. Everything here only reads.

Not here: saving what is left of a damaged file (salvage.py).
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from typing import Any

from kernelwright import codec
from kernelwright.exchanges import Attempt, Reply
from kernelwright.store.migrations import guards
from kernelwright.types import Record, digest

MAX_LISTED = 100
"""Lines of SQLite's integrity check that are passed on."""


def problems_of(db: sqlite3.Connection) -> tuple[str, ...]:
    """Returns everything that is wrong with an open store, one line each, the file's own first."""
    found: list[str] = []
    for check in (_integrity, _guards, _references, _values, _records, _blobs, _exchanges):
        try:
            found.extend(check(db))
        except sqlite3.Error as error:
            found.append(f"{check.__name__.strip('_')}: cannot be read: {error}")
    return tuple(found)


def _integrity(db: sqlite3.Connection) -> Iterator[str]:
    for (line,) in db.execute(f"PRAGMA integrity_check({MAX_LISTED})"):
        if line != "ok":
            yield f"integrity: {line}"


def _guards(db: sqlite3.Connection) -> Iterator[str]:
    present = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")}
    for name in sorted(set(guards()) - present):
        yield f"guard: trigger {name} was removed"


def _references(db: sqlite3.Connection) -> Iterator[str]:
    named = {
        "record": ("problem", "candidate", "target", "policy"),
        "run": ("problem", "target"),
        "sent": ("request",),
        "exchange": ("request",),
    }
    for table, columns in named.items():
        for column in columns:
            missing = f"SELECT id, {column} FROM {table} WHERE {column} NOT IN (SELECT digest FROM value) ORDER BY id"
            for row_id, key in db.execute(missing):
                yield f"reference: {table} {row_id} names {column} {key}, which the store does not hold"


def _values(db: sqlite3.Connection) -> Iterator[str]:
    for key, type_name, text, sha256 in db.execute("SELECT digest, type, text, sha256 FROM value ORDER BY digest"):
        item, fault = _decoded(text, sha256)
        if fault:
            yield f"value {key}: {fault}"
        elif digest(item) != key:
            yield f"value {key}: its digest is {digest(item)}"
        elif type(item).__name__ != type_name:
            yield f"value {key}: is a {type(item).__name__}, listed as {type_name}"


def _records(db: sqlite3.Connection) -> Iterator[str]:
    columns = "id, text, sha256, problem, candidate, target, policy, passed"
    for row_id, text, sha256, *listed in db.execute(f"SELECT {columns} FROM record ORDER BY id"):
        item, fault = _decoded(text, sha256)
        if fault:
            yield f"record {row_id}: {fault}"
        elif not isinstance(item, Record):
            yield f"record {row_id}: is a {type(item).__name__}"
        elif [item.problem, item.candidate, item.target, item.policy, int(item.passed)] != listed:
            yield f"record {row_id}: is listed as something else than it says"


def _blobs(db: sqlite3.Connection) -> Iterator[str]:
    for key, data in db.execute("SELECT digest, data FROM blob ORDER BY digest"):
        if "sha256:" + hashlib.sha256(data).hexdigest() != key:
            yield f"blob {key}: has other bytes"


def _exchanges(db: sqlite3.Connection) -> Iterator[str]:
    for table, kind in (("exchange", Reply), ("attempt", Attempt)):
        for row_id, text, sha256 in db.execute(f"SELECT id, text, sha256 FROM {table} ORDER BY id"):
            item, fault = _decoded(text, sha256)
            if fault:
                yield f"{table} {row_id}: {fault}"
            elif not isinstance(item, kind):
                yield f"{table} {row_id}: is a {type(item).__name__}"


def _decoded(text: object, sha256: str) -> tuple[Any, str]:
    """Returns the value and why it cannot be trusted (empty where it can)."""
    if not isinstance(text, str) or hashlib.sha256(text.encode()).hexdigest() != sha256:
        return None, "its text was changed"
    try:
        return codec.loads(text), ""
    except codec.CodecError as error:
        return None, f"cannot be decoded: {error.message}"
