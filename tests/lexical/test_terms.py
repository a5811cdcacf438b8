"""What a text is found by."""

import re
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.lexical.rules import LONGEST
from ingestor.lexical.terms import all_stems, question_words, terms


@pytest.mark.parametrize(
    ("text", "language", "wanted"),
    [
        ("get_or_create_collection", None, {"get_or_create_collection", "get", "or", "create", "collection"}),
        ("chroma.get_or_create(x)", None, {"chroma.get_or_create", "chroma", "get_or_create", "get"}),
        ("see ERR_4711!", None, {"err_4711", "err", "4711"}),
        ("nach § 12 und §§12", "de", {"§12", "12"}),
        ("camelCase", None, {"camelcase", "camel", "case"}),
        ("getHTTPResponse", None, {"gethttpresponse", "get", "http", "response"}),
        ("since v1.2.3", None, {"v1.2.3", "1.2.3", "2"}),
        ("1,234.56 Euro", None, {"1,234.56", "1234.56", "56"}),
        ("on 2024-05-31", None, {"2024-05-31", "2024", "31"}),
        ("utf8", None, {"utf8", "utf"}),
        ("C++ and C#", None, {"c++", "c#", "c"}),
        ("__init__", None, {"__init__", "init"}),
        ("mail user@host.com", None, {"user@host.com", "user", "host"}),
        ("well-known", "en", {"well-known", "well", "known"}),
        ("the running dogs", "en", {"run", "dog"}),
        ("die Häuser", "de-AT", {"haus"}),
        ("les élèves", "fr", {"elev"}),
        ("running", None, {"running"}),
        ("running", "tlh", {"running"}),
        ("東京タワー", "ja", {"東京", "京タ", "タワ", "ワー", "東"}),
        ("我喜欢猫", "zh", {"我喜", "喜欢", "欢猫", "猫"}),
        ("สวัสดี", "th", {"สว", "ดี"}),
        ("한국어 문장", "ko", {"한국", "국어", "문장"}),
        ("हिन्दी भाषा", None, {"हिन्दी", "भाषा"}),
        ("ＦＵＬＬ width", None, {"full", "width"}),
        ("עַל־פְּנֵי", None, {"על", "פני"}),
        ("كِتَابٌ", None, {"كتاب"}),
        ("הספרים בספר ולספרים", "he", {"ספר"}),
        ("שלושה ספרים", "he", {"ספר"}),
        ("می\u200cخواهم", "fa", {"خواه", "میخواهم"}),  # the stem needs the joiner
    ],
)  # fmt: skip
def test_text_gives_the_wanted_terms(text: str, language: str | None, wanted: set[str]) -> None:
    assert wanted <= set(terms(text, language))


@pytest.mark.parametrize("query", ["ERR_4711", "err 4711", "4711", "Err_4711?"])
def test_name_is_found_by_the_whole_and_by_parts(query: str) -> None:
    assert set(chain(*question_words(query, ["en"]))) & set(terms("It failed with ERR_4711 at once.", "en"))


@pytest.mark.parametrize("language", ["fa", None])
@pytest.mark.parametrize(("written", "also"), [
    ("می\u200cخواهم", "میخواهم"), ("کتاب\u200cهای", "کتابهای"), ("كتـــاب", "كتاب"),
])  # fmt: skip
def test_word_with_and_without_joiners_match_both_ways(written: str, also: str, language: str | None) -> None:
    for asked, text in ((written, also), (also, written)):
        (forms,) = question_words(asked, ["fa"])
        assert set(forms) & set(terms(text, language)), (asked, text)


def test_hebrew_word_is_found_with_other_prefixes_and_endings() -> None:
    (forms,) = question_words("הספרים", ["he"])
    for written in ("ספר", "בספרים", "והספר", "ספרי"):
        assert set(forms) & set(terms(written, "he")), written
    assert not set(forms) & set(terms("ספורט", "he"))
    assert all_stems(["בספרים", "books"], ["he", "en"]) == {
        "בספרים": ("בספרים", "ספר"), "books": ("books", "book"),
    }  # fmt: skip


def test_question_is_stemmed_by_every_language() -> None:
    found = question_words("running Häuser", ["en", "de-AT", "de"])
    assert found == [("running", "run"), ("hauser", "haus")]


def test_chinese_is_searched_by_pairs() -> None:
    assert question_words("喜欢猫", []) == [("喜欢", "欢猫")]
    assert question_words("猫", []) == [("猫",)]


def test_plain_word_is_one_term() -> None:
    """A document's length counts in BM25, so that words must not count twice."""
    assert terms("One plain sentence, and another.", "en") == ["one", "plain", "sentenc", "and", "anoth"]


@given(st.text(max_size=60), st.sampled_from([None, "en", "de", "ar", "he", "hi"]))
def test_terms_can_be_stored(text: str, language: str | None) -> None:
    """FTS5 splits them at spaces, and at ASCII characters that are not named to it."""
    for term in terms(text, language):
        assert 0 < len(term) <= LONGEST
        assert not re.search(r"[\s\"'\x00-\x1f\ud800-\udfff]", term)
        assert not re.search(r"[^\w.:@/\\+&,#>-]", term, re.ASCII) or not term.isascii()


@given(st.text(max_size=60))
def test_text_is_found_by_itself(text: str) -> None:
    assert set(chain(*question_words(text, ["en"]))) <= set(terms(text, "en")) | set(terms(text))


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_text_gives_the_terms_that_it_gives_beside_other_text(text: str) -> None:
    assert terms(f"{text}\n\u00e9", "en") == [*terms(text, "en"), "e"]
