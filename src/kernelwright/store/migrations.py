"""The store's tables, as numbered migrations that are applied once each and never edited.

A migration is a function of an open connection inside a transaction. Its name is kept in the
store, so that a store that a newer version wrote is recognised and left alone.
Not here: what is read from and written to the tables (store/__init__.py).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime

from kernelwright.errors import StoreError

APPLICATION_ID = 0x6B777231
"""`kwr1` in SQLite's application id, so that another program's file is never taken for a store."""

APPEND_ONLY = ("value", "record", "blob", "run")
"""Tables whose rows are never changed or removed; triggers refuse it in every program."""

INITIAL = (
    "CREATE TABLE value (digest TEXT PRIMARY KEY, type TEXT NOT NULL, text TEXT NOT NULL, sha256 TEXT NOT NULL)",
    """CREATE TABLE record (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        problem TEXT NOT NULL REFERENCES value(digest),
        candidate TEXT NOT NULL REFERENCES value(digest),
        target TEXT NOT NULL REFERENCES value(digest),
        policy TEXT NOT NULL REFERENCES value(digest),
        passed INTEGER NOT NULL CHECK (passed IN (0, 1)),
        text TEXT NOT NULL,
        sha256 TEXT NOT NULL,
        UNIQUE (problem, candidate, target, policy))""",
    "CREATE INDEX record_by_policy ON record (problem, target, policy, passed)",
    "CREATE TABLE blob (digest TEXT PRIMARY KEY, data BLOB NOT NULL)",
    """CREATE TABLE run (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        command TEXT NOT NULL,
        problem TEXT NOT NULL REFERENCES value(digest),
        target TEXT NOT NULL REFERENCES value(digest),
        seed INTEGER NOT NULL,
        started TEXT NOT NULL)""",
)
AUTHORS = ("sent", "exchange", "attempt")
"""Tables of what was asked of authors and what came of it, append-only as well."""

AUTHORED = (
    # A call that was begun; without an exchange it was in flight when the process died, and may have been paid for.
    """CREATE TABLE sent (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        run INTEGER NOT NULL REFERENCES run(id),
        request TEXT NOT NULL REFERENCES value(digest),
        estimate_usd REAL NOT NULL,
        moment TEXT NOT NULL)""",
    # Without a request: a call that ended without a reply, and what it cost all the same.
    """CREATE TABLE exchange (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        run INTEGER NOT NULL REFERENCES run(id),
        sent INTEGER NOT NULL REFERENCES sent(id),
        request TEXT UNIQUE REFERENCES value(digest),
        text TEXT NOT NULL,
        sha256 TEXT NOT NULL,
        moment TEXT NOT NULL)""",
    """CREATE TABLE attempt (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        run INTEGER NOT NULL REFERENCES run(id),
        digest TEXT NOT NULL UNIQUE,
        text TEXT NOT NULL,
        sha256 TEXT NOT NULL)""",
)

GUARD = """CREATE TRIGGER {table}_refuses_{verb} BEFORE {verb} ON {table}
    BEGIN SELECT RAISE(ABORT, 'the store is append-only: {table} refuses {verb}'); END"""

# INSERT OR REPLACE removes the old row without its DELETE trigger, unless the connection asked for
# recursive triggers; so replacing is refused before it starts.
REPLACE_GUARD = """CREATE TRIGGER {table}_refuses_replace BEFORE INSERT ON {table} WHEN EXISTS ({same})
    BEGIN SELECT RAISE(ABORT, 'the store is append-only: {table} refuses a second row'); END"""

SAME = {
    "value": "SELECT 1 FROM value WHERE digest = NEW.digest",
    "blob": "SELECT 1 FROM blob WHERE digest = NEW.digest",
    "run": "SELECT 1 FROM run WHERE id = NEW.id",
    "record": """SELECT 1 FROM record WHERE id = NEW.id OR (problem = NEW.problem
        AND candidate = NEW.candidate AND target = NEW.target AND policy = NEW.policy)""",
    "sent": "SELECT 1 FROM sent WHERE id = NEW.id",
    "exchange": "SELECT 1 FROM exchange WHERE id = NEW.id OR request = NEW.request",
    "attempt": "SELECT 1 FROM attempt WHERE id = NEW.id OR digest = NEW.digest",
}


def guards(tables: tuple[str, ...] = (*APPEND_ONLY, *AUTHORS)) -> dict[str, str]:
    """Returns the statement of each trigger that keeps tables append-only, by trigger name."""
    found = {f"{t}_refuses_{v}": GUARD.format(table=t, verb=v) for t in tables for v in ("UPDATE", "DELETE")}
    return found | {f"{t}_refuses_replace": REPLACE_GUARD.format(table=t, same=SAME[t]) for t in tables}


def m001_initial(db: sqlite3.Connection) -> None:
    """Makes the tables for values, records, blobs and runs, and the triggers that protect them."""
    for statement in (*INITIAL, *guards(APPEND_ONLY).values()):
        db.execute(statement)


def m002_authors(db: sqlite3.Connection) -> None:
    """Makes the tables for calls of language models, their replies, and what came of each."""
    for statement in (*AUTHORED, *guards(AUTHORS).values()):
        db.execute(statement)


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (m001_initial, m002_authors)


def migrate(db: sqlite3.Connection, path: str) -> None:
    """Brings a store up to this version; call it inside a write transaction.

    Raises:
        StoreError: when the file is not a store, or a newer version wrote it.
    """
    owner = db.execute("PRAGMA application_id").fetchone()[0]
    tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if tables and owner != APPLICATION_ID:
        raise StoreError(f"{path} is a SQLite file of another program", "name another folder with --out")
    if not tables:
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("CREATE TABLE migration (name TEXT PRIMARY KEY, applied TEXT NOT NULL)")
    applied = {row[0] for row in db.execute("SELECT name FROM migration")}
    if newer := sorted(applied - {m.__name__ for m in MIGRATIONS}):
        raise StoreError(
            f"{path} was written by a newer kernelwright (it has {', '.join(newer)})",
            "update kernelwright, or name another folder with --out",
        )
    for migration in MIGRATIONS:
        if migration.__name__ not in applied:
            migration(db)
            moment = datetime.now(UTC).isoformat(timespec="seconds")
            db.execute("INSERT INTO migration VALUES (?, ?)", (migration.__name__, moment))
