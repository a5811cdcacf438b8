"""What was parsed once is neither fetched nor parsed again, until something says that it may be another."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.app.parts import Parts
from ingestor.config.file import load
from ingestor.core.document_json import Parsed
from ingestor.model import Blob, Block, Digest, Document, Fingerprint, Item, SourceName
from ingestor.pipeline.prepare import Reader
from ingestor.ports import BadDocument
from ingestor.state.cache import Parses, VectorCache

NOTES = SourceName("notes")
ITEM = Item("a/b.txt", "v1", "/notes/a/b.txt")


class Counting:
    """A place with one document, and its parser."""

    def __init__(self) -> None:
        self.fetched = self.parsed = 0

    def fetch(self, item: Item) -> Blob:
        self.fetched += 1
        return Blob(f"{item.key} at {item.version}".encode(), item.key)

    def parse(self, blob: Blob) -> Document:
        self.parsed += 1
        return Document(blob.data.decode())


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[VectorCache]:
    with closing(VectorCache(tmp_path / "cache.sqlite3", 10**8)) as cache:
        yield cache


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture
def reader(cache: VectorCache, counting: Counting) -> Reader:
    return Reader(
        NOTES, counting.fetch, {"text": counting}, {"text": Fingerprint("text 1")}, Parses(cache), {"text"}
    )


def costs(counting: Counting) -> tuple[int, int]:
    return counting.fetched, counting.parsed


def test_unchanged_item_is_read_once(reader: Reader, counting: Counting) -> None:
    first = reader.read(ITEM)
    document = first.document()
    again = reader.read(ITEM)
    assert (again.document(), again.content, again.parser) == (document, first.content, "text")
    assert costs(counting) == (1, 1)


def test_item_is_parsed_only_on_demand(reader: Reader, counting: Counting) -> None:
    reader.read(ITEM)
    reader.read(ITEM)
    assert costs(counting) == (2, 0)


@pytest.mark.parametrize(
    ("item", "changes"),
    [
        (replace(ITEM, version="v2"), {}), (replace(ITEM, uri="/elsewhere/a/b.txt"), {}),
        (replace(ITEM, key="a/c.txt"), {}), (ITEM, {"source": SourceName("others")}),
        (ITEM, {"origin": "another branch"}), (ITEM, {"types": (("*.txt", "text/plain"),)}),
        (ITEM, {"recipes": {"text": Fingerprint("text 2")}}), (ITEM, {"memory": None}),
    ],
)  # fmt: skip
def test_item_that_may_have_changed_is_read_again(
    item: Item, changes: dict[str, object], reader: Reader, counting: Counting
) -> None:
    reader.read(ITEM).document()
    found = replace(reader, **changes).read(item)  # type: ignore[arg-type]
    assert found.document().text == f"{item.key} at {item.version}"
    assert costs(counting) == (2, 2)


def test_changed_rules_of_detection_read_an_item_again(
    reader: Reader, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader.read(ITEM).document()
    monkeypatch.setattr("ingestor.parsers.shared.detect.rules", lambda: "others")
    reader.read(ITEM).document()
    assert costs(counting) == (2, 2)


def test_parse_of_a_cheap_parser_is_not_cached(reader: Reader, counting: Counting) -> None:
    cheap = replace(reader, costly=())
    cheap.read(ITEM).document()
    cheap.read(ITEM).document()
    assert costs(counting) == (2, 2)


def test_item_that_cannot_be_parsed_is_parsed_again(reader: Reader) -> None:
    def refuse(blob: Blob) -> Document:
        raise BadDocument("no")

    parser = Counting()
    parser.parse = refuse  # type: ignore[method-assign]
    refusing = replace(reader, parsers={"text": parser})
    for _ in range(2):
        with pytest.raises(BadDocument):
            refusing.read(ITEM).document()
    assert reader.read(ITEM).document().text == "a/b.txt at v1"


def test_missing_parser_raises(reader: Reader) -> None:
    with pytest.raises(BadDocument, match="'text' is not installed"):
        replace(reader, parsers={}).read(ITEM).document()


def test_cache_keeps_one_state_of_an_item_and_none_of_removed_ones(
    cache: VectorCache, reader: Reader
) -> None:
    def kept() -> int:
        with closing(VectorCache(cache._path, 10**8)) as other:
            return int(other._db.execute("SELECT count(*) FROM documents").fetchone()[0])

    reader.read(ITEM).document()
    reader.read(replace(ITEM, key="a/c.txt")).document()
    assert kept() == 2
    cheap = replace(reader, costly=())
    cheap.read(replace(ITEM, version="v2")).document()
    assert kept() == 1, "what it said before is not kept"
    Parses(cache).forget(NOTES, "a/c.txt")
    assert kept() == 0


def test_plan_stores_nothing(cache: VectorCache, reader: Reader, counting: Counting) -> None:
    planning = replace(reader, memory=Parses(cache, learns=False))
    planning.read(ITEM).document()
    reader.read(ITEM).document()
    assert costs(counting) == (2, 2)
    planning.read(replace(ITEM, version="v2"))
    reader.read(ITEM)
    assert costs(counting) == (3, 2), "it forgets nothing either"


def test_damage_is_noticed(cache: VectorCache, reader: Reader, counting: Counting) -> None:
    reader.read(ITEM).document()
    cache._db.execute("UPDATE documents SET data = substr(data, 1, length(data) - 3) || x'000000'")
    assert reader.read(ITEM).document().text == "a/b.txt at v1"
    assert costs(counting) == (2, 2)


SMALL = st.integers(0, 9)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | TEXTS
BLOCKS = st.builds(
    Block, TEXTS, st.integers(0, 9), st.integers(0, 9), st.integers(0, 6), title=st.none() | TEXTS
)
DOCUMENTS = st.builds(
    Document, TEXTS, st.lists(BLOCKS, max_size=3).map(tuple), title=st.none() | TEXTS,
    extra=st.lists(st.tuples(TEXTS, SCALARS), max_size=3).map(tuple),
)  # fmt: skip


@given(document=DOCUMENTS)
def test_cached_document_equals_the_parsed(
    document: Document, tmp_path_factory: pytest.TempPathFactory
) -> None:
    parsed = Parsed(Digest("00" * 16), "pdf", Fingerprint("recipe"), document)
    with closing(VectorCache(tmp_path_factory.getbasetemp() / "documents.sqlite3", 10**8)) as cache:
        Parses(cache).keep(NOTES, "k\udc80", "stamp", parsed)
        found = Parses(cache).find(NOTES, "k\udc80", "stamp")
    assert found == parsed
    assert repr(found) == repr(parsed)


def test_only_parses_of_costly_parsers_are_cached(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        """
embedding: {kind: hashing}
sources:
  - {name: near, kind: folder, path: ./near, collection: docs}
  - {name: far, kind: files, url: "memory://far", collection: docs}
"""
    )
    parts = Parts(load(config, {}))
    near, far = (
        source.tools.reader
        for source in parts.sources("docs", "docs", parts.embedder.embed)  # type: ignore[arg-type]
    )
    assert {"pdf", "docx", "html"} <= set(near.costly)  # type: ignore[call-overload]
    assert "text" not in near.costly
    assert {"pdf", "text"} <= set(far.costly)  # type: ignore[call-overload]
    assert near.origin != far.origin


def test_formats_set_by_the_config_apply_to_text_alone(reader: Reader) -> None:
    typed = replace(reader, types=(("*.txt", "text/x-rst"),))
    assert typed.read(ITEM).parser == "rst"
    assert typed.read(replace(ITEM, key="a/b.md")).parser == reader.read(replace(ITEM, key="a/b.md")).parser
    for parser in ("text", "rst", "code", "mail", ""):
        assert typed.recipe(parser) != reader.recipe(parser)
    assert typed.recipe("pdf") == reader.recipe("pdf")
    assert replace(reader, types=()).recipe("text") == reader.recipe("text")
