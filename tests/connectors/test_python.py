from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from connectors.python import Python, PythonOptions
from ingestor.ports import BadDocument, NeedsHuman, Stale, Transient
from tests.connectors.laws import ConnectorLaws, listed
from tests.connectors.shelves import LoadedDocument, ShelfWorld

HERE = "tests.connectors.shelves"


class TestLaws(ConnectorLaws):
    @pytest.fixture
    def world(self, tmp_path: Path) -> ShelfWorld:
        return ShelfWorld(tmp_path / "root")


def of(name: str, **options: Any) -> Python:
    return Python(PythonOptions.model_validate({"call": f"{HERE}:{name}", **options}))


def giving(*documents: Any, **options: Any) -> Python:
    return of("given", arguments={"documents": list(documents)}, **options)


def test_a_loader_and_a_reader() -> None:
    loader = of("Loader", arguments={"texts": ["# One", "Two"]}, ending=".txt")
    items = listed(loader)
    assert items.keys() == {"book.pdf", "book.pdf#2"}
    assert items["book.pdf#2"].extra == (("page", 1), ("source", "book.pdf"))
    blob = loader.fetch(items["book.pdf"])
    assert (blob.data, blob.name) == (b"# One", "text.txt")
    reader = of("Reader", load={"names": ["a", "b"]})
    items = listed(reader)
    assert items.keys() == {"https://a", "https://b"}
    assert reader.fetch(items["https://b"]).data == b"on b"


@pytest.mark.parametrize(
    "changed",
    [
        {"key": "a", "text": "two"},
        {"key": "a", "text": "one", "uri": "x"},
        {"key": "a", "text": "one", "metadata": {"author": "Ada"}},
        {"key": "a", "data": b"one"},
    ],
)
def test_all_that_a_record_shows_is_part_of_the_version(changed: dict[str, Any]) -> None:
    [before], [after] = giving({"key": "a", "text": "one"}).scan(), giving(changed).scan()
    assert before.version != after.version


@pytest.mark.parametrize(
    ("document", "key"),
    [
        ({"key": 0}, "0"),
        ({"key": "a", "metadata": {"source": "b"}}, "a"),
        ({"metadata": {"id": 7, "source": ""}}, "7"),
        ({"metadata": {"url": "u", "source": "s"}}, "s"),
    ],
)
def test_what_tells_documents_apart(document: dict[str, Any], key: str) -> None:
    assert listed(giving({"text": "x", **document})).keys() == {key}


def test_equal_texts_are_two_documents() -> None:
    connector = giving({"key": "a.md", "data": b"same"}, {"key": "b.txt", "data": b"same"})
    items = listed(connector)
    assert [connector.fetch(items[key]).name for key in ("a.md", "b.txt")] == ["a.md", "b.txt"]


def test_metadata_that_is_no_value_and_text_that_is_none() -> None:
    odd = {"list": [1], "none": None, "number": 1.5, "text\ud800": "a\ud800"}
    [item] = giving({"key": "k\ud800", "text": "t\ud800", "metadata": odd}).scan()
    assert item.key == "k?"
    assert item.extra == (("number", 1.5), ("text?", "a?"))


def test_what_is_no_longer_listed_is_not_kept() -> None:
    documents: list[Any] = [{"key": "a", "text": "one"}, {"key": "b", "text": "two"}]
    connector = giving()
    connector._options.arguments["documents"] = documents
    first = listed(connector)
    documents[1] = {"key": "b", "text": "three"}
    second = listed(connector)
    with pytest.raises(Stale):
        connector.fetch(first["b"])
    assert connector.fetch(first["a"]).data == b"one"
    assert connector.fetch(second["b"]).data == b"three"


def test_after_a_restart_it_is_listed_before_it_is_fetched() -> None:
    [item] = giving({"key": "a", "text": "one"}).scan()
    again = giving({"key": "a", "text": "one"})
    with pytest.raises(Stale):
        again.fetch(item)
    assert list(again.scan()) == [item]
    assert again.fetch(item).data == b"one"


def test_a_listing_that_breaks_off_raises() -> None:
    connector = of("given", arguments={"documents": [{"key": "a", "text": "one"}], "fail": "cut"})
    scan = connector.scan()
    assert next(scan).key == "a"
    with pytest.raises(Transient, match="failed: RuntimeError: cut"):
        next(scan)


def test_too_large_a_document() -> None:
    connector = giving({"key": "a", "text": "x" * 11}, max_size=10)
    [item] = connector.scan()
    with pytest.raises(BadDocument, match="11 bytes; max_size is 10"):
        connector.fetch(item)


@pytest.mark.parametrize(
    ("connector", "message"),
    [
        (Python(PythonOptions(call="no_such_module:x")), "install it, or correct `call`"),
        (of("nothing"), "install it, or correct `call`"),
        (of("given"), "check `arguments`, `secrets` and `load`"),
        (of("given", arguments={"documents": [], "x": 1}), "check `arguments`, `secrets` and `load`"),
        (of("Loader", arguments={"texts": []}, load={"x": 1}), "check `arguments`, `secrets` and `load`"),
        (of("HERE_IS_TEXT"), "install it, or correct `call`"),
        (of("dict"), "install it, or correct `call`"),
        (Python(PythonOptions(call="builtins:dict", arguments={"a": 1})), "gives dict, no list of documents"),
        (giving({"key": "a"}), "document 1 of .* has neither `text` nor `data`"),
        (giving(LoadedDocument("text")), "no key and none of source, file_path, url, id: set `key`"),
    ],
)
def test_what_needs_a_person(connector: Python, message: str) -> None:
    with pytest.raises(NeedsHuman, match=message):
        list(connector.scan())


def test_secrets_are_given_and_not_shown() -> None:
    connector = giving({"key": "a", "text": "one"}, secrets={"secret": "s3cret"})
    [item] = connector.scan()
    assert "s3cret" not in repr((item, connector._options))


@pytest.mark.parametrize(
    "options",
    [
        {"call": "no colon"},
        {"call": "a.b"},
        {"call": "a:b()"},
        {"call": "a:b", "ending": "md"},
        {"call": "a:b", "key": []},
    ],
)
def test_options_that_make_no_sense(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        PythonOptions.model_validate(options)
