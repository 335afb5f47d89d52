from __future__ import annotations

import hashlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.search.fake_judge import PROBLEM, TARGET

from kernelwright import codec
from kernelwright.errors import KernelwrightError, StoreError, UserError
from kernelwright.graph import Graph
from kernelwright.store import Store
from kernelwright.store import connection as connection_module
from kernelwright.store.migrations import MIGRATIONS, guards
from kernelwright.store.salvage import Salvage, examine, salvage
from kernelwright.testing.strategies import fake_policy, fake_record
from kernelwright.types import Candidate, LaunchPlan, Record, SourceFile, digest, replace

ROOT = Path(__file__).parents[2]
SCREEN, MEASURE = fake_policy("screen"), fake_policy("measure")


def candidate(number: int) -> Candidate:
    source = SourceFile(path="kernel.cpp", text=f"// number {number}\n" + "// padding\n" * 200)
    return Candidate(problem=digest(PROBLEM), language="cpp", sources=(source,), plan=LaunchPlan(steps=()))


def record(number: int, *, time_us: float | None = 100.0, policy: object = SCREEN) -> Record:
    return fake_record(candidate(number), digest(policy), time_us, target=digest(TARGET))


def fill(store: Store, count: int) -> None:
    for item in (PROBLEM, TARGET, SCREEN, MEASURE):
        store.put(item)
    for number in range(count):
        store.append(record(number), candidate(number))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "kept.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store(path) as opened:
        yield opened


def raw(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


# ------------------------------------------------------------------------------- values


def test_values_come_back_by_digest(store: Store) -> None:
    for item in (PROBLEM, TARGET, SCREEN, candidate(1), Graph(nodes=(), outputs=())):
        key = store.put(item)
        assert key == digest(item)
        assert store.get(key) == item
    assert store.values("Policy") == (SCREEN,)


def test_of_equal_values_the_first_keeps_its_notes(store: Store) -> None:
    first, second = (replace(candidate(1), parents=(name,)) for name in ("one", "two"))
    assert store.put(first) == store.put(second)
    assert store.get(digest(second)).parents == ("one",)


def test_what_is_not_there_is_said(store: Store) -> None:
    with pytest.raises(StoreError, match="has no value k1:0"):
        store.get("k1:0")
    with pytest.raises(StoreError, match="has no blob sha256:0"):
        store.blob("sha256:0")


def test_blobs_come_back_by_digest(store: Store) -> None:
    data = bytes(range(256)) * 40
    key = store.put_blob(data)
    assert key == store.put_blob(data) == "sha256:" + hashlib.sha256(data).hexdigest()
    assert store.blob(key) == data


# ------------------------------------------------------------------------------ records


def test_a_record_is_found_by_its_identity_only(store: Store) -> None:
    fill(store, 1)
    (problem, key, target) = (digest(PROBLEM), digest(candidate(0)), digest(TARGET))
    assert store.find(problem, key, target, digest(SCREEN)) == record(0)
    assert store.find(problem, key, target, digest(MEASURE)) is None
    assert store.find(problem, digest(candidate(1)), target, digest(SCREEN)) is None


def test_the_first_record_of_an_identity_stays(store: Store) -> None:
    fill(store, 1)
    kept = store.append(record(0, time_us=5.0))
    assert kept == record(0)
    assert list(store.records()) == [record(0)]


def test_a_record_without_its_values_is_refused_and_nothing_is_changed(store: Store) -> None:
    store.put(PROBLEM)
    with pytest.raises(StoreError, match="refused"):
        store.append(record(0), candidate(0))
    assert list(store.records()) == []
    assert store.values("Candidate") == ()


def test_an_exception_in_the_middle_undoes_everything(store: Store, path: Path) -> None:
    def interrupted() -> None:
        with connection_module.writing(store._db, path):
            store._put(PROBLEM)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert store.values("Problem") == ()
    fill(store, 1)


def test_records_are_filtered_and_come_in_order(store: Store) -> None:
    fill(store, 3)
    store.append(record(3, time_us=None), candidate(3))
    store.append(record(1, policy=MEASURE))
    assert [r.candidate for r in store.records(policy=digest(SCREEN))] == [digest(candidate(n)) for n in range(4)]
    assert list(store.records(passed=False)) == [record(3, time_us=None)]
    assert list(store.records(candidate=digest(candidate(1)))) == [record(1), record(1, policy=MEASURE)]
    assert list(store.records(target="k1:elsewhere")) == []
    assert len(list(store.records(problem=digest(PROBLEM), passed=True))) == 4


def test_many_records_are_read_in_pages_while_more_are_written(store: Store) -> None:
    fill(store, 300)
    seen = 0
    for kept in store.records():
        assert kept == record(seen)
        if seen == 0:
            store.append(record(300), candidate(300))
        seen += 1
    assert seen == 301


def test_the_best_record_has_the_greatest_speedup(store: Store) -> None:
    fill(store, 0)
    for number, time_us in enumerate((100.0, 20.0, None, 50.0)):
        store.append(record(number, time_us=time_us), candidate(number))
    arguments = {"target": digest(TARGET), "policy": digest(SCREEN)}
    assert store.best(digest(PROBLEM), **arguments) == record(1, time_us=20.0)
    assert store.best(digest(PROBLEM), **arguments, baseline="compile:default") is None
    assert store.best("k1:other", **arguments) is None


@pytest.mark.parametrize("table", ["record", "value", "blob", "run"])
@pytest.mark.parametrize("change", ["UPDATE {0} SET rowid = 99", "DELETE FROM {0}", "INSERT OR REPLACE INTO {0} {1}"])
def test_no_program_can_change_or_remove_what_is_kept(store: Store, path: Path, table: str, change: str) -> None:
    fill(store, 1)
    store.put_blob(b"bytes")
    store.begin_run("optimize", PROBLEM, TARGET)
    other = raw(path)
    before = other.execute(f"SELECT * FROM {table}").fetchall()
    assert before
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        other.execute(change.format(table, f"SELECT * FROM {table}"))
    assert other.execute(f"SELECT * FROM {table}").fetchall() == before
    other.close()


# --------------------------------------------------------------------------------- runs


def test_a_run_goes_on_with_the_seed_of_the_last_one_like_it(store: Store) -> None:
    first = store.begin_run("optimize", PROBLEM, TARGET)
    assert store.begin_run("optimize", PROBLEM, TARGET).seed == first.seed
    assert store.begin_run("optimize", PROBLEM, TARGET, seed=7).seed == 7
    assert store.begin_run("optimize", PROBLEM, TARGET).seed == 7
    other = store.begin_run("optimize", replace(PROBLEM, name="other"), TARGET, seed=8)
    assert store.begin_run("optimize", PROBLEM, TARGET).seed == 7
    assert [run.id for run in store.runs()] == [1, 2, 3, 4, 5, 6]
    assert store.runs(problem=other.problem) == (other,)


# --------------------------------------------------------------- opening and migrations


def test_everything_is_there_after_opening_again(path: Path) -> None:
    with Store(path) as first:
        fill(first, 3)
    with Store(path) as second:
        assert [r.candidate for r in second.records()] == [digest(candidate(n)) for n in range(3)]
        assert second.verify() == ()
    db = raw(path)
    assert [name for (name,) in db.execute("SELECT name FROM migration")] == [m.__name__ for m in MIGRATIONS]
    db.close()


def test_a_store_of_a_newer_version_is_left_alone(path: Path) -> None:
    Store(path).close()
    db = raw(path)
    db.execute("INSERT INTO migration VALUES ('m999_future', '2030-01-01')")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"newer kernelwright \(it has m999_future\)"):
        Store(path)
    assert path.read_bytes() == before


def test_a_migration_that_fails_leaves_the_store_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(path) as first:
        fill(first, 1)

    def m002_broken(db: sqlite3.Connection) -> None:
        db.execute("CREATE TABLE half (a)")
        raise RuntimeError("planted")

    monkeypatch.setattr("kernelwright.store.migrations.MIGRATIONS", (*MIGRATIONS, m002_broken))
    with pytest.raises(RuntimeError, match="planted"):
        Store(path)
    monkeypatch.undo()
    with Store(path) as again:
        assert again.verify() == ()
        assert list(again.records()) == [record(0)]


def test_another_programs_file_is_not_taken(path: Path) -> None:
    path.parent.mkdir()
    db = raw(path)
    db.execute("CREATE TABLE theirs (a)")
    db.close()
    with pytest.raises(StoreError, match="another program"):
        Store(path)


def test_a_missing_store_is_the_users_fault_where_it_is_only_read(path: Path) -> None:
    with pytest.raises(UserError, match="no store"):
        Store(path, create=False)
    assert not path.exists()


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be made"):
        Store(tmp_path / "file" / "kept.sqlite")
    with pytest.raises(StoreError, match="cannot be used"):
        Store(tmp_path)


def test_a_lock_that_is_never_released_is_said(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store._db.execute("PRAGMA busy_timeout = 50")
    other = raw(path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked by another process"):
        store.put(PROBLEM)
    assert list(store.records()) == []
    other.execute("ROLLBACK")
    other.close()
    assert store.put(PROBLEM)


WRITER = """
import sys
from tests.store.test_store import PROBLEM, TARGET, SCREEN, MEASURE, candidate, record
from kernelwright.store import Store
with Store(sys.argv[1]) as store:
    for item in (PROBLEM, TARGET, SCREEN, MEASURE):
        store.put(item)
    for number in range(60):
        kept = store.append(record(number), candidate(number))
        assert kept == record(number)
    print(store.begin_run("optimize", PROBLEM, TARGET).seed)
"""


def test_several_processes_make_and_fill_one_store(path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    command = [sys.executable, "-c", WRITER, str(path)]
    children = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) for _ in range(3)]
    seeds = [child.communicate(timeout=120)[0] for child in children]
    assert [child.returncode for child in children] == [0, 0, 0]
    assert len(set(seeds)) == 1
    with Store(path) as store:
        assert sorted(r.candidate for r in store.records()) == sorted(digest(candidate(n)) for n in range(60))
        assert store.verify() == ()


# ------------------------------------------------------------------------------- damage


def tampered(path: Path, *statements: str) -> None:
    db = raw(path)
    for name in guards():
        db.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        db.execute(statement)
    db.close()


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE record SET text = replace(text, '100.0', '1.0') WHERE id = 2", "record 2: its text was changed"),
        ("UPDATE record SET passed = 0 WHERE id = 2", "record 2: is listed as something else"),
        ("UPDATE record SET policy = problem WHERE id = 2", "record 2: is listed as something else"),
        ("UPDATE value SET text = replace(text, 'rows', 'cols') WHERE type = 'Problem'", "its text was changed"),
        ("UPDATE value SET digest = 'k1:0' WHERE type = 'Problem'", "value k1:0: its digest is"),
        ("DELETE FROM value WHERE type = 'Target'", "names target"),
        ("UPDATE blob SET data = x'00'", "has other bytes"),
    ],
)
def test_verify_names_what_was_tampered_with(path: Path, statement: str, named: str) -> None:
    with Store(path) as store:
        fill(store, 3)
        store.put_blob(b"bytes")
        assert store.verify() == ()
    tampered(path, statement)
    found = examine(path)
    assert any(named in line for line in found), found
    assert any("guard: trigger record_refuses_UPDATE was removed" in line for line in found)


def test_a_changed_text_with_a_matching_checksum_still_has_the_wrong_digest(path: Path) -> None:
    with Store(path) as store:
        fill(store, 1)
    text = codec.dumps(replace(TARGET, threads=64))
    tampered(
        path,
        f"UPDATE value SET text = '{text}', sha256 = '{hashlib.sha256(text.encode()).hexdigest()}'"
        " WHERE type = 'Target'",
    )
    assert any("its digest is" in line for line in examine(path))


def test_a_file_that_is_no_store_is_kept_and_said(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"these are not the bytes of a store, " * 200)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="doctor --store"):
        Store(path)
    assert "not a database" in examine(path)[0]
    assert path.read_bytes() == before


def damage(path: Path) -> None:
    """Overwrites pages in the middle of a store's file."""
    data = bytearray(path.read_bytes())
    page = 4096
    assert len(data) > 40 * page
    for number in range(30, len(data) // page, 9):
        data[number * page : number * page + page] = b"\xa5" * page
    path.write_bytes(bytes(data))


def test_a_damaged_file_loses_nothing_that_can_still_be_read(path: Path, tmp_path: Path) -> None:
    with Store(path) as store:
        fill(store, 80)
    damage(path)
    before = path.read_bytes()
    with Store(path) as broken, pytest.raises(StoreError, match="doctor --store"):
        [broken.get(digest(candidate(number))) for number in range(80)]
    assert any(line.startswith("integrity") for line in examine(path))
    saved = salvage(path, tmp_path / "saved.sqlite")
    assert 0 < saved.records < 80
    with Store(tmp_path / "saved.sqlite") as fresh:
        assert fresh.verify() == ()
        kept = list(fresh.records())
        assert len(kept) == saved.records
        assert set(map(digest, kept)) <= {digest(record(n)) for n in range(80)}
    assert path.read_bytes() == before


def test_where_nothing_can_be_saved_that_is_said(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError, match=r"nothing can be saved: .*--out"):
        salvage(path, tmp_path / "saved.sqlite")
    assert not (tmp_path / "saved.sqlite").exists()


def test_a_sound_store_is_salvaged_whole(path: Path, tmp_path: Path) -> None:
    with Store(path) as store:
        fill(store, 5)
        store.put_blob(b"bytes")
    saved = salvage(path, tmp_path / "saved.sqlite")
    assert saved == Salvage(values=9, records=5, blobs=1, lost=0)
    with pytest.raises(UserError, match="exists already"):
        salvage(path, tmp_path / "saved.sqlite")


def test_errors_say_what_to_do_next(path: Path) -> None:
    Store(path).close()
    for error in (sqlite3.OperationalError("disk full"), sqlite3.DatabaseError("malformed")):
        found = connection_module._store_error(error, path)
        assert isinstance(found, KernelwrightError)
        assert found.fix
