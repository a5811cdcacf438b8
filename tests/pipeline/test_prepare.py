"""How many records a document may give, and what a changed description of chunks writes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ingestor.core.completeness import Shortfall
from ingestor.model import Chunk, Chunking, Vectors
from ingestor.pipeline import metadata
from ingestor.pipeline.limits import without_repeats
from ingestor.pipeline.prepare import Prepared, vectors_at
from ingestor.ports import BadDocument
from ingestor.registry import find
from tests.pipeline.preparing import entry, made, tools_of

HASHING = find("embedders", "hashing")
EMBED = HASHING.build(HASHING.options(dimensions=8)).embed


def prepared(
    text: str, size: int | None = None, strategy: str = "sentence", done: Prepared | None = None, **more: Any
) -> Prepared:
    """Prepare a document, one chunk for each sentence.

    ``done``: what was written before; then nothing may be embedded. Without it, vectors are expected once.
    """
    expected = list[None]()
    options = {"max_sentences": 1, "overlap": 0} if strategy == "sentence" else {}
    embed, expect = (EMBED, lambda: expected.append(None)) if done is None else (_never, _unexpected)
    tools = tools_of(text, strategy, embed, options=options, expect=expect, **more)
    if done is not None:
        receipt = done.receipt
        written = replace(
            done.entry, done_version="1", done_recipe=receipt.recipe, facts=receipt.facts,
            digest=receipt.digest, parser=receipt.parser, records=receipt.records,
        )  # fmt: skip
        return made(tools, written)
    try:
        return made(tools, entry(tools, size))
    finally:
        assert expected == [None]


def _unexpected() -> None:
    raise AssertionError("no vectors are needed")


def _never(texts: Sequence[str]) -> Vectors:
    assert not texts
    return np.zeros((0, 8), np.float32)


def sentences(number: int) -> str:
    return " ".join(f"Sentence number {n} is here." for n in range(number))


def test_document_with_more_records_than_configured_is_quarantined() -> None:
    assert len(prepared(sentences(20), max_records=20).records) == 20
    with pytest.raises(BadDocument, match="results in at least 21 chunks, but max_records is 20: raise"):
        prepared(sentences(21), max_records=20)


def test_small_archive_with_thousands_of_members_is_refused() -> None:
    assert len(prepared(sentences(1000), 700).records) == 1000
    assert len(prepared(sentences(1100), 1100).records) == 1100
    assert len(prepared(sentences(1100)).records) == 1100, "where the size is not known"
    with pytest.raises(BadDocument, match="results in at least 1,100 chunks for only 700 bytes; exclude it"):
        prepared(sentences(1100), 700)


def test_equal_chunks_are_indexed_up_to_a_hundred() -> None:
    text = sentences(3) + " The very same words." * 150 + " And the end."
    done = prepared(text)
    texts = [record.text for record in done.records]
    assert len(texts) == 104
    assert texts.count("The very same words.") == 100
    assert texts[-1] == "And the end."
    assert done.receipt.shortfall == Shortfall(
        "incomplete", "50 chunks left out: 100 before them have the same text"
    )
    assert prepared(sentences(300)).receipt.shortfall is None


def test_vectors_stay_with_their_chunks_if_repeats_are_dropped() -> None:
    texts = ["same"] * 101 + ["other"]
    chunks = tuple(Chunk(at, at + 1, text) for at, text in enumerate(texts))
    found = without_repeats(Chunking(chunks, np.arange(102, dtype=np.float32)[:, np.newaxis]))
    assert found.vectors is not None
    assert [chunk.start for chunk in found.chunks] == found.vectors[:, 0].tolist() == [*range(100), 101]


def test_document_of_far_too_many_pieces_is_refused_before_embedding() -> None:
    with pytest.raises(BadDocument, match="results in at least 11 chunks, but max_records is 10"):
        prepared(sentences(110), None, "similarity", max_records=10)


def test_inserted_chunk_touches_two_neighbours_on_either_side() -> None:
    before, after = (
        [known.vector_key for known in prepared(text, neighbours=0.3).receipt.records]
        for text in (sentences(20), f"This one is new. {sentences(20)}")
    )
    assert set(before) - set(after) == {*before[:2]}
    assert len(set(after)) == 21


def test_changed_metadata_is_patched_without_embedding(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr(metadata, "rules", lambda *_: "an older version")
        before.setattr(metadata, "_of_document", lambda *_: {"source": "as it was"})
        done = prepared(sentences(3))
    assert [record.metadata["source"] for record in done.records] == ["as it was"] * 3
    again = prepared(sentences(3), done=done)
    assert (again.records, again.deletes) == ((), ())
    assert [(name, meta["source"]) for name, meta in again.patches] == [
        (record.id, "/a.txt") for record in done.records
    ]
    assert [(meta["headings"]) for _, meta in again.patches] == [None] * 3
    settled = prepared(sentences(3), done=again)
    assert (settled.records, settled.patches, settled.deletes) == ((), (), ())


def test_changed_profile_patches_records_and_removes_missing_keys() -> None:
    done = prepared(sentences(3))
    again = prepared(sentences(3), done=done, profile="lean")
    assert (again.records, again.deletes, len(again.patches)) == ((), (), 3)
    assert all(meta["file_size"] is None and meta["recipe"] is None for _, meta in again.patches)
    assert prepared(sentences(3), done=again, profile="lean").patches == ()


def test_share_of_neighbours_of_a_chunking_replaces_the_config_s() -> None:
    texts = ["one thing", "another thing", "a third"]
    chunks = tuple(Chunk(at, at + 1, text) for at, text in enumerate(texts))
    tools = tools_of("", "sentence", EMBED, neighbours=0.3)
    own, mixed = (
        vectors_at(range(3), texts, Chunking(chunks, neighbours=share), tools) for share in (0, None)
    )
    assert np.array_equal(own, EMBED(texts))
    assert not np.array_equal(mixed, own)
