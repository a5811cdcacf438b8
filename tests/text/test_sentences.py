"""Sentences and paragraphs as exact spans."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.text.sentences import paragraphs, sentences
from tests.chunkers.laws import lose_nothing

WORDS = [
    "One", "two", "Mr. ", "e.g. ", ". ", "! ", "? ", "。", "\n", "\n\n", "\r\n\r\n", "- ", "# H\n", "| a |\n",
    '"', "(", "…",
]  # fmt: skip
texts = st.lists(st.sampled_from([*WORDS, "水", "שלום", "👩‍👩‍👧", "e\u0301", " "]), max_size=80).map("".join)


def shown(text: str, language: str | None = None) -> list[str]:
    return [text[start:end] for start, end in sentences(text, language=language)]


def test_sentences_end_at_their_marks() -> None:
    for text, expected in [
        ("", []),
        (" \n\n ", []),
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        (
            "Dr. Smith met Mr. Jones at 3.14 p.m. today. He left.",
            ["Dr. Smith met Mr. Jones at 3.14 p.m. today.", "He left."],
        ),
        ("Hard\nwrapped text. It goes\non.", ["Hard\nwrapped text.", "It goes\non."]),
        ("No stop here\n\nnor here", ["No stop here", "nor here"]),
        ("いち。に？さん！", ["いち。", "に？", "さん！"]),
        (
            "- one\n- two. Three\n  goes on\n* four\n1. five",
            ["- one", "- two.", "Three\n  goes on", "* four", "1. five"],
        ),
        ("# Title\nText. More.\n## Next\nEnd.", ["# Title", "Text.", "More.", "## Next", "End."]),
        ("| a | b |\n|---|---|\n| 1. X | 2 |", ["| a | b |", "|---|---|", "| 1. X | 2 |"]),
        ("| 1. X | 2 |\nText", ["| 1. X | 2 |", "Text"]),
        ("Bad \ud800 text. Goes on! (Really.) yes", ["Bad \ud800 text.", "Goes on!", "(Really.) yes"]),
        (
            "- **One.** Two. _Three._ Four*.* *Five*.",
            ["- **One.**", "Two.", "_Three._", "Four*.*", "*Five*."],
        ),
        ("Один. Два! Три?", ["Один.", "Два!", "Три?"]),
    ]:
        assert shown(text) == expected


def test_language_decides_what_is_an_abbreviation() -> None:
    text = "Das gilt z.B. für Salat. Und bzw. Basilikum. Ende."
    assert shown(text, "de-AT") == ["Das gilt z.B. für Salat.", "Und bzw. Basilikum.", "Ende."]


@pytest.mark.parametrize("language", [None, "en", "de-CH", "zz", "", "x-klingon"])
def test_sentences_accept_any_language_tag(language: str | None) -> None:
    assert shown("One. Two.", language) == ["One.", "Two."]


def test_paragraphs_end_at_blank_lines() -> None:
    for text, expected in [
        ("a\n\nb", ["a", "b"]), ("a\n \t\n\n  b\nc\n\n", ["a", "b\nc"]), ("a\r\n\r\nb\r\rc", ["a", "b", "c"]),
        ("a\r\nb\rc\nd", ["a\r\nb\rc\nd"]), ("\n\n", []),
    ]:  # fmt: skip
        assert [text[start:end] for start, end in paragraphs(text)] == expected


def test_document_span_limits_the_returned_text() -> None:
    text = "Before. One. Two. After."
    assert [text[start:end] for start, end in sentences(text, (8, 17))] == ["One.", "Two."]


@given(texts)
def test_spans_are_exact_ordered_trimmed_and_lose_nothing(text: str) -> None:
    lose_nothing(text, sentences(text))
    assert all(each == each.strip() for each in shown(text))


@given(texts, texts)
def test_paragraph_elsewhere_makes_no_difference(one: str, other: str) -> None:
    alone = sentences(one.strip())
    assert sentences(f"{one.strip()}\n\n{other}")[: len(alone)] == alone


def test_long_paragraph_is_read_through_a_window_without_cutting_sentences() -> None:
    unit = [f"This is sentence number {at}, and it mentions Dr. Smith." for at in range(400)]
    assert shown(" ".join(unit)) == unit


def test_large_texts_are_split_in_linear_time() -> None:
    for text, count in [
        ("x" * 60_000, 1), ("word " * 12_000 + "end. Next.", 2), ("字。" * 12_000, 12_000),
        ("\n" * 60_000 + "a", 1), (" " * 60_000 + "a", 1), ("\r" * 30_000 + "\n " * 60_000, 0),
        ("- " * 30_000, 1), ("." * 60_000, 1), ("#" * 60_000, 1), ("ab\ud800. " + "." * 60_000, None),
    ]:  # fmt: skip
        found = sentences(text)
        assert count is None or len(found) == count
