"""What was asked of authors, what they answered, and what became of it: the trajectories of a store.

A reply that `keep` returned is on the disk and answers the same request for ever. A call is noted before it is made, so
that one which was in flight when the process died is known, with what it may have cost.
Not here: records (store/__init__.py), and what a call costs (run/spending.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from kernelwright.codec import dumps
from kernelwright.exchanges import Attempt, Exchange, Reply, Request
from kernelwright.store import Run, Store, sha256_of
from kernelwright.store.connection import damaged
from kernelwright.types import digest


class Trajectories:
    """The exchanges and attempts of one store.

    Args:
        store: where they are kept; it must stay open.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def reply(self, request: Request) -> Reply | None:
        """Returns the stored reply to a request, None where there is none."""
        row = self._store.rows("SELECT text FROM exchange WHERE request = ?", (digest(request),))
        return self._reply(row[0][0]) if row else None

    def begin(self, run: Run, request: Request, estimate_usd: float) -> int:
        """Notes a call before it is made, with the most it can cost, and returns its number."""
        with self._store.writing() as db:
            key = self._store.put_within(request)
            insert = "INSERT INTO sent (run, request, estimate_usd, moment) VALUES (?, ?, ?, ?)"
            return int(db.execute(insert, (run.id, key, estimate_usd, _now())).lastrowid or 0)

    def keep(self, run: Run, sent: int, request: Request, reply: Reply) -> Reply:
        """Keeps a reply and returns what the store now holds for its request: always the first."""
        text = dumps(reply)
        with self._store.writing() as db:
            key = self._store.put_within(request)
            row = db.execute("SELECT text FROM exchange WHERE request = ?", (key,)).fetchone()
            if row is None:
                insert = "INSERT INTO exchange (run, sent, request, text, sha256, moment) VALUES (?, ?, ?, ?, ?, ?)"
                db.execute(insert, (run.id, sent, key, text, sha256_of(text), _now()))
                return reply
        return self._reply(row[0])

    def keep_failed(self, run: Run, sent: int, reply: Reply) -> None:
        """Notes that a call ended without a reply that could be used; `reply` says what it cost all the same."""
        text = dumps(reply)
        with self._store.writing() as db:
            insert = "INSERT INTO exchange (run, sent, request, text, sha256, moment) VALUES (?, ?, NULL, ?, ?, ?)"
            db.execute(insert, (run.id, sent, text, sha256_of(text), _now()))

    def note(self, run: Run, attempt: Attempt) -> None:
        """Keeps what became of a reply; the same attempt is kept once."""
        text = dumps(attempt)
        with self._store.writing() as db:
            key = digest(attempt)
            if db.execute("SELECT 1 FROM attempt WHERE digest = ?", (key,)).fetchone() is None:
                insert = "INSERT INTO attempt (run, digest, text, sha256) VALUES (?, ?, ?, ?)"
                db.execute(insert, (run.id, key, text, sha256_of(text)))

    def exchanges(self, *, problem: str | None = None, run: int | None = None) -> Iterator[Exchange]:
        """Yields the exchanges in the order in which their replies came, of a problem's digest or a run where given."""
        wanted = self._runs(problem, run)
        sql = "SELECT id, run, request, text, moment FROM exchange ORDER BY id"
        for row_id, of_run, key, text, moment in self._store.rows(sql, ()):
            if of_run in wanted and key is not None:
                yield Exchange(
                    id=row_id, run=of_run, request=self._store.get(key), reply=self._reply(text), when=moment
                )

    def paid(self, *, problem: str) -> Iterator[Reply]:
        """Yields every reply that was paid for, those of failed calls as well, of a problem's digest."""
        wanted = self._runs(problem, None)
        for of_run, text in self._store.rows("SELECT run, text FROM exchange ORDER BY id", ()):
            if of_run in wanted:
                yield self._reply(text)

    def attempts(self, *, problem: str | None = None, run: int | None = None) -> Iterator[Attempt]:
        """Yields what became of the replies, in order."""
        wanted = self._runs(problem, run)
        for of_run, text in self._store.rows("SELECT run, text FROM attempt ORDER BY id", ()):
            if of_run in wanted:
                item = self._store.decode(text)
                if not isinstance(item, Attempt):
                    raise damaged(self._store.path, f"a {type(item).__name__} lies where an attempt should")
                yield item

    def lost_usd(self, *, problem: str | None = None) -> float:
        """Returns what the calls that were in flight when a process died may have cost."""
        wanted = self._runs(problem, None)
        sql = "SELECT run, estimate_usd FROM sent WHERE id NOT IN (SELECT sent FROM exchange)"
        return sum(float(usd) for of_run, usd in self._store.rows(sql, ()) if of_run in wanted)

    def _runs(self, problem: str | None, run: int | None) -> set[int]:
        return {r.id for r in self._store.runs(problem=problem) if run in (None, r.id)}

    def _reply(self, text: str) -> Reply:
        item = self._store.decode(text)
        if not isinstance(item, Reply):
            raise damaged(self._store.path, f"a {type(item).__name__} lies where a reply should")
        return item


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
