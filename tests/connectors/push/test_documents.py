"""What becomes of documents that were pushed."""

from pathlib import Path

import pytest

from ingestor.connectors.push.store import PushStore
from ingestor.model import Item
from ingestor.ports import BadDocument, NeedsHuman, Stale
from tests.connectors.laws import listed
from tests.connectors.push.watching import Watch, connector


def test_type_metadata_and_source(here: Watch, tmp_path: Path) -> None:
    facts = '{"author": "Zo\\u00eb", "year": 1843, "draft": false, "source": "https://wiki.example.org/1"}'
    page = {"Content-Type": "text/html; charset=utf-8", "Metadata": facts}
    here.caller.put("page", b"<p>Hello</p>", **page)
    here.caller.put("note.md", b"# Hello", **{"Content-Type": "application/json"})
    of = connector(tmp_path / "pushed")
    items = listed(of)
    assert items["page"].uri == "https://wiki.example.org/1"
    assert items["page"].extra == (("author", "Zoë"), ("draft", False), ("year", 1843))
    assert items["note.md"].uri == "note.md"
    assert of.fetch(items["page"]).content_type == "text/html; charset=utf-8"
    assert of.fetch(items["note.md"]).content_type is None, "the ending tells more than a client's default"
    assert here.caller.get("page").headers["Metadata"] == facts.replace(
        '"author": "Zo\\u00eb", "year": 1843, "draft": false, "source": "https://wiki.example.org/1"',
        '"author": "Zo\\u00eb", "draft": false, "source": "https://wiki.example.org/1", "year": 1843',
    )


@pytest.mark.parametrize(
    "changed",
    [{"Metadata": '{"author": "Ada"}'}, {"Content-Type": "text/html"}, {"Metadata": '{"source": "x"}'}],
)
def test_all_that_a_record_may_show_is_part_of_the_version(here: Watch, changed: dict[str, str]) -> None:
    assert [here.caller.put("a", b"x", **h).status for h in ({}, changed, changed, {})] == [
        201,
        200,
        204,
        200,
    ]


NO_METADATA = ["author", "[1]", '{"a": [1]}', '{"a": null}', '{"a": NaN}', '{"a": "\\ud800"}', '{"a": 1e999}']
NO_METADATA += ["[" * 50_000, '{"a":' * 10_000, '{"a": 9223372036854775808}', '{"a": ' + "9" * 5000 + "}"]


@pytest.mark.parametrize("field", NO_METADATA, ids=lambda field: field[:12])
def test_invalid_metadata_is_refused(here: Watch, field: str) -> None:
    said = here.caller.put("a", b"x", Metadata=field)
    assert (said.status, said.error) == (
        400,
        "the header Metadata must be a JSON object of texts, numbers and booleans",
    )


def test_document_that_is_too_large_by_now(tmp_path: Path) -> None:
    PushStore(tmp_path).put("a", b"x" * 11, None, ())
    of = connector(tmp_path, max_size=10)
    [item] = of.scan()
    with pytest.raises(BadDocument, match="11 bytes; max_size is 10"):
        of.fetch(item)


def test_another_document_of_that_name_is_not_what_was_listed(tmp_path: Path) -> None:
    with pytest.raises(Stale):
        connector(tmp_path).fetch(Item("a", "1", "a"))


def test_damaged_file_needs_a_person(tmp_path: Path) -> None:
    store = PushStore(tmp_path)
    store.put("a", b"x", None, ())
    store.path.write_bytes(b"not a database" * 100)
    with pytest.raises(NeedsHuman, match=r"damaged .* put a backup of it in its place"):
        listed(connector(tmp_path))


def test_folders_above_are_not_made(tmp_path: Path) -> None:
    with pytest.raises(NeedsHuman, match="correct `folder`"):
        listed(connector(tmp_path / "no" / "such"))
