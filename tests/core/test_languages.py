"""Languages that a model knows, and documents in others."""

import pytest

from ingestor.core.languages import LanguageCounts, ModelLanguages, describe_foreign, languages_of

ENGLISH = ModelLanguages("small-en", frozenset({"en"}))


@pytest.mark.parametrize(
    ("model", "is_english"),
    [
        ("all-MiniLM-L6-v2", True),
        ("/models/all-MiniLM-L6-v2/", True),
        ("sentence-transformers/all-mpnet-base-v2", True),
        ("BAAI/bge-small-en-v1.5", True),
        ("intfloat/e5-base-v2", True),
        ("intfloat/multilingual-e5-small", False),
        ("paraphrase-multilingual-MiniLM-L12-v2", False),
        ("BAAI/bge-m3", False),
        ("text-embedding-3-small", False),
        ("jina-embeddings-v2-base-de", False),
        ("", False),
    ],
)
def test_languages_of_model_follow_from_its_name(model: str, is_english: bool) -> None:
    known = languages_of(model)
    assert (known is not None and known.languages == {"en"}) is is_english


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"de": 2}, None),
        ({"de": 3}, "3 of 3 documents are in a language that small-en does not know (de); a multilingual"),
        ({"de": 5, "en": 5}, None),
        (
            {"de": 4, "ja": 2, "en": 5},
            "6 of 11 documents are in a language that small-en does not know (de, ",
        ),
    ],
)
def test_warning_needs_most_of_three_documents(counts: dict[str, int], words: str | None) -> None:
    made = describe_foreign(counts, ENGLISH)
    assert made is None if words is None else str(made).startswith(words)


def test_documents_are_counted_by_source() -> None:
    counts = LanguageCounts()
    assert [counts.add("a", "de", ENGLISH) is None for _ in range(3)] == [True, True, False]
    assert counts.add("b", "de", ENGLISH) is None
