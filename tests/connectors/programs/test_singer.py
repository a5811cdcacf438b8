"""How streams are chosen in a tap's catalog."""

from pathlib import Path
from typing import Any

import pytest

from ingestor.connectors.programs.child import ProgramFailed
from ingestor.connectors.programs.singer import names_of, record_of, selected, stream_of
from ingestor.ports import NeedsHuman
from tests.connectors.laws import listed
from tests.connectors.taps import made, options_of

ISSUES: dict[str, Any] = {
    "tap_stream_id": "public-issues",
    "stream": "issues",
    "schema": {"properties": {"id": {}}},
    "replication_method": "INCREMENTAL",
    "metadata": [
        {"breadcrumb": ["properties", "id"], "metadata": {"inclusion": "available", "selected": False}},
        {"breadcrumb": [], "metadata": {"selected": False, "replication-method": "INCREMENTAL", "x": 1}},
    ],
}
USERS: dict[str, Any] = {"tap_stream_id": "users", "schema": {}}
EVENTS: dict[str, Any] = {
    "tap_stream_id": "events",
    "stream": "events",
    "metadata": [{"breadcrumb": [], "metadata": {"forced-replication-method": "INCREMENTAL"}}],
}
CATALOG = {"version": 1, "streams": [ISSUES, USERS, EVENTS]}


def test_a_stream_is_chosen_in_full_and_with_all_fields_and_the_others_are_not() -> None:
    issues, users, events = selected(CATALOG, ["issues"])["streams"]
    assert issues == {
        "tap_stream_id": "public-issues",
        "stream": "issues",
        "schema": {"properties": {"id": {}}, "selected": True},
        "selected": True,
        "replication_method": "FULL_TABLE",
        "metadata": [
            {"breadcrumb": [], "metadata": {"selected": True, "replication-method": "FULL_TABLE", "x": 1}},
            {"breadcrumb": ["properties", "id"], "metadata": {"inclusion": "available", "selected": True}},
        ],
    }
    for other in (users, events):
        assert [other["selected"], other["schema"]["selected"]] == [False, False]
        assert other["metadata"][0]["metadata"]["selected"] is False
        assert "replication_method" not in other


def test_what_can_only_come_by_a_bookmark_is_asked_for_so() -> None:
    events = selected(CATALOG, ["events"])["streams"][2]
    about = {"forced-replication-method": "INCREMENTAL", "selected": True}
    assert events["metadata"] == [{"breadcrumb": [], "metadata": about}]
    assert "replication_method" not in events


def test_the_catalog_stays_as_it_is_otherwise() -> None:
    assert selected(CATALOG, ["users"])["version"] == 1
    assert CATALOG["streams"] == [ISSUES, USERS, EVENTS]
    assert ISSUES["metadata"][1]["metadata"]["selected"] is False


@pytest.mark.parametrize(
    ("streams", "names"),
    [
        (["issues"], [{"issues", "public-issues"}]),
        (["public-issues"], [{"issues", "public-issues"}]),
        (["events", "users"], [{"users"}, {"events"}]),
    ],
)
def test_a_stream_has_two_names(streams: list[str], names: list[set[str]]) -> None:
    assert names_of(CATALOG, streams) == names


def test_a_stream_that_is_not_there() -> None:
    with pytest.raises(NeedsHuman, match="no stream isues; it has events, issues, public-issues, users:"):
        names_of(CATALOG, ["isues", "users"])


@pytest.mark.parametrize(
    "message",
    [{"stream": "a"}, {"stream": "a", "schema": None, "key_properties": "id"}, {"stream": "a", "schema": []}],
)
def test_a_schema_that_says_little(message: dict[str, Any]) -> None:
    stream = stream_of(message)
    assert (stream.name, list(stream.key), dict(stream.fields)) == ("a", [], {})
    assert record_of({"stream": "a", "record": {"x": 1}}, {"a": stream}).values == {"x": 1}
    with pytest.raises(ProgramFailed):
        record_of({"stream": "b", "record": {"x": 1}}, {"a": stream})


def test_a_tap_that_knows_no_discovery(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("one")
    assert listed(made("singer", options_of(tmp_path, choose="nothing"))).keys() == {"files/a.md"}
    wrong = made("singer", options_of(tmp_path, choose="nothing", streams=["fils"]))
    with pytest.raises(NeedsHuman, match="sent no fils, but files: correct"):
        next(wrong.scan())


def test_a_tap_that_is_not_reached_by_its_catalog(tmp_path: Path) -> None:
    """This one reads no --properties, and so gives what it gives without."""
    settings = {"root": str(tmp_path), "ill": "silent"}
    connector = made("singer", options_of(tmp_path, settings=settings, choose="properties"))
    with pytest.raises(NeedsHuman, match="sent no files, main-files, but no other stream"):
        next(connector.scan())
