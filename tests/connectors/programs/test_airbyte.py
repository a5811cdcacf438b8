"""How streams are chosen in a source's catalog, and what its messages mean."""

from typing import Any

import pytest

from ingestor.connectors.programs.airbyte import chosen, configured, record_of, said_in, status_of, stream_of
from ingestor.connectors.programs.child import ProgramFailed
from ingestor.ports import NeedsHuman

ISSUES: dict[str, Any] = {
    "name": "issues",
    "json_schema": {"properties": {"id": {"type": "integer"}}},
    "supported_sync_modes": ["incremental", "full_refresh"],
    "source_defined_primary_key": [["id"], ["repository", "name"]],
}
PEOPLE: dict[str, Any] = {"name": "people", "namespace": "public", "json_schema": {}}
FORMER: dict[str, Any] = {"name": "people", "namespace": "old", "supported_sync_modes": ["incremental"]}
CATALOG = [ISSUES, PEOPLE, FORMER]


@pytest.mark.parametrize(
    ("streams", "entries"),
    [
        (["issues"], [ISSUES]),
        (["public.people"], [PEOPLE]),
        (["people", "issues"], [ISSUES, PEOPLE, FORMER]),
    ],
)
def test_streams_are_named_with_or_without_their_namespace(streams: list[str], entries: list[Any]) -> None:
    assert chosen(CATALOG, streams) == entries


def test_a_stream_that_is_not_there() -> None:
    with pytest.raises(
        NeedsHuman, match=r"stream isues; it has issues, old\.people, public\.people: correct"
    ):
        chosen(CATALOG, ["isues", "people"])


@pytest.mark.parametrize(
    ("entry", "mode"), [(ISSUES, "full_refresh"), (PEOPLE, "full_refresh"), (FORMER, "incremental")]
)
def test_all_is_asked_for(entry: dict[str, Any], mode: str) -> None:
    asked = configured(entry)
    assert (asked["stream"], asked["sync_mode"], asked["destination_sync_mode"]) == (entry, mode, "overwrite")


def test_what_a_stream_is() -> None:
    issues, people = stream_of(ISSUES), stream_of(PEOPLE)
    assert (issues.name, issues.key) == ("issues", ["id", "repository.name"])
    assert (people.name, people.key, people.fields) == ("public.people", [], {})


def test_a_record_belongs_to_the_stream_of_its_namespace() -> None:
    streams = {stream.name: stream for stream in map(stream_of, CATALOG)}
    said = {"stream": "people", "namespace": "old", "data": {"x": 1}}
    assert [record.stream.name for record in record_of(said, streams)] == ["old.people"]
    assert list(record_of({"stream": "others", "data": {}}, streams)) == []


@pytest.mark.parametrize("said", [None, {}, {"stream": "issues"}, {"stream": "issues", "data": [1]}])
def test_a_record_that_is_none(said: object) -> None:
    with pytest.raises(ProgramFailed):
        list(record_of(said, {"issues": stream_of(ISSUES)}))


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ({"type": "RECORD"}, {}),
        ({"type": "TRACE", "trace": {"type": "ESTIMATE", "estimate": {}}}, {}),
        (
            {
                "trace": {
                    "stream_status": {"stream_descriptor": {"name": "a", "namespace": "b"}, "status": "X"}
                }
            },
            {"b.a": "X"},
        ),
    ],
)
def test_how_far_a_stream_is(message: dict[str, Any], status: dict[str, str]) -> None:
    assert status_of(message) == status


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ({"message": "no"}, "no"),
        ({"message": "wrong: no", "internal_message": "no"}, "wrong: no"),
        (
            {"message": "See the logs", "internal_message": "KeyError: 'x'\nat"},
            "See the logs (KeyError: 'x')",
        ),
    ],
)
def test_what_an_error_says(error: dict[str, Any], said: str) -> None:
    assert said_in(error) == said
