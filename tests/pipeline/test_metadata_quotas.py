"""Metadata and texts within the quotas of a server."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.config.quotas import CLOUD, UNBOUNDED, Quotas
from ingestor.core.metadata_keys import KEYS, NEEDED
from ingestor.model import Chunk
from ingestor.pipeline.metadata import LEFT_OUT, fit, require_short
from ingestor.ports import BadDocument

FULL: dict[str, Any] = {
    **dict.fromkeys(sorted(KEYS | NEEDED), "x"),
    "author": "Ada",
    "zone": "b",
    "date": "c",
}


def present(metadata: Any) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if value is not None}


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
