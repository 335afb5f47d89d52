"""Where everything is kept: one SQLite file of values, append-only records, blobs and runs.

A record that `append` returned is on the disk and is never changed, lost or replaced: a second
record of the same identity (problem, candidate, target, policy) is dropped in favour of the first.
Several processes may use one store; each `Store` belongs to one thread.
Not here: judging, ranking, and what is made of the records (run, report).
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kernelwright import codec
from kernelwright.errors import StoreError, UserError
from kernelwright.store.connection import connect, damaged, translated, writing
from kernelwright.store.damage import problems_of
from kernelwright.store.migrations import migrate
from kernelwright.types import Judgement, Problem, Record, Target, digest, value

__all__ = ["Run", "Store"]

SEED_LIMIT = 1 << 31


@value
class Run:
    """One use of the store by a command: what makes its decisions repeatable."""

    id: int
    command: str
    problem: str
    target: str
    """Digests."""
    seed: int
    started: str
    """UTC, ISO 8601."""


class Store:
    """The file that holds records, open for reading and writing.

    Args:
        path: the file; it and its folder are made when missing.
        create: False refuses a file that does not exist, for commands that only read.

    Raises:
        StoreError: the file is damaged, of another program, locked, or of a newer version.
        UserError: `create` is False and there is no such file.
    """

    def __init__(self, path: str | Path, *, create: bool = True) -> None:
        self.path = Path(path)
        if not create and not self.path.is_file():
            raise UserError(f"there is no store at {path}", "run `kernelwright optimize` first, or name the file")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{path} cannot be made: {error.strerror}", "name another folder with --out") from error
        with translated(self.path):
            self._db = connect(self.path)
        try:
            with writing(self._db, self.path):
                migrate(self._db, str(path))
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Releases the file; harmless when called twice."""
        self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -------------------------------------------------------------------------- values

    def put(self, item: object) -> str:
        """Keeps a value and returns its digest; of equal values the first keeps its notes."""
        with writing(self._db, self.path):
            return self._put(item)

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Gives the connection inside one write transaction, for the other modules of this package."""
        with writing(self._db, self.path):
            yield self._db

    def put_within(self, item: object) -> str:
        """Keeps a value inside a transaction that is open, and returns its digest."""
        return self._put(item)

    def _put(self, item: object) -> str:
        key = digest(item)
        if self._db.execute("SELECT 1 FROM value WHERE digest = ?", (key,)).fetchone() is None:
            text = codec.dumps(item)
            self._db.execute("INSERT INTO value VALUES (?, ?, ?, ?)", (key, type(item).__name__, text, sha256_of(text)))
        return key

    def get(self, key: str) -> Any:
        """Returns the value of a digest.

        Raises:
            StoreError: when the store does not hold it, or cannot read it.
        """
        row = self._one("SELECT text FROM value WHERE digest = ?", (key,))
        if row is None:
            raise StoreError(f"{self.path} has no value {key}", "check the digest, or name another folder with --out")
        return self.decode(row[0])

    def values(self, type_name: str) -> tuple[Any, ...]:
        """Returns every value of one type, such as `Problem`, in the order of their digests."""
        rows = self.rows("SELECT text FROM value WHERE type = ? ORDER BY digest", (type_name,))
        return tuple(self.decode(text) for (text,) in rows)

    # ------------------------------------------------------------------------- records

    def append(self, record: Record, *values: object) -> Record:
        """Keeps a record and returns what the store now holds for its identity: always the first.

        Args:
            record: its four values must be in the store, or among `values`.
            values: put first, in the same transaction.

        Raises:
            StoreError: when a value that the record names is not in the store, or writing failed;
                then nothing was changed.
        """
        text = codec.dumps(record)
        with writing(self._db, self.path):
            for item in values:
                self._put(item)
            row = self._db.execute(f"SELECT text FROM record WHERE {IDENTITY}", _identity(record)).fetchone()
            if row is None:
                self._db.execute(
                    "INSERT INTO record (problem, candidate, target, policy, passed, text, sha256)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (*_identity(record), int(record.passed), text, sha256_of(text)),
                )
                return record
        return self._record(row[0])

    def find(self, problem: str, candidate: str, target: str, policy: str) -> Record | None:
        """Returns the record of that identity (four digests), None where nothing was judged."""
        row = self._one(f"SELECT text FROM record WHERE {IDENTITY}", (problem, candidate, target, policy))
        return None if row is None else self._record(row[0])

    def records(
        self,
        *,
        problem: str | None = None,
        candidate: str | None = None,
        target: str | None = None,
        policy: str | None = None,
        passed: bool | None = None,
    ) -> Iterator[Record]:
        """Yields records in the order they were appended, those of the given digests only."""
        given = {"problem": problem, "candidate": candidate, "target": target, "policy": policy, "passed": passed}
        used = {name: item for name, item in given.items() if item is not None}
        where = " AND ".join(f"{name} = ?" for name in used) or "1"
        # Page by id: no read transaction stays open while the caller thinks.
        last = 0
        while rows := self.rows(
            f"SELECT id, text FROM record WHERE {where} AND id > ? ORDER BY id LIMIT 256", (*used.values(), last)
        ):
            yield from (self._record(text) for _, text in rows)
            last = rows[-1][0]

    def best(self, problem: str, *, target: str, policy: str, baseline: str = "eager") -> Record | None:
        """Returns the passed record with the greatest speedup against a baseline, None without one."""
        best: Record | None = None
        best_speedup = 0.0
        for record in self.records(problem=problem, target=target, policy=policy, passed=True):
            against = record.outcome.against(baseline) if isinstance(record.outcome, Judgement) else None
            if against is not None and against.speedup > best_speedup:
                best, best_speedup = record, against.speedup
        return best

    # --------------------------------------------------------------------- blobs, runs

    def put_blob(self, data: bytes) -> str:
        """Keeps bytes, such as an artifact's binary, and returns `sha256:...`."""
        key = "sha256:" + hashlib.sha256(data).hexdigest()
        with writing(self._db, self.path):
            if self._db.execute("SELECT 1 FROM blob WHERE digest = ?", (key,)).fetchone() is None:
                self._db.execute("INSERT INTO blob VALUES (?, ?)", (key, data))
        return key

    def blob(self, key: str) -> bytes:
        """Returns the bytes of a `sha256:...` digest.

        Raises:
            StoreError: when the store does not hold them, or they are no longer what was put.
        """
        row = self._one("SELECT data FROM blob WHERE digest = ?", (key,))
        if row is None:
            raise StoreError(f"{self.path} has no blob {key}", "check the digest, or name another folder with --out")
        data = bytes(row[0])
        if "sha256:" + hashlib.sha256(data).hexdigest() != key:
            raise damaged(self.path, f"blob {key} has other bytes")
        return data

    def begin_run(self, command: str, problem: Problem, target: Target, *, seed: int | None = None) -> Run:
        """Notes that a command starts, and returns the run with the seed that it must use.

        Args:
            command: its name and what else decides its proposals; the same text goes on from there.
            problem: kept as a value.
            target: kept as a value.
            seed: None takes the seed of the latest such run, and draws one for the first.
        """
        moment = datetime.now(UTC).isoformat(timespec="seconds")
        with writing(self._db, self.path):
            key = (command, self._put(problem), self._put(target))
            if seed is None:
                sql = "SELECT seed FROM run WHERE command = ? AND problem = ? AND target = ? ORDER BY id DESC LIMIT 1"
                row = self._db.execute(sql, key).fetchone()
                seed = int(row[0]) if row else secrets.randbelow(SEED_LIMIT)
            insert = "INSERT INTO run (command, problem, target, seed, started) VALUES (?, ?, ?, ?, ?)"
            run_id = int(self._db.execute(insert, (*key, seed, moment)).lastrowid or 0)
        return Run(id=run_id, command=command, problem=key[1], target=key[2], seed=seed, started=moment)

    def runs(self, *, problem: str | None = None) -> tuple[Run, ...]:
        """Returns every run, the oldest first, of one problem's digest where given."""
        rows = self.rows("SELECT id, command, problem, target, seed, started FROM run ORDER BY id", ())
        names = ("id", "command", "problem", "target", "seed", "started")
        runs = (Run(**dict(zip(names, row, strict=True))) for row in rows)
        return tuple(run for run in runs if problem in (None, run.problem))

    def verify(self) -> tuple[str, ...]:
        """Returns what is wrong with the store, one line each; empty when nothing is.

        Covers: SQLite's own integrity check, digests and checksums of every value, record and blob,
        columns that disagree with the text beside them, records and runs whose values are missing,
        and triggers that were removed.
        Does not cover: rows that someone removed together with every trace of them.
        """
        return problems_of(self._db)

    # ------------------------------------------------------------------------- reading

    def _one(self, sql: str, arguments: tuple[object, ...]) -> tuple[Any, ...] | None:
        rows = self.rows(sql, arguments)
        return rows[0] if rows else None

    def rows(self, sql: str, arguments: tuple[object, ...]) -> list[tuple[Any, ...]]:
        """Returns the rows of a query, for the other modules of this package."""
        with translated(self.path):
            return self._db.execute(sql, arguments).fetchall()

    def decode(self, text: str) -> Any:
        """Returns the value of a text that the store holds."""
        try:
            return codec.loads(text)
        except codec.CodecError as error:
            raise damaged(self.path, error.message) from error

    def _record(self, text: str) -> Record:
        item = self.decode(text)
        if not isinstance(item, Record):
            raise damaged(self.path, f"a {type(item).__name__} lies where a record should")
        return item


IDENTITY = "problem = ? AND candidate = ? AND target = ? AND policy = ?"


def _identity(record: Record) -> tuple[str, str, str, str]:
    return record.problem, record.candidate, record.target, record.policy


def sha256_of(text: str) -> str:
    """Returns the checksum that lies beside every text of the store."""
    return hashlib.sha256(text.encode()).hexdigest()
