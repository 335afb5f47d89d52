"""Looking into a store that does not open, and saving what is left of it into a new one.

The damaged file is opened read-only and stays as it is.
Not here: what counts as damage (damage.py).
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernelwright import codec
from kernelwright.errors import StoreError, UserError
from kernelwright.store import Store
from kernelwright.store.connection import translated
from kernelwright.store.damage import problems_of
from kernelwright.store.migrations import APPLICATION_ID
from kernelwright.types import Record, digest, value

MIN_ROW_BYTES = 64
"""A row of any table here holds at least a digest."""


@value
class Salvage:
    """What could be saved of a damaged store."""

    values: int
    records: int
    blobs: int
    lost: int
    """Rows that could be seen but not be trusted."""


def examine(path: str | Path) -> tuple[str, ...]:
    """Returns what is wrong with a store's file, one line each, also where it cannot be opened.

    Raises:
        UserError: when there is no such file.
    """
    try:
        db = _open(Path(path))
    except StoreError as error:
        return (error.message,)
    try:
        return problems_of(db)
    finally:
        db.close()


def salvage(damaged: str | Path, fresh: str | Path) -> Salvage:
    """Copies every value, record and blob that can still be read and trusted into a new store.

    Raises:
        UserError: there is no damaged file, or the new one exists already.
        StoreError: nothing at all can be read, or the new store cannot be written.
    """
    if Path(fresh).exists():
        raise UserError(f"{fresh} exists already", "name a file that does not exist yet")
    try:
        db = _open(Path(damaged))
    except StoreError as error:
        raise StoreError(f"nothing can be saved: {error.message}", "go on with another folder: --out") from error
    try:
        with Store(fresh) as store:
            return _copy(db, store)
    finally:
        db.close()


def _copy(db: sqlite3.Connection, store: Store) -> Salvage:
    values = records = blobs = lost = 0
    for key, text in _rows(db, "value", "digest, text"):
        item = _decoded(text)
        if item is not None and digest(item) == key:
            store.put(item)
            values += 1
        else:
            lost += 1
    for text, sha256 in _rows(db, "record", "text, sha256"):
        item = _decoded(text)
        if isinstance(item, Record) and hashlib.sha256(text.encode()).hexdigest() == sha256 and _kept(store, item):
            records += 1
        else:
            lost += 1
    for key, data in _rows(db, "blob", "digest, data"):
        if "sha256:" + hashlib.sha256(data).hexdigest() == key:
            store.put_blob(data)
            blobs += 1
        else:
            lost += 1
    return Salvage(values=values, records=records, blobs=blobs, lost=lost)


def _kept(store: Store, record: Record) -> bool:
    try:
        store.append(record)
    except StoreError:
        return False
    return True


def _open(path: Path) -> sqlite3.Connection:
    if not path.is_file():
        raise UserError(f"there is no store at {path}", "check the path")
    with translated(path):
        db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            owner = db.execute("PRAGMA application_id").fetchone()[0]
        except BaseException:
            db.close()
            raise
    if owner != APPLICATION_ID:
        db.close()
        raise StoreError(f"{path} is not a store of kernelwright", "name another folder with --out")
    return db


def _rows(db: sqlite3.Connection, table: str, columns: str) -> Iterator[tuple[Any, ...]]:
    """Yields the rows of a table that can still be read, one by one past damaged pages."""
    last = (_read(db, f"SELECT max(rowid) FROM {table}") or (None,))[0]
    if last is None:
        # The page with the last row is gone: no table has more rows than the file has minimal ones.
        pages, page_bytes = (_read(db, f"PRAGMA {name}") or (0,) for name in ("page_count", "page_size"))
        last = pages[0] * page_bytes[0] // MIN_ROW_BYTES
    for rowid in range(1, last + 1):
        row = _read(db, f"SELECT {columns} FROM {table} WHERE rowid = {rowid}")
        if row is not None:
            yield row


def _read(db: sqlite3.Connection, sql: str) -> Any:
    try:
        return db.execute(sql).fetchone()
    except sqlite3.Error:
        return None


def _decoded(text: Any) -> Any:
    try:
        return codec.loads(text)
    except (codec.CodecError, TypeError):
        return None
