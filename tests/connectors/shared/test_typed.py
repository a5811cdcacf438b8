"""One typing of metadata for rows of databases and documents of Python code, by a table."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import pytest

from ingestor.connectors.programs.loading_child import LoadRequest, facts_of
from ingestor.connectors.shared.typed import scalar
from ingestor.connectors.sql.connector import Sql, SqlOptions

TABLE: tuple[tuple[object, object], ...] = (
    ("a", "a"),
    (True, True),
    (7, 7),
    (2**70, str(2**70)),
    (1.5, 1.5),
    (date(2026, 1, 31), "2026-01-31"),
    (datetime(2026, 1, 31, 10, tzinfo=UTC), "2026-01-31T10:00:00+00:00"),
    (time(10, 30), "10:30:00"),
    (Decimal("12.50"), "12.50"),
    (UUID(int=3), "00000000-0000-0000-0000-000000000003"),
    (["a", 2, date(2026, 1, 31)], "a, 2, 2026-01-31"),
    (("a", "b"), "a, b"),
    ({"b", "a"}, "a, b"),
    ({"b": Decimal(1), "a": [1]}, '{"a": [1], "b": "1"}'),
    (b"raw", "raw"),
)


@pytest.mark.parametrize(("value", "expected"), TABLE)
def test_sql_and_python_type_a_value_alike(value: object, expected: object) -> None:
    sql = Sql(SqlOptions(url="sqlite:///x", query="SELECT 1", key="id", text="{id}", metadata=["field"]))
    row = dict(sql._item({"id": 1, "field": value}).extra)
    request = LoadRequest("m:f", {}, {}, ("id",), ".md")
    facts = facts_of({"key": "k", "text": "t", "metadata": {"field": value}}, 1, request)
    assert row == facts["metadata"] == {"field": expected}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object()])
def test_value_without_a_text_of_its_own_is_left_out(value: object) -> None:
    assert scalar(value) is None
