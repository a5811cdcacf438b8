"""Against SQLite. These run where sqlalchemy is installed, but for those of the options."""

import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError

from connectors.sql import _BY_NAME, Sql, SqlOptions
from ingestor.ports import BadDocument, NeedsHuman, Stale, Transient
from tests.connectors.databases import DatabaseWorld
from tests.connectors.laws import ConnectorLaws, listed

PLAIN = {"url": "sqlite:////x.db", "query": "SELECT * FROM x", "key": "id", "text": "{body}"}


@pytest.fixture
def database() -> None:
    pytest.importorskip("sqlalchemy")


@pytest.mark.slow
@pytest.mark.usefixtures("database")
class TestLaws(ConnectorLaws):
    @pytest.fixture(
        params=[{"version": "version"}, {"version": None}, {"cursor": "version", "poll": "50ms"}],
        ids=["version", "whole rows", "cursor"],
    )
    def world(self, tmp_path: Path, request: pytest.FixtureRequest) -> DatabaseWorld:
        return DatabaseWorld(tmp_path, **request.param)


def watched(world: DatabaseWorld) -> list[str]:
    """The statements that its connector runs from now on."""
    from sqlalchemy import event

    statements: list[str] = []
    listed(world.connector)
    event.listen(
        world.connector.database.engine(),
        "before_cursor_execute",
        lambda *given: statements.append(" ".join(given[2].split())),
    )
    return statements


@pytest.mark.slow
@pytest.mark.usefixtures("database")
def test_text_is_read_of_what_is_fetched_alone(tmp_path: Path) -> None:
    world = DatabaseWorld(tmp_path)
    world.put("a.md", b"one")
    statements = watched(world)
    item = listed(world.connector)["a.md"]
    assert statements == [
        "SELECT \"Key\", version, author FROM (SELECT * FROM documents WHERE author != ':nobody') documents"
    ]
    world.connector.fetch(item)
    assert statements[1].startswith("SELECT *") and statements[1].endswith('WHERE "Key" = ?')


@pytest.mark.slow
@pytest.mark.usefixtures("database")
def test_what_a_record_shows_is_part_of_the_version(tmp_path: Path) -> None:
    world = DatabaseWorld(tmp_path, uri="https://example.org/{number}")
    world.put("a.md", b"one")
    before = listed(world.connector)["a.md"]
    assert (before.extra, before.uri) == ((("author", "Ada"),), "https://example.org/1")
    world.do("UPDATE documents SET author = 'Eve'")
    after = listed(world.connector)["a.md"]
    assert after.version != before.version
    assert after.extra == (("author", "Eve"),)
    with pytest.raises(Stale):
        world.connector.fetch(before)


@pytest.mark.slow
@pytest.mark.usefixtures("database")
def test_templates_and_whole_numbers_as_keys(tmp_path: Path) -> None:
    options = {"key": "number", "file_name": "{key}.md", "text": "# {Key}\n\n{body}{at}\n"}
    world = DatabaseWorld(tmp_path, **options)
    for key in ("one", "two"):
        world.put(key, b"words")
    items = listed(world.connector)
    assert items.keys() == {"1", "2"}
    blob = world.connector.fetch(items["2"])
    assert (blob.data, blob.name) == (b"# two\n\nwords\n", "2.md")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (datetime(2023, 11, 14, 22, 13, 20), 1_700_000_000.0),
        (datetime(2023, 11, 14, 23, 13, 20, tzinfo=timezone(timedelta(hours=1))), 1_700_000_000.0),
        (7, None),
        ("2023-11-14 22:13:20", None),
        (None, None),
    ],
)
def test_a_time_as_version_is_when_it_was_modified(value: object, seconds: float | None) -> None:
    connector = Sql(SqlOptions.model_validate({**PLAIN, "version": "changed"}))
    assert connector._item({"id": 3, "changed": value}).modified == seconds


@pytest.mark.parametrize("key", [3, "three", UUID(int=3)])
def test_a_key_comes_back_as_it_was(key: object) -> None:
    item = Sql(SqlOptions.model_validate(PLAIN))._item({"id": key, "body": "x"})
    assert _BY_NAME[item.version.split()[0]](item.key) == key


@pytest.mark.slow
@pytest.mark.usefixtures("database")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"query": "SELECT * FROM nowhere"}, "no such table"),
        ({"query": "SELECT 1 +"}, "check `url`, `password` and `query`"),
        ({"version": "nowhere"}, "no such column"),
        ({"key": "author"}, "in two rows"),
        ({"key": "at"}, "a key is a whole number, text or a UUID"),
        ({"version": None, "metadata": ["nothing"]}, "gives no column 'nothing'"),
        ({"url": "nonsense://x"}, "can't be asked"),
        ({"url": "postgresql+pg8000://h/x"}, "-m pip install pg8000"),
    ],
)
def test_what_needs_a_person(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    world = DatabaseWorld(tmp_path, **options)
    world.put("a.md", b"one")
    world.put("b.md", b"two")
    with pytest.raises(NeedsHuman, match=message):
        listed(world.connector)


@pytest.mark.slow
@pytest.mark.usefixtures("database")
def test_a_database_that_is_busy_is_asked_later(tmp_path: Path) -> None:
    import sqlite3

    world = DatabaseWorld(tmp_path, url=f"sqlite:///{tmp_path}/documents.db?timeout=0.1")
    world.put("a.md", b"one")
    blocking = sqlite3.connect(world.file, isolation_level=None)
    blocking.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(Transient, match="can't be asked just now"):
            listed(world.connector)
    finally:
        blocking.close()
    assert listed(world.connector).keys() == {"a.md"}


@pytest.mark.slow
@pytest.mark.usefixtures("database")
def test_too_large_a_document(tmp_path: Path) -> None:
    world = DatabaseWorld(tmp_path, max_size=10)
    world.put("a.md", b"x" * 11)
    with pytest.raises(BadDocument, match="11 bytes; max_size is 10"):
        world.connector.fetch(listed(world.connector)["a.md"])


def test_sqlalchemy_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sqlalchemy", "sqlalchemy.exc"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(NeedsHuman, match="-m pip install sqlalchemy"):
        list(Sql(SqlOptions.model_validate(PLAIN)).scan())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "/x.db"}, "must be a SQLAlchemy URL"),
        ({"url": "postgresql://me:secret@host/x"}, "put it into `password`"),
        ({"query": "DELETE FROM x"}, "must be a SELECT"),
        ({"text": "no column"}, "must name a column in braces"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SqlOptions.model_validate({**PLAIN, **options})
