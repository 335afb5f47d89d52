"""How the store's file is opened and how SQLite's errors become ours.

Write-ahead logging with `synchronous=FULL`: a commit is on the disk when it returns, a killed
process leaves a file that the next one opens as if nothing had happened, and readers never wait.
Not here: tables (migrations.py) and what they hold (store/__init__.py).
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from kernelwright.errors import StoreError

BUSY_S = 60.0
"""How long one process waits for another's write; a write takes milliseconds."""


def connect(path: Path) -> sqlite3.Connection:
    """Returns a connection in write-ahead mode, without implicit transactions."""
    db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
    try:
        _use_write_ahead_log(db)
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA recursive_triggers = ON")
    except BaseException:
        db.close()
        raise
    return db


def _use_write_ahead_log(db: sqlite3.Connection) -> None:
    # SQLite does not call its busy handler for this switch, so two processes that make a store at
    # the same moment have to be made to wait here. Where a file system cannot do it, the rollback
    # journal that SQLite keeps instead is as safe, only slower.
    deadline = time.monotonic() + BUSY_S
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL").fetchone()
            return
        except sqlite3.OperationalError as error:
            if _code(error) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


@contextlib.contextmanager
def writing(db: sqlite3.Connection, path: Path) -> Iterator[None]:
    """Holds the write lock and commits at the end; an exception, Ctrl-C included, undoes all of it."""
    with translated(path):
        try:
            db.execute("BEGIN IMMEDIATE")
            yield
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turns SQLite's errors into StoreErrors that say what to do next."""
    try:
        yield
    except sqlite3.Error as error:
        raise _store_error(error, path) from error


def damaged(path: Path, what: str) -> StoreError:
    """Returns the error for a store that cannot be read as it should."""
    fix = f"the file was left as it is; `kernelwright doctor --store {path}` shows what is wrong and what can be saved"
    return StoreError(f"{path} is damaged: {what}", fix)


def _store_error(error: sqlite3.Error, path: Path) -> StoreError:
    code = _code(error)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreError(f"{path} is locked by another process", "wait until it ends, then run this again")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return damaged(path, str(error))
    if code == sqlite3.SQLITE_FULL:
        return StoreError(f"{path} cannot grow: {error}", "free some disk space; what was stored is safe")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR):
        return StoreError(f"{path} cannot be used: {error}", "name a folder that can be written with --out")
    if code == sqlite3.SQLITE_CONSTRAINT:
        return StoreError(f"{path} refused a change: {error}", "")
    # A file whose pages were overwritten can also show as missing tables.
    return damaged(path, str(error))


def _code(error: sqlite3.Error) -> int:
    # The low byte is the error; the rest says more about where it came from. Errors that Python
    # itself raises, such as for a closed connection, have no code.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
