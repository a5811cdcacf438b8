"""A lexical index that is missing, foreign, damaged or out of step is made again from Chroma."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from ingestor.engine.edition_store import EditionIndex
from ingestor.lexical import file as lexical_file
from ingestor.lexical.check import Words, words_of
from ingestor.lexical.file import LexicalFile, LexicalReaders, Unusable, open_for_reading
from ingestor.lexical.filling import Filling, Upkeep
from ingestor.lexical.index import LexicalIndex
from ingestor.lexical.ranking import rank_by_words
from ingestor.ports import NeedsHuman, Transient
from tests.chroma.laws import many, record
from tests.lexical.worlds import OneCollection, finish, in_step, opened
from tests.memory_index import MemoryIndex

NAME = "lexical.sqlite3"


@pytest.fixture
def store() -> OneCollection:
    dense = MemoryIndex()
    dense.upsert([*many(1200), record("en#0", "running", 1, language="en")])
    return OneCollection(dense)


@contextmanager
def upkept(store: OneCollection, path: Path) -> Iterator[tuple[LexicalFile, Upkeep, EditionIndex]]:
    with opened(path) as file:
        upkeep = store.upkeep(file)
        yield file, upkeep, store.open(upkeep)


def filled(store: OneCollection, path: Path) -> None:
    with upkept(store, path) as (file, upkeep, _):
        finish(upkeep)
        lexical = LexicalIndex(file, store.uuids)
        assert lexical.complete
        in_step(store.dense, lexical)


def test_index_is_filled_in_slices_and_complete_at_the_end(store: OneCollection, tmp_path: Path) -> None:
    with upkept(store, tmp_path / NAME) as (file, upkeep, index):
        lexical = LexicalIndex(file, store.uuids)
        for _ in range(3):
            upkeep.work()
        assert 0 < lexical.count() < 1201
        assert not lexical.complete
        index.drop(["doc0#0", "doc1#0", "doc170#0"])  # while it is under way
        index.upsert([record("new#0", "new"), record("doc2#0", "other")])
        finish(upkeep)
        assert lexical.complete
        in_step(store.dense, lexical)


def test_second_opening_fills_nothing(store: OneCollection, tmp_path: Path, monkeypatch) -> None:
    filled(store, tmp_path / NAME)
    monkeypatch.setattr(MemoryIndex, "ids", None)
    with upkept(store, tmp_path / NAME) as (file, upkeep, _):
        finish(upkeep)
        assert LexicalIndex(file, store.uuids).complete


def overwrite(size: int) -> Callable[[OneCollection, Path], object]:
    return lambda store, path: path.write_bytes(b"x" * size + path.read_bytes()[size:])


def replace_by_another_programs_database(store: OneCollection, path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE collections (other)")


def write_to_chroma_alone(store: OneCollection, path: Path) -> None:
    store.dense.upsert([record("new#0", "new")])
    store.dense.drop(["doc0#0", "doc0#1"])


@pytest.mark.parametrize(
    "harm",
    [*map(overwrite, (0, 100, 4096, 10_000)), replace_by_another_programs_database, write_to_chroma_alone],
)
def test_index_that_is_damaged_foreign_or_out_of_step_is_filled_again(
    store: OneCollection, tmp_path: Path, harm: Callable[[OneCollection, Path], object]
) -> None:
    filled(store, tmp_path / NAME)
    harm(store, tmp_path / NAME)
    filled(store, tmp_path / NAME)


def test_file_overwritten_beneath_an_idle_writer_is_filled_again(
    store: OneCollection, tmp_path: Path
) -> None:
    """The WAL has the beginning of the file, so that readers find its version and no fault."""
    path = tmp_path / NAME
    filled(store, path)
    with upkept(store, path) as (file, upkeep, index):
        finish(upkeep)
        index.upsert([record(f"new{number}#0", "new") for number in range(100)])
        path.write_bytes(b"damage" * 1000)
        with words_of(open_for_reading(path), store.uuids) as words:
            assert words.sound() == Words()
        with file.transaction():
            pass
        for _ in range(10):
            upkeep.work()
        finish(upkeep)
        assert file.renewals == 1
        in_step(store.dense, LexicalIndex(file, store.uuids))


def test_index_out_of_step_is_incomplete_until_it_is_filled(store: OneCollection, tmp_path: Path) -> None:
    filled(store, tmp_path / NAME)
    write_to_chroma_alone(store, tmp_path / NAME)
    with upkept(store, tmp_path / NAME) as (file, upkeep, _):
        upkeep.work()
        assert not LexicalIndex(file, store.uuids).complete


def test_file_of_other_rules_is_rebuilt(store: OneCollection, tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / NAME
    filled(store, path)
    monkeypatch.setattr(lexical_file.rules, "VERSION", 99)
    with pytest.raises(Unusable), open_for_reading(path):
        pass
    with opened(path) as file:
        assert file.collections() == set()
    filled(store, path)


@pytest.mark.parametrize("harm", ["delete", "replace"])
def test_removed_file_is_rebuilt(store: OneCollection, tmp_path: Path, harm: str) -> None:
    path = tmp_path / NAME
    with upkept(store, path) as (file, upkeep, index):
        finish(upkeep)
        path.unlink()
        if harm == "replace":
            path.write_bytes(b"")
        index.upsert([record("new#0", "new")])
        finish(upkeep)
        in_step(store.dense, LexicalIndex(file, store.uuids))
        assert LexicalIndex(file, store.uuids).complete
    filled(store, path)


def test_locked_file_is_retried_later(store: OneCollection, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(lexical_file, "PATIENCE", 0)
    with upkept(store, tmp_path / NAME) as (_, _, index):
        other = sqlite3.connect(tmp_path / NAME, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Transient, match="lexical index"):
            index.upsert([record("new#0", "new")])
        other.close()
        index.upsert([record("new#0", "new")])


def test_file_lost_while_words_are_mended_is_filled_for_every_collection(
    store: OneCollection, tmp_path: Path
) -> None:
    path = tmp_path / NAME
    with upkept(store, path) as (file, upkeep, _):
        finish(upkeep)
        path.unlink()
        upkeep.mend(("another",), [])
        finish(upkeep)
        assert LexicalIndex(file, store.uuids).complete
        in_step(store.dense, LexicalIndex(file, store.uuids))


def test_full_disk_while_it_is_rebuilt_is_retried_later(
    store: OneCollection, tmp_path: Path, monkeypatch
) -> None:
    path, inode = tmp_path / NAME, tmp_path / "inode"

    def full(self: LexicalFile) -> sqlite3.Connection:
        os.link(inode, path)  # SQLite made a file, and ext4 often gives it the number that just became free
        raise sqlite3.OperationalError("database or disk is full")

    with upkept(store, path) as (_, _, index):
        os.link(path, inode)
        os.truncate(inode, 0)
        path.unlink()
        with monkeypatch.context() as disk:
            disk.setattr(LexicalFile, "_connect", full)
            for _ in range(2):
                with pytest.raises(Transient, match="disk is full"):
                    index.upsert([record("new#0", "new")])
        index.upsert([record("new#0", "new")])
    filled(store, path)


def test_deleted_collections_are_forgotten(store: OneCollection, tmp_path: Path) -> None:
    with upkept(store, tmp_path / NAME) as (file, upkeep, _):
        finish(upkeep)
        assert file.collections() == {store.uuids}
        store.there, upkeep.sweeping = False, True
        finish(upkeep)
        assert file.collections() == set()


def test_error_of_chroma_does_not_end_the_daemon(store: OneCollection, tmp_path: Path, monkeypatch) -> None:
    with upkept(store, tmp_path / NAME) as (file, upkeep, _):
        with monkeypatch.context() as away:
            away.setattr(MemoryIndex, "read", None)
            for _ in range(9):
                upkeep.work()
        for _ in range(40):
            upkeep.work()
        finish(upkeep)
        in_step(store.dense, LexicalIndex(file, store.uuids))


def test_words_are_read_while_they_are_written(store: OneCollection, tmp_path: Path) -> None:
    path = tmp_path / NAME
    with opened(path) as file, file.transaction(), open_for_reading(path) as db:
        assert db.execute("SELECT COUNT(*) FROM collections").fetchone() == (0,)
    with pytest.raises(Unusable), open_for_reading(tmp_path / "none"):
        pass


def test_unknown_error_is_logged_once_with_a_traceback(
    store: OneCollection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Filling) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(Filling, "step", fail)
    with upkept(store, tmp_path / NAME) as (_, upkeep, _):
        for _ in range(60):
            upkeep.work()
        assert not upkeep.complete
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "a defect" in caplog.text


def test_damaged_chroma_is_no_unexpected_error(
    store: OneCollection, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Filling) -> None:
        raise NeedsHuman("Chroma's database is damaged")

    monkeypatch.setattr(Filling, "step", refuse)
    with upkept(store, tmp_path / NAME) as (_, upkeep, _):
        upkeep.work()
    assert "Traceback" not in caplog.text
    assert not caplog.records


# --- connections that are kept: of the file that is there now, each for one thread at a time ----------------


def found(readers: LexicalReaders, question: str) -> list[str]:
    with words_of(readers.connect(), ("uuid",)) as words:
        assert words.db is not None
        assert words.number is not None
        return [id_ for id_, _ in rank_by_words(words.db, words.number, question, 9).order]


def test_connection_is_kept_and_sees_what_is_written_later(tmp_path: Path) -> None:
    path = tmp_path / NAME
    with opened(path) as file, closing(LexicalReaders(path)) as readers:
        LexicalIndex(file, ("uuid",)).upsert(
            [record("a#0", "one shelf", 1), record("b#0", "other things", 1)]
        )
        assert found(readers, "shelf") == ["a#0"]
        with readers.connect() as first:
            pass
        LexicalIndex(file, ("uuid",)).upsert([record("b#0", "the other shelf", 1)])
        assert set(found(readers, "shelf")) == {"a#0", "b#0"}
        with readers.connect() as again, readers.connect() as another:
            assert again is first
            assert another is not first


def test_file_that_was_rebuilt_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / NAME
    with closing(LexicalReaders(path)) as readers:
        for text in ("one shelf", "two"):
            with opened(path) as file:
                LexicalIndex(file, ("uuid",)).upsert([record("a#0", text, 1)])
                assert found(readers, text) == ["a#0"]
            for suffix in ("", "-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            with pytest.raises(Unusable), readers.connect():
                pass


def test_connection_that_met_damage_is_not_used_again(tmp_path: Path) -> None:
    path = tmp_path / NAME
    with opened(path) as file, closing(LexicalReaders(path)) as readers:
        LexicalIndex(file, ("uuid",)).upsert([record("a#0", "one shelf", 1)])
        with pytest.raises(Unusable, match="no such table"), readers.connect() as met:
            met.execute("SELECT * FROM elsewhere")
        with readers.connect() as other:
            assert other is not met


def test_file_of_other_rules_is_unusable(tmp_path: Path) -> None:
    path = tmp_path / NAME
    LexicalFile(path).close()
    path.write_bytes(b"damage" * 1000)
    with closing(LexicalReaders(path)) as readers, pytest.raises(Unusable), readers.connect():
        pass
