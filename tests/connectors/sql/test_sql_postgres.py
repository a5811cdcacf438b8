"""Against PostgreSQL: these run where its server, sqlalchemy and psycopg are installed."""

import decimal
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ingestor.connectors.sql.connector import PLUGIN, Sql, SqlOptions
from ingestor.ports import NeedsHuman, Transient
from tests.connectors.databases import PostgresWorld, watched
from tests.connectors.laws import ConnectorLaws, fetched, listed, watching
from tests.connectors.proxy import Proxy, before
from tests.connectors.servers import HOST, PASSWORD, Running, postgres_server

pytest.importorskip("sqlalchemy")
pytest.importorskip("psycopg")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def proxy(server: Running) -> Iterator[Proxy]:
    with before(server.port) as proxy:
        yield proxy


@pytest.fixture(
    params=[{"version": "version"}, {"version": None}, {"cursor": "version", "poll": "50ms"}],
    ids=["version", "whole rows", "cursor"],
)
def world(server: Running, proxy: Proxy, request: pytest.FixtureRequest) -> PostgresWorld:
    world = PostgresWorld(server.folder, server.port, proxy, **request.param)
    listed(world.connector)  # its connection stands, and with it the proxy's threads, which no watch leaves
    return world


@pytest.fixture
def versioned(server: Running, proxy: Proxy) -> PostgresWorld:
    return PostgresWorld(server.folder, server.port, proxy)


class TestLaws(ConnectorLaws):
    pass


TYPES = {
    "number": ("BIGINT", "42"), "changed": ("TIMESTAMPTZ", "'2023-11-14 23:13:20.5+01'"),
    "price": ("NUMERIC(10, 2)", "19.90"), "picture": ("BYTEA", "'\\x00ff'"),
    "facts": ("JSONB", """'{"a": [1, null]}'"""), "day": ("DATE", "'2024-02-29'"),
    "flag": ("BOOLEAN", "true"), "tags": ("TEXT[]", "'{x,y}'"), "nothing": ("TEXT", "NULL"),
    "id": ("UUID", "'6ba7b810-9dad-11d1-80b4-00c04fd430c8'"),
}  # fmt: skip


def _typed(world: PostgresWorld, **more: Any) -> Sql:
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in TYPES.items())
    values = ", ".join(value for _, value in TYPES.values())
    world.do(f"CREATE TABLE typed_{world.table} ({columns}); GRANT SELECT ON typed_{world.table} TO reader")
    world.do(f"INSERT INTO typed_{world.table} VALUES ({values})")
    text = "{price} | {facts} | {day} | {flag} | {tags} | {nothing} | {changed}"
    options = {"query": f"SELECT * FROM typed_{world.table}", "key": "id", "version": "changed", "text": text}
    return Sql(SqlOptions.model_validate({**world.source, "file_name": "{key}.md", **options, **more}))


@pytest.mark.parametrize("version", ["changed", None])
def test_column_of_each_type_becomes_metadata_and_text(versioned: PostgresWorld, version: str | None) -> None:
    shown = [name for name in TYPES if name != "picture"]
    connector = _typed(versioned, metadata=shown, version=version)
    [item] = listed(connector).values()
    assert item == listed(connector)[item.key]
    assert item.key == TYPES["id"][1].strip("'")
    assert item.modified == (1_700_000_000.5 if version else None)
    extra = dict(item.extra)
    assert extra["changed"].startswith("2023-11-14T")  # type: ignore[union-attr]
    assert decimal.Decimal(str(extra["price"])) == decimal.Decimal("19.90")
    assert (extra["number"], extra["flag"], extra["nothing"], extra["day"]) == (42, True, None, "2024-02-29")
    price, facts, day, flag, tags, nothing, _ = fetched(connector, item).data.decode().split(" | ")
    assert (price, day, flag, nothing) == ("19.90", "2024-02-29", "True", "")
    assert json.loads(facts.replace("'", '"').replace("None", "null")) == {"a": [1, None]}
    assert "x" in tags


@pytest.mark.parametrize("key", ["number", "id", "Key"])
def test_keys_and_bytes_of_every_kind_are_read_unchanged(versioned: PostgresWorld, key: str) -> None:
    versioned.put("a%/_\\b", b"\x00\xff")
    connector = versioned.connector if key == "Key" else _typed(versioned, key=key, text="{picture}")
    [item] = listed(connector).values()
    assert connector.fetch(item).data == b"\x00\xff"


@pytest.mark.parametrize("change", ["""DELETE FROM {} WHERE "Key" = '2500'""", "UPDATE {} SET version = 9"])
def test_listing_shows_one_moment(versioned: PostgresWorld, change: str) -> None:
    """More rows than are taken at once, some of which change after the first came."""
    versioned.do(f"INSERT INTO {versioned.table} SELECT n::text, 'x', 7 FROM generate_series(1, 3000) n")
    before = listed(versioned.connector)
    scan = versioned.connector.scan()
    first = next(scan)
    versioned.do(change.format(versioned.table))
    assert {item.key: item for item in (first, *scan)} == before
    assert listed(versioned.connector) != before


def test_server_that_is_killed_is_read_and_watched_again(versioned: PostgresWorld, server: Running) -> None:
    url = f"postgresql+psycopg://reader@{HOST}:{server.port}/postgres"
    given = {**versioned.source, "url": url, "cursor": "version", "poll": "50ms"}
    connector = PLUGIN.build(SqlOptions.model_validate(given))
    versioned.do(f"INSERT INTO {versioned.table} SELECT n::text, repeat('x', 999)::bytea, 7 FROM "
                 "generate_series(1, 20000) n")  # fmt: skip
    before = listed(connector)
    scan = versioned.connector.scan()
    next(scan)
    with watching(connector) as hints:
        server.kill()
        with pytest.raises(Transient, match="now, will be retried"):
            list(scan)
        with pytest.raises(Transient, match="now, will be retried"):
            connector.fetch(before["1"])
        server.start()
        assert listed(connector) == before
        versioned.do(f"INSERT INTO {versioned.table} VALUES ('b.md', 'two', 8)")
        hints.await_cover("b.md")
        assert hints.unders() == ["b.md"]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("TIMESTAMPTZ", ("2024-10-27 02:30:00.000001+02", "2024-10-27 02:30:00.000001+01")),
        ("TIMESTAMP", ("2024-01-01", "2024-01-01 00:00:00.000001")),
        ("NUMERIC", ("9.5", "10.25")),
        ("BIGINT", ("9", "10000000000")),
        ("TEXT", ("a:b", "a:c")),
        ("BYTEA", ("\\x00ff", "\\x0100")),
        ("UUID", ("0190a000-0000-7000-8000-000000000000", "0190a000-0000-7000-8000-000000000001")),
    ],
)
def test_columns_of_every_kind_can_grow(versioned: PostgresWorld, kind: str, values: tuple[str, str]) -> None:
    """The times are of the hour that a clock shows twice."""
    table = f"growing_{versioned.table}"
    versioned.do(f"CREATE TABLE {table} (id BIGINT, at {kind}); GRANT SELECT ON {table} TO reader")
    versioned.do("ALTER ROLE reader SET timezone TO 'Europe/Berlin'")
    given = {**versioned.source, "query": f"SELECT * FROM {table}", "key": "id", "version": "at"}
    given |= {"cursor": "at", "poll": "50ms", "text": "{at}"}
    connector = PLUGIN.build(SqlOptions.model_validate(given))
    versioned.do(f"INSERT INTO {table} VALUES (1, %s::{kind}), (2, NULL)", values[0])
    assert listed(connector).keys() == {"1", "2"}
    with watching(connector) as hints:
        versioned.do(f"INSERT INTO {table} VALUES (3, %s::{kind})", values[1])
        hints.await_cover("3")
        versioned.do(f"INSERT INTO {table} VALUES (4, %s::{kind})", values[1])
        hints.await_cover("4")
        assert hints.unders() == ["3", "4"]
    assert [item.key for item in connector.scan_under("4")] == ["4"]


def test_row_is_read_by_the_index(versioned: PostgresWorld) -> None:
    versioned.do(f"INSERT INTO {versioned.table} SELECT n::text, 'x', n FROM generate_series(1, 9) n")
    connector = versioned.connector
    listed(connector)
    statements = watched(connector.database.engine)
    assert [item.key for item in connector.scan_under("5")] == ["5"]
    versioned.put("5/1", b"one")
    assert "LIKE" not in statements[0]
    listed(connector)
    assert {item.key for item in connector.scan_under("5")} == {"5", "5/1"}
    assert "LIKE" in statements[2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("ALTER ROLE reader NOLOGIN", "not permitted to log in"),
        ("REVOKE SELECT ON {} FROM reader", "permission denied"),
        ("ALTER TABLE {} DROP COLUMN body", "does not exist"),
    ],
)
def test_server_error_needs_a_person(versioned: PostgresWorld, change: str, message: str) -> None:
    versioned.put("a.md", b"one")
    assert listed(versioned.connector)
    versioned.do(change.format(versioned.table))
    versioned.proxy.drop()
    with pytest.raises(NeedsHuman, match=message) as caught:
        listed(versioned.connector)
    assert PASSWORD not in str(caught.value)


def test_server_without_an_answer_raises_at_the_time_limit(
    versioned: PostgresWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingestor.connectors.sql.connector._SECONDS", 2)
    versioned.proxy.silent = True
    with ThreadPoolExecutor(1) as pool, pytest.raises(Transient):
        pool.submit(list, versioned.connector.scan()).result(60)
