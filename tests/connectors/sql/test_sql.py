"""Against SQLite. These run where sqlalchemy is installed, but for those of the options."""

import re
import sqlite3
import sys
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ingestor.connectors.sql.connector import (
    _BY_NAME,
    LIMIT,
    PLUGIN,
    Mark,
    Sql,
    SqlOptions,
    keys_of_changes,
    mark_of,
)
from ingestor.model import Item
from ingestor.ports import BadDocument, NeedsHuman, Scoped, Stale, Transient, Watchable
from tests.connectors.databases import DatabaseWorld, watched
from tests.connectors.laws import ConnectorLaws, broken_off, covers, listed, watching

PLAIN = {"url": "sqlite:////x.db", "query": "SELECT * FROM x", "key": "id", "text": "{body}"}


@pytest.fixture
def database() -> None:
    pytest.importorskip("sqlalchemy")


def against_sqlite(test: Any) -> Any:
    return pytest.mark.slow(pytest.mark.usefixtures("database")(test))


@against_sqlite
class TestLaws(ConnectorLaws):
    @pytest.fixture(
        params=[{"version": "version"}, {"version": None}, {"cursor": "version", "poll": "50ms"}],
        ids=["version", "whole rows", "cursor"],
    )
    def world(self, tmp_path: Path, request: pytest.FixtureRequest) -> DatabaseWorld:
        return DatabaseWorld(tmp_path, **request.param)


@against_sqlite
def test_text_is_read_of_what_is_fetched_alone(tmp_path: Path) -> None:
    world = DatabaseWorld(tmp_path, uri="https://example.org/{number}")
    world.put("a.md", b"one")
    before = listed(world.connector)["a.md"]
    assert (before.extra, before.uri) == ((("author", "Ada"),), "https://example.org/1")
    statements = watched(world.connector.database.engine)
    listed(world.connector)
    assert len(statements) == 1 and statements[0].endswith(
        "FROM (SELECT * FROM documents WHERE author != ':nobody' ) documents"
    )
    assert " body" not in statements[0]
    world.connector.fetch(before)
    assert statements[1].startswith("SELECT *") and statements[1].endswith('WHERE "Key" = ?')
    world.do("UPDATE documents SET author = 'Eve'")
    after = listed(world.connector)["a.md"]
    assert (after.version != before.version, after.extra) == (True, (("author", "Eve"),))
    with pytest.raises(Stale):
        world.connector.fetch(before)


@against_sqlite
def test_templates_and_whole_numbers_as_keys(tmp_path: Path) -> None:
    options = {"key": "number", "file_name": "{key}.md", "text": "# {Key}\n\n{body}{at}\n"}
    world = DatabaseWorld(tmp_path, **options)
    for key in ("one", "two"):
        world.put(key, b"words")
    items = listed(world.connector)
    assert items.keys() == {"1", "2"}
    blob = world.connector.fetch(items["2"])
    assert (blob.data, blob.name) == (b"# two\n\nwords\n", "2.md")


@pytest.mark.parametrize(("cursor", "watchable"), [(None, False), ("at", True)])
def test_only_with_a_cursor_it_can_be_watched(cursor: str | None, watchable: bool) -> None:
    connector = PLUGIN.build(SqlOptions.model_validate({**PLAIN, "cursor": cursor}))
    assert isinstance(connector, Scoped)
    assert isinstance(connector, Watchable) == watchable


CROWD = [(str(number), 7) for number in range(LIMIT)]
OF_TWO = Mark(7, frozenset({"a", "b"}))


@pytest.mark.parametrize(
    ("before", "rows", "mark", "keys"),
    [
        (Mark(), [], Mark(), set()),
        (Mark(), [("a", 7), ("b", 7), ("c", 6)], OF_TWO, {"a", "b", "c"}),
        (OF_TWO, [("a", 7), ("b", 7)], OF_TWO, set()),
        (OF_TWO, [("c", 7), ("a", 7), ("b", 7)], Mark(7, frozenset("abc")), {"c"}),
        (OF_TWO, [("a", 8), ("b", 7)], Mark(8, frozenset("a")), {"a"}),
        (OF_TWO, [("c", 9), ("a", 8)], Mark(9, frozenset("c")), {"a", "b", "c"}),
        (OF_TWO, CROWD, Mark(7, crowded=True), {""}),
        (OF_TWO, [("z", 8), *CROWD[1:]], Mark(8, frozenset("z")), {""}),
        (Mark(7, crowded=True), [("a", 8)], Mark(8, frozenset("a")), {"a"}),
    ],
)
def test_position_of_reading_is_reported(
    before: Mark, rows: list[tuple[str, object]], mark: Mark, keys: set[str]
) -> None:
    assert (mark_of(rows), keys_of_changes(before, rows)) == (mark, keys)


def polled(tmp_path: Path, **more: object) -> DatabaseWorld:
    return DatabaseWorld(tmp_path, **{"cursor": "version", "poll": "20ms", **more})


def put_many(world: DatabaseWorld, count: int, version: int) -> None:
    counted = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)"
    columns = 'INSERT INTO documents ("Key", body, version, author)'
    world.do(f"{columns} {counted} SELECT 'many' || n, 'x', ?, 'Ada' FROM n", count, version)


@against_sqlite
def test_poll_reads_what_was_written_alone(tmp_path: Path) -> None:
    world = polled(tmp_path)
    for name in "abcdefgh":
        world.put(name, b"one")
    listed(world.connector)
    newest, read = world.connector.newest, []
    with watching(world.connector) as hints:
        mark = mark_of(newest(Mark()))
        world.put("b", b"two")
        world.put("i", b"one")
        hints.await_cover("b", "i")
        hints.forget()
        read = newest(mark)
        statements = watched(world.connector.database.engine)
        world.put("a", b"two")
        hints.await_cover("a")
        assert hints.unders() == ["a"]
    assert read == [("i", 10), ("b", 9), ("h", 8)]
    assert set(statements) == {
        "SELECT \"Key\", version FROM (SELECT * FROM documents WHERE author != ':nobody' ) documents "
        "WHERE version >= ? ORDER BY version DESC LIMIT ? OFFSET ?"
    }


@against_sqlite
def test_rows_without_a_value_are_left_to_listings(tmp_path: Path) -> None:
    world = polled(tmp_path)
    world.put("a", b"one")
    world.do("UPDATE documents SET version = NULL")
    with watching(world.connector) as hints:
        put_many(world, 3, 5)
        hints.await_cover("many1", "many2", "many3")
        world.do("UPDATE documents SET version = NULL WHERE number = 2")
        world.put("b", b"one")
        world.do("UPDATE documents SET version = 6 WHERE \"Key\" = 'b'")
        hints.await_cover("b")
        assert not any(covers(under, "a") for under in hints.unders())
    assert listed(world.connector).keys() == {"a", "b", "many1", "many2", "many3"}


@against_sqlite
def test_many_rows_written_at_once_have_all_listed_once(tmp_path: Path) -> None:
    world = polled(tmp_path)
    with watching(world.connector) as hints:
        put_many(world, LIMIT + 1, 7)
        hints.await_cover("")
        assert hints.unders() == [""]
        hints.forget()
        world.do("UPDATE documents SET version = 8 WHERE number = 1")
        hints.await_cover("many1")
        assert hints.unders() == ["many1"]


@against_sqlite
def test_table_refilled_with_a_restarted_cursor_is_listed(tmp_path: Path) -> None:
    world = polled(tmp_path)
    put_many(world, 5, 900)
    with watching(world.connector) as hints:
        world.do("DELETE FROM documents")
        hints.await_cover("")
        hints.forget()
        world.put("a", b"one")
        hints.await_cover("a")
        assert hints.unders() == ["a"]


@against_sqlite
def test_watch_continues_when_the_table_comes_back(tmp_path: Path) -> None:
    world = polled(tmp_path)
    world.do("ALTER TABLE documents RENAME TO away")
    with watching(world.connector) as hints:
        world.do("ALTER TABLE away RENAME TO documents")
        hints.await_cover("")
        hints.forget()
        world.put("a", b"one")
        hints.await_cover("a")


@against_sqlite
@pytest.mark.parametrize("key", ["number", "Key"])
def test_part_with_the_key_of_one_row_is_that_row(tmp_path: Path, key: str) -> None:
    world = polled(tmp_path, key=key)
    for name in ("1", "2", "2_", "2%", "[2]", "1/\\x", "1/y%", "1/y%/z", "A"):
        world.put(name, b"one")
    whole = listed(world.connector)
    for under in (*whole, "1/y", "a", "01", " 1", "x", "1/x"):
        part = {item.key: item for item in world.connector.scan_under(under)}
        assert part == {name: item for name, item in whole.items() if covers(under, name)}, under


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(datetime(2023, 11, 14, 22, 13, 20), 1_700_000_000.0), (7, None), ("2023-11-14 22:13:20", None),
     (datetime(2023, 11, 14, 23, 13, 20, tzinfo=timezone(timedelta(hours=1))), 1_700_000_000.0),
     (None, None)],
)  # fmt: skip
def test_time_as_version_is_when_it_was_modified(value: object, seconds: float | None) -> None:
    connector = Sql(SqlOptions.model_validate({**PLAIN, "version": "changed"}))
    assert connector._item({"id": 3, "changed": value}).modified == seconds


@pytest.mark.parametrize("key", [3, "three", UUID(int=3)])
def test_key_comes_back_as_it_was(key: object) -> None:
    item = Sql(SqlOptions.model_validate(PLAIN))._item({"id": key, "body": "x"})
    assert _BY_NAME[item.version.split()[0]](item.key) == key


@against_sqlite
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"query": "SELECT * FROM nowhere"}, "no such table"),
        ({"query": "SELECT 1 +"}, "check `url`, `password` and `query`"),
        ({"version": "nowhere"}, "no such column"),
        ({"cursor": "nowhere"}, "no such column"),
        ({"key": "author"}, "in two rows"),
        ({"version": None, "key": "KEY"}, "the query returns no column 'KEY'"),
        ({"key": "at"}, "`key` must be whole numbers, texts or UUIDs"),
        ({"version": None, "metadata": ["nothing"]}, "the query returns no column 'nothing'"),
        ({"url": "nonsense://x"}, "can't be read"),
        ({"url": "postgresql+pg8000://h/x"}, "-m pip install pg8000"),
        ({"text": "{nothing}"}, "the query returns no column 'nothing'"),
        ({"file_name": "{nothing}"}, "the query returns no column 'nothing'"),
    ],
)
def test_database_error_needs_a_person(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    """Templates are used by a fetch alone if there is a version column."""
    world = DatabaseWorld(tmp_path, **options)
    world.put("a.md", b"one")
    world.put("b.md", b"two")
    with pytest.raises(NeedsHuman, match=message):
        world.connector.fetch(listed(world.connector)["a.md"])


@against_sqlite
@pytest.mark.parametrize("version", ["version", None])
def test_row_without_a_key_of_its_own_is_named(tmp_path: Path, version: str | None) -> None:
    world = DatabaseWorld(tmp_path, version=version)
    for name in ("a", "b"):
        world.put(name, b"one")
    insert = "INSERT INTO documents (\"Key\", body, version, author) VALUES (?, 'x', 9, ?)"
    for key in (None, b"\xff", "", "k" * 2000):
        world.do(insert, key, f"author of {key!s:.5}")
        found, error = broken_off(world.connector)
        assert re.match(r"row 3 \(.*author of .*\): column Key ", str(error))
        assert (sorted(found), error.unknown) == (["a", "b"], ())
        world.do("DELETE FROM documents WHERE author LIKE 'author of %'")


@against_sqlite
def test_key_of_two_rows_is_reported_and_keeps_its_document(tmp_path: Path) -> None:
    world = DatabaseWorld(
        tmp_path, query="SELECT * FROM documents UNION ALL SELECT * FROM documents WHERE \"Key\" = 'b'"
    )
    for name in ("a", "b", "c"):
        world.put(name, b"one")
    found, error = broken_off(world.connector)
    assert "Key is 'b' in two rows" in str(error)
    assert (sorted(found), error.unknown) == (["a", "b", "c"], ("b",))
    with pytest.raises(Transient, match="in two rows"):
        world.connector.fetch(found["b"])


@against_sqlite
def test_busy_database_is_retried_later(tmp_path: Path) -> None:
    query = "SELECT * FROM documents -- all of them"
    world = DatabaseWorld(tmp_path, url=f"sqlite:///{tmp_path}/documents.db?timeout=0.1", query=query)
    world.put("a.md", b"one")
    with closing(sqlite3.connect(world.file, isolation_level=None)) as blocking:
        blocking.execute("BEGIN EXCLUSIVE")
        with pytest.raises(Transient, match="can't be read now"):
            listed(world.connector)
    assert world.connector.fetch(listed(world.connector)["a.md"]).data == b"one"


@against_sqlite
def test_rows_without_end_need_a_person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingestor.connectors.sql.connector._MOST_ROWS", 500)
    query = (
        "SELECT * FROM (WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n)"
        ' SELECT id AS "Key", id AS version, id AS body, id AS author FROM n)'
    )
    world = DatabaseWorld(tmp_path, query=query)
    with pytest.raises(NeedsHuman, match="more than 500 rows"):
        listed(world.connector)


@against_sqlite
def test_row_of_many_megabytes_fails_alone(tmp_path: Path) -> None:
    world = DatabaseWorld(tmp_path, max_size=1_000_000)
    world.put("large.md", b"x" * 60_000_000)
    world.put("a.md", b"sound")
    items = listed(world.connector)
    with pytest.raises(BadDocument, match=r"60,000,000 bytes are more than max_size \(1,000,000"):
        world.connector.fetch(items["large.md"])
    assert world.connector.fetch(items["a.md"]).data == b"sound"
    world = DatabaseWorld(tmp_path / "keys")
    world.put("k" * 10_000_000, b"x")
    with pytest.raises(NeedsHuman, match="more than 1,000 characters"):
        listed(world.connector)


def test_sqlalchemy_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sqlalchemy", "sqlalchemy.exc"):
        monkeypatch.setitem(sys.modules, name, None)
    plain = Sql(SqlOptions.model_validate(PLAIN))
    watched = PLUGIN.build(SqlOptions.model_validate({**PLAIN, "cursor": "changed"}))
    deeds = (
        lambda: list(plain.scan()),
        lambda: plain.fetch(Item("1", "int x", "")),
        lambda: list(watched.scan()),
        lambda: watched.newest(Mark()),
    )
    for deed in deeds:
        with pytest.raises(NeedsHuman, match="-m pip install sqlalchemy"):
            deed()
