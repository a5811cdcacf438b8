"""Names as keys, subtrees of keys, and one typing of metadata."""

import os
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ingestor.connectors.programs.loading_child import LoadRequest, facts_of
from ingestor.connectors.shared.keys import cover, escape, is_covered, key_of, names_of, unescape
from ingestor.connectors.shared.typed import scalar
from ingestor.connectors.sql.connector import Sql, SqlOptions

NAMES = st.binary(min_size=1, max_size=30).filter(
    lambda raw: b"/" not in raw and b"\0" not in raw and raw not in (b".", b"..")
)
TRICKY = st.lists(
    st.sampled_from([b"\\", b"x", b"E9", b"\\xE9", b"\\x5C", b"\xe9", "é".encode(), b"\n", b"\xed\xa0\x80"]),
    min_size=1,
    max_size=6,
).map(b"".join)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"plain.md", "plain.md"),
        ("Übung 文.md".encode(), "Übung 文.md"),
        (b"two\nlines", "two\nlines"),
        (b"back\\slash", "back\\slash"),
        (b"caf\xe9", r"caf\xE9"),
        (b"a\\b\xe9", r"a\x5Cb\xE9"),
        (rb"caf\xE9", r"caf\x5CxE9"),
        (rb"caf\xe9", r"caf\xe9"),  # lower case is no escape
        (b"\xed\xa0\x80", r"\xED\xA0\x80"),  # an encoded surrogate is not UTF-8
    ],
)
def test_name_not_in_utf8_is_escaped(raw: bytes, text: str) -> None:
    assert escape(os.fsdecode(raw)) == text


@given(st.lists(NAMES | TRICKY, unique=True, min_size=2))
@example([b"\xe9", rb"\xE9"])
def test_escaping_is_valid_utf8_and_reversible(raws: list[bytes]) -> None:
    texts = [escape(os.fsdecode(raw)) for raw in raws]
    assert all(text.encode("utf-8") for text in texts)
    assert [os.fsencode(unescape(text)) for text in texts] == raws


@given(st.lists(NAMES, max_size=4))
def test_key_leads_back_to_its_names(raws: list[bytes]) -> None:
    names = [os.fsdecode(raw) for raw in raws]
    assert names_of(key_of(names)) == names


def test_key_that_could_lead_elsewhere_is_refused() -> None:
    for key in ("..", "a/../b", "a//b", "/a", "a/", ".", r"a\x2Fb", r"\x2E\x2E", "a\0b"):
        with pytest.raises(ValueError, match="not the key of a file"):
            names_of(key)


KEYS = st.lists(st.sampled_from("abc"), max_size=4).map("/".join)


@pytest.mark.parametrize(
    ("keys", "limit", "expected"),
    [
        ([], 3, []), (["a/b", "a/c"], 3, ["a/b", "a/c"]), (["a/b", "a", "ab"], 3, ["a", "ab"]),
        (["a/b", "a/c", "d"], 2, ["a", "d"]), (["a/b/c", "a/d", "e"], 2, ["a", "e"]), (["a", "b"], 1, [""]),
        (["", "a/b"], 9, [""]),
    ],
)  # fmt: skip
def test_keys_over_the_limit_are_covered_by_ancestors(
    keys: list[str], limit: int, expected: list[str]
) -> None:
    assert cover(keys, limit) == expected


@given(st.sets(KEYS), st.integers(1, 5))
def test_few_disjoint_keys_cover_all_keys(keys: set[str], limit: int) -> None:
    covers = set(cover(keys, limit))
    assert len(covers) <= limit
    assert all(key in covers or is_covered(key, covers) for key in keys)
    assert not any(is_covered(key, covers) for key in covers)


TABLE: tuple[tuple[object, object], ...] = (
    ("a", "a"), (True, True), (7, 7), (2**70, str(2**70)), (1.5, 1.5), (date(2026, 1, 31), "2026-01-31"),
    (datetime(2026, 1, 31, 10, tzinfo=UTC), "2026-01-31T10:00:00+00:00"), (time(10, 30), "10:30:00"),
    (Decimal("12.50"), "12.50"), (UUID(int=3), "00000000-0000-0000-0000-000000000003"),
    (["a", 2, date(2026, 1, 31)], "a, 2, 2026-01-31"), (("a", "b"), "a, b"), ({"b", "a"}, "a, b"),
    ({"b": Decimal(1), "a": [1]}, '{"a": [1], "b": "1"}'), (b"raw", "raw"),
)  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), TABLE)
def test_sql_and_python_type_a_value_alike(value: object, expected: object) -> None:
    sql = Sql(SqlOptions(url="sqlite:///x", query="SELECT 1", key="id", text="{id}", metadata=["field"]))
    row = dict(sql._item({"id": 1, "field": value}).extra)
    request = LoadRequest("m:f", {}, {}, ("id",), ".md")
    facts = facts_of({"key": "k", "text": "t", "metadata": {"field": value}}, 1, request)
    assert row == facts["metadata"] == {"field": expected}


def test_value_without_a_text_of_its_own_is_omitted() -> None:
    assert [scalar(value) for value in (float("nan"), float("inf"), object())] == [None] * 3
