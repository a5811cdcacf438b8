"""Digests stay what journals hold: those of the JSON that json.dumps writes."""

import json

import pytest

from ingestor.core.fingerprint import combine, metadata_digest, text_digest


@pytest.mark.parametrize(
    "parts", [(), ("",), ("a", "b"), ('"\\', "\n\t\x00"), ("é", "\U0001f600"), (1, None, 2.5, ("a", "b"))]
)
def test_values_are_combined_as_json(parts: tuple[object, ...]) -> None:
    assert combine(*parts) == text_digest(json.dumps([str(part) for part in parts]))


def test_borders_of_combined_values_count() -> None:
    assert len({combine("a", "b"), combine("ab"), combine("a, b"), combine('a", "b')}) == 4


def test_metadata_are_digested_in_any_order_and_without_none() -> None:
    kept = {"b": "é", "a": [1.5, "x"], "c": True}
    expected = text_digest(json.dumps(kept, sort_keys=True, ensure_ascii=False))
    assert metadata_digest({"c": True, "a": [1.5, "x"], "none": None, "b": "é"}) == expected  # type: ignore[dict-item]
