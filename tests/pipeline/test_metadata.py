import json
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import chromadb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestor.config.quotas import CLOUD, UNBOUNDED, Quotas
from ingestor.core.metadata_keys import KEYS, LEAN, NEEDED, Profile
from ingestor.model import (
    Blob,
    Block,
    Chunk,
    Document,
    DocumentId,
    Item,
    Metadata,
    RecordId,
    Scalar,
    SourceName,
)
from ingestor.parsers.markup.markdown import PLUGIN
from ingestor.pipeline.metadata import LEFT_OUT, Describing, build, fit, require_short, rules
from ingestor.ports import BadDocument
from ingestor.registry import Options
from ingestor.text.context import contexts

SOURCE = """\
---
title: Handbook
author: Ada
---
Preamble.

# 2 Setup

First words.

- a list

## Details

| a |
|---|

More words.
"""
DOCUMENT: Document = PLUGIN.build(Options()).parse(Blob(SOURCE.encode(), "a.md"))
ITEM = Item("guides/setup.md", "v1", "/srv/docs/guides/setup.md", 120, 1700000000.0, (("owner", "ops"),))
DOC = DocumentId("d1")


def described(
    document: Document, chunks: list[Chunk], item: Item = ITEM, profile: Profile = "full"
) -> list[Metadata]:
    ids = [RecordId(f"{DOC}#{7 + i}") for i in range(len(chunks))]
    counts, digests = [10 + i for i in range(len(chunks))], [f"digest{i}" for i in range(len(chunks))]
    return build(
        document, item, DOC, chunks, ids, contexts(document, chunks, "headings"),
        tokens=counts, content_hashes=digests, recipe="r1",
        how=Describing(SourceName("handbook"), "recursive", profile),
    )  # fmt: skip


def chunks_at(text: str, *beginnings: str) -> list[Chunk]:
    """The text cut where each of the strings begins."""
    cuts = [text.index(beginning) for beginning in beginnings] + [len(text)]
    return [Chunk(a, b, text[a:b]) for a, b in pairwise(cuts)]


CHUNKS = chunks_at(SOURCE, "---", "# 2 Setup", "- a list", "\n## Details", "More words")


def test_record_has_every_key() -> None:
    row = dict(described(DOCUMENT, CHUNKS)[1])
    node = json.loads(str(row.pop("_node_content")))
    shown = node.pop("metadata")
    assert shown.items() <= row.items()
    assert {"source", "path", "owner", "page_label"} - shown.keys() == {"page_label"}
    hidden = sorted(shown.keys() - {"title", "heading_path", "path"})
    assert sorted(node.pop("excluded_llm_metadata_keys")) == hidden
    golden = Path(__file__).parent / "record.json"
    if os.environ.get("INGESTOR_GOLDEN") == "write":
        golden.write_text(json.dumps({"record": row, "node": node}, indent=1) + "\n", "utf-8")
    assert {"record": row, "node": node} == json.loads(golden.read_text("utf-8"))


def present(metadata: Metadata) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if value is not None}


def test_llama_index_node_over_the_limit_is_omitted() -> None:
    rows = described(replace(DOCUMENT, extra=(("abstract", "x" * 7_900),)), CHUNKS)
    assert [row["_node_content"] for row in rows] == [None] * len(CHUNKS)


def test_lean_records_carry_keys_of_filters_and_citations() -> None:
    chunks = [replace(chunk, extra=(("picked", "recursive"), ("parent_index", 3))) for chunk in CHUNKS]
    full, lean = (described(DOCUMENT, chunks, profile=profile)[1] for profile in ("full", "lean"))
    assert present(lean).keys() <= LEAN | {"author", "owner"}
    node = json.loads(str(lean.pop("_node_content")))
    cited, own = {"title", "heading_path", "path", "source"}, {"author", "owner", "parent_index"}
    assert node["metadata"].keys() == cited | own
    assert node["relationships"] == {"1": {"node_id": "d1"}}
    assert present(lean) == {key: value for key, value in present(full).items() if key in present(lean)}
    assert {"author", "owner", "parent_index", "path", "title", "language", "heading_path"} <= lean.keys()
    assert "picked" in full and "picked" not in lean
    assert lean.keys() >= KEYS - {"_node_content"}, "a patch removes what the records had before"


def test_listed_keys_are_carried_beside_needed_keys() -> None:
    row = described(DOCUMENT, CHUNKS, profile=("author", "file_name", "nobody"))[1]
    assert present(row).keys() - NEEDED == {"author", "file_name"}
    assert present(row)["source"] and present(row)["chunk_index"] == 1


def test_name_of_a_source_changes_the_rules_only_if_records_carry_it() -> None:
    a, b = SourceName("a"), SourceName("b")
    assert rules(Describing(a, "", "lean")) != rules(Describing(b, "", "lean")) != rules(Describing(b))
    few, more = (Describing(b, "", keys) for keys in (("author",), ("author", "source_name")))
    assert rules(Describing(a, "", ("author",))) == rules(few) != rules(more)


def column(metadata: list[Metadata], *keys: str) -> list[tuple[Scalar, ...]]:
    return [tuple(record[key] for key in keys) for record in metadata]


def test_sections_are_counted() -> None:
    rows = described(DOCUMENT, CHUNKS)
    keys = "heading_path", "section_number", "section_chunk_index", "section_chunk_count", "block_kinds"
    assert column(rows, "headings") == [(None,), *[(["2 Setup"],)] * 2, *[(["2 Setup", "Details"],)] * 2]
    assert column(rows, *keys) == [
        (None, None, 0, 1, "front_matter,paragraph"), ("2 Setup", "2", 0, 2, "heading,paragraph"),
        ("2 Setup", "2", 1, 2, "list"), ("2 Setup > Details", "2.1", 0, 2, "heading,table"),
        ("2 Setup > Details", "2.1", 1, 2, "paragraph"),
    ]  # fmt: skip
    assert column(rows, "start_line", "end_line") == [(1, 6), (7, 10), (11, 11), (12, 17), (18, 18)]


def test_section_that_holds_most_of_a_chunk_is_named_and_all_are_listed() -> None:
    text = "# A\n\nIt is short.\n\n<!-- of B -->\n\n## B\n\nIt is longer than the other.\n\n## A\n\nEnd.\n"
    document: Document = PLUGIN.build(Options()).parse(Blob(text.encode(), "a.md"))
    cuts = [0, text.index("<!--"), text.index("It is longer"), len(text)]
    whole, *parts = [Chunk(a, b, text[a:b]) for a, b in [(0, len(text)), *pairwise(cuts)]]
    scattered = Chunk(0, len(text), "", spans=((0, 15), (text.index("End"), len(text))))
    rows = described(document, [whole, *parts, scattered, Chunk(0, 1, "x")])
    assert column(rows, "heading_path", "headings", "section_chunk_count") == [
        ("A > B", ["A", "B"], 3), ("A", ["A"], 3), ("A > B", ["A", "B"], 3), ("A > B", ["A", "B"], 3),
        ("A", ["A"], 3), ("A", ["A"], 3),
    ]  # fmt: skip
    assert contexts(document, [whole], "headings") == [("A", "B")]
    assert column(described(Document("no headings"), [Chunk(0, 2, "no")]), "headings") == [(None,)]


def test_lines_of_records_are_lines_of_the_file_or_missing() -> None:
    rows = described(replace(DOCUMENT, content_type="text/html"), CHUNKS)
    assert column(rows, "start_line", "end_line") == [(None, None)] * len(CHUNKS)


def test_chunk_that_begins_inside_a_table_has_its_header() -> None:
    text = "# Fees\n\n| Service | Price |\n|---|---|\n| fax | 0.20 |\n| scan | 0.50 |\n\nAfter.\n"
    document = PLUGIN.build(Options()).parse(Blob(text.encode(), "fees.md"))
    rows = described(document, chunks_at(text, "# Fees", "| scan", "After"))
    assert [row["table_header"] for row in rows] == [None, "| Service | Price |\n|---|---|", None]
    node = json.loads(str(rows[1]["_node_content"]))
    assert "table_header" in node["metadata"], "a model of LlamaIndex reads the header before the rows"
    assert "table_header" not in node["excluded_llm_metadata_keys"]


def test_first_and_last_chunks_have_a_single_neighbour() -> None:
    rows = [json.loads(str(record["relationships"])) for record in described(DOCUMENT, CHUNKS)]
    assert rows[0] == {"1": "d1", "3": "d1#8"}
    assert rows[-1] == {"1": "d1", "2": "d1#10"}
    (only,) = described(DOCUMENT, CHUNKS[:1])
    assert only["relationships"] == '{"1": "d1"}'


def test_margin_shows_pages_symbols_and_scattered_spans() -> None:
    text = "one two six"
    blocks = (
        Block("code", 0, 3, page=0, page_label="i", symbol="f"),
        Block("paragraph", 4, 7, page=1, page_label="ii"),
        Block("table", 8, 11, page=2, page_label="1"),
    )
    chunks = [Chunk(0, 7, "one two"), Chunk(3, 11, " two six"), Chunk(0, 11, "x", spans=((0, 3), (8, 11)))]
    rows = described(Document(text, blocks), chunks)
    assert column(rows, "page", "page_label", "symbol", "block_kinds") == [
        (0, "i", "f", "code,paragraph"),
        (1, "ii", None, "paragraph,table"),
        (0, "i", "f", "code,table"),
    ]


def test_metadata_of_the_item_is_carried() -> None:
    for item, expected in [
        (Item("a/b.tar.gz", "", "u"), ("b.tar", "b.tar.gz", None, None)),
        (Item(".profile", "", "u", 0, 0.0), (".profile", ".profile", 0, "1970-01-01")),
        (Item("x", "", "u", 1, float("nan")), ("x", "x", 1, None)),
        (Item("x", "", "u", 1, 1e300), ("x", "x", 1, None)),
        (Item("caf\udce9.txt", "", "u"), ("caf\ufffd", "caf\ufffd.txt", None, None)),
    ]:
        rows = described(Document("text"), [Chunk(0, 4, "text")], item)
        assert column(rows, "title", "file_name", "file_size", "last_modified_date") == [expected]


def test_member_of_an_archive_has_the_path_that_people_see() -> None:
    item = Item("old/a.zip/!/docs/b.md", "", "/srv/old/a.zip!/docs/b.md")
    rows = described(Document("text"), [Chunk(0, 4, "text")], item)
    assert column(rows, "path", "file_name") == [("old/a.zip!/docs/b.md", "b.md")]


def test_folders_of_a_document_are_all_its_parents() -> None:
    for key, folders in [
        ("a.md", None), ("ref/models/a.md", ["ref", "ref/models"]),
        ("old/a.zip/!/docs/b.md", ["old", "old/a.zip", "old/a.zip!/docs"]), ("/srv/a.md", ["/srv"]),
        ("https://a.org/docs/a?b=/c#/d", ["https://a.org", "https://a.org/docs"]),
        ("https://example.org", None),
    ]:  # fmt: skip
        rows = described(Document("text"), [Chunk(0, 4, "text")], Item(key, "", "u"))
        assert column(rows, "folders") == [(folders,)]


def test_extras_add_keys_and_displace_none() -> None:
    item = Item("k", "", "u", extra=(("a", 1), ("b", 1), ("c", 1), ("source", "no")))
    document = Document("text", extra=(("b", 2), ("c", 2), ("title", "no")))
    chunk = Chunk(0, 4, "text", extra=(("c", 3), ("strategy", "no"), ("symbol", "f")))
    (row,) = described(document, [chunk], item)
    assert row["symbol"] == "f", "the chunker's symbol is kept where the block has none"
    assert [row[key] for key in "abc"] == [1, 2, 3]
    assert (row["source"], row["title"], row["strategy"]) == ("u", "k", "recursive")


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> chromadb.Collection:
    return chromadb.PersistentClient(str(tmp_path_factory.mktemp("chroma"))).create_collection("anything")


keys = st.text(max_size=5) | st.sampled_from(["#a", "$a", "chroma:document", "chroma:uri", "\ud800", "title"])
surrogates = st.text(st.characters(), max_size=10)
scalars: st.SearchStrategy[Scalar] = (
    surrogates
    | st.integers(-(2**70), 2**70)
    | st.booleans()
    | st.none()
    | st.sampled_from([float("nan"), float("inf"), -0.0, 0.1, 1 / 3, 1700000000.1234567])
    | st.floats(-1e15, 1e15).map(lambda x: round(x, 3))
)
extras = st.lists(st.tuples(keys, scalars), max_size=4).map(tuple)


@settings(max_examples=60, deadline=None)
@given(extra=extras, own=extras, name=surrogates, title=st.none() | surrogates, heading=surrogates)
def test_chroma_returns_any_metadata_unchanged(
    collection: chromadb.Collection,
    extra: tuple[tuple[str, Scalar], ...],
    own: tuple[tuple[str, Scalar], ...],
    name: str,
    title: str | None,
    heading: str,
) -> None:
    blocks = (Block("heading", 0, 4, 1, heading),)
    item = Item(name, "", name, 2**65, 1e10, extra)
    (row,) = described(Document("text", blocks, title=title), [Chunk(0, 4, "text", extra=own)], item)
    assert row.keys() >= KEYS
    collection.delete(ids=["x"])
    collection.upsert(ids=["x"], embeddings=[[1.0]], documents=["text"], metadatas=[dict(row)])
    (found,) = collection.get(ids=["x"])["metadatas"] or []
    wanted = {key: value for key, value in row.items() if value is not None}
    assert {key: (type(v), v) for key, v in found.items()} == {k: (type(v), v) for k, v in wanted.items()}


@given(st.data())
def test_counts_and_neighbours_agree_for_any_spans(data: st.DataObject) -> None:
    size = len(SOURCE)
    spans = data.draw(st.lists(st.tuples(st.integers(0, size - 1), st.integers(1, 60)), max_size=12))
    chunks = [Chunk(a, min(a + n, size), SOURCE[a : a + n]) for a, n in sorted(spans)]
    rows = described(DOCUMENT, chunks)
    for path in {row["heading_path"] for row in rows}:
        section = [row for row in rows if row["heading_path"] == path]
        assert [row["section_chunk_index"] for row in section] == list(range(len(section)))
        assert {row["section_chunk_count"] for row in section} == {len(section)}
    for chunk, row in zip(chunks, rows, strict=True):
        assert row["start_line"] == 1 + SOURCE.count("\n", 0, chunk.start)
        assert row["end_line"] == 1 + SOURCE.count("\n", 0, chunk.end - 1)


def test_values_repeated_by_every_record_are_truncated() -> None:
    """Titles of megabytes, in each of many records, made Chroma's files and memory grow by gigabytes."""
    long = "x" * 5_000_000
    text = f"# {long}\n\n## {long}\n\nWords."
    blocks = (
        Block("heading", 0, len(long) + 2, level=1, title=long),
        Block("heading", len(long) + 4, 2 * len(long) + 7, level=2, title=long),
    )
    document = Document(text, blocks, title=long, extra=(("author", long),))
    [meta] = described(document, [Chunk(len(text) - 6, len(text), "Words.")])
    assert len(json.dumps(meta)) < 40_000
    assert len(str(meta["author"])) == 8_000 and len(str(meta["section_title"])) == 1_000
    [context] = contexts(document, [Chunk(len(text) - 6, len(text), "Words.")], "headings")
    assert sum(map(len, context)) < 600


FULL: dict[str, Any] = {
    **dict.fromkeys(sorted(KEYS | NEEDED), "x"),
    "author": "Ada",
    "zone": "b",
    "date": "c",
}


def test_too_many_keys_are_omitted_in_the_documented_order() -> None:
    kept = present(fit(FULL, CLOUD))
    assert len(kept) == 32
    assert FULL.keys() - kept.keys() == set([key for key in LEFT_OUT if key in FULL][: len(FULL) - 32])
    few = present(fit(FULL, Quotas(metadata_keys=17)))
    assert few.keys() == NEEDED | {"source_name", "path", "author"}, "then others, the last letters first"
    assert fit(FULL, Quotas(metadata_keys=17)).keys() >= KEYS, "a patch removes the others"


def test_metadata_without_quotas_is_unchanged() -> None:
    assert fit(FULL, UNBOUNDED) is FULL
    assert fit({"a": 1, "page": None}, CLOUD) == {"a": 1, "page": None}


@given(st.text(max_size=3000), st.lists(st.text(max_size=300), min_size=1, max_size=30), st.text(min_size=1))
def test_values_and_keys_fit_the_quotas(text: str, texts: list[str], key: str) -> None:
    kept = present(fit({"title": text, "headings": texts, key * 9: "x", "n": 2**60}, Quotas(value_bytes=256)))
    assert kept["n"] == 2**60
    assert text.startswith(kept["title"]) and len(kept["title"].encode()) <= 256
    assert kept["headings"] and sum(len(each.encode()) for each in kept["headings"]) <= 256
    assert all(len(name.encode()) <= 36 for name in kept)


def test_chunk_beyond_the_quota_raises_with_a_remedy() -> None:
    chunks = [Chunk(0, 3, "abc"), Chunk(3, 9000, "ä" * 9000)]
    require_short(chunks, UNBOUNDED)
    with pytest.raises(
        BadDocument, match=r"chunk 1 has 18,000 bytes, but Chroma accepts at most 16,384 .* smaller"
    ):
        require_short(chunks, CLOUD)
