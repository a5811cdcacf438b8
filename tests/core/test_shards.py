"""Which shard a record is in, and what shards are called."""

from collections import Counter

import pytest

from ingestor.core.entries import Edition, join, separate, shard_names, shard_of


def test_record_stays_in_the_shard_of_its_document() -> None:
    """The numbers are kept for ever: another hash would look for records where they are not."""
    assert [shard_of(f"4f1c2a9be07d335{n}#7", 4) for n in range(8)] == [3, 1, 1, 1, 2, 0, 1, 2]
    assert shard_of("4f1c2a9be07d3350", 4) == shard_of("4f1c2a9be07d3350#12", 4)
    assert {shard_of(f"document {n}", 1) for n in range(20)} == {0}


@pytest.mark.parametrize("shards", [2, 7, 64])
def test_shards_have_similar_sizes(shards: int) -> None:
    counts = Counter(shard_of(f"document {n}#0", shards) for n in range(1000 * shards))
    assert counts.keys() == set(range(shards))
    assert all(850 < count < 1150 for count in counts.values())


def test_names_carry_the_number_of_shards() -> None:
    assert shard_names("docs", 1) == ("docs",)
    assert shard_names("docs", 2) == ("docs-0-of-2", "docs-1-of-2")


def test_edition_has_a_place_for_each_shard() -> None:
    edition = Edition("docs--2", "docs", "staging", {"shards": 2}, uuids=("one", "two"))  # type: ignore[arg-type]
    assert edition.in_chroma == (("one", "docs--2-0-of-2"), ("two", "docs--2-1-of-2"))
    assert Edition("docs", "docs", uuids=("one",)).in_chroma == (("one", "docs"),)  # type: ignore[arg-type]
    assert Edition("docs", "docs", choices={"shards": 2}).in_chroma == (
        ("", "docs-0-of-2"),
        ("", "docs-1-of-2"),
    )  # type: ignore[arg-type]
    assert separate(join(["one", "two"])) == ("one", "two")
