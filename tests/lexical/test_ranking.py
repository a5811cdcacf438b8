"""Which records the words of a question find, in which order, and what mistyped words find."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.lexical import ranking
from ingestor.lexical.corrections import distance
from ingestor.lexical.file import LexicalFile
from ingestor.lexical.index import LexicalIndex
from ingestor.lexical.ranking import distinctive_terms, rank_by_words
from ingestor.model import RecordId
from tests.chroma.laws import record
from tests.lexical.worlds import in_languages, indexed, numbered, opened

TEXTS = ["common words alone", "common words and rare ones", "common rare rarest", "something else"]


def best(folder: Path, question: str) -> list[str]:
    with indexed(folder, numbered(TEXTS)) as db:
        found = rank_by_words(db, 1, question, 10)
    assert all(0 < score <= found.most * 1.001 for _, score in found.order)
    assert [score for _, score in found.order] == sorted((score for _, score in found.order), reverse=True)
    return [id_ for id_, _ in found.order]


def test_rare_words_weigh_most(tmp_path: Path) -> None:
    assert best(tmp_path, "rarest something")[0] in ("2#0", "3#0")
    assert best(tmp_path, "rare ones") == ["1#0", "2#0"]
    assert best(tmp_path, "unheard of") == []


@pytest.mark.parametrize("absent", [0, 1, 3])
def test_words_that_no_record_holds_count_as_the_rarest(tmp_path: Path, absent: int) -> None:
    """Forms of one word in several languages are one word."""
    texts = [("en", "the fees"), ("en", "the songs"), ("en", "the pump"), ("de", "Die Häuser")]
    with indexed(tmp_path, in_languages(texts)) as db:
        rare = rank_by_words(db, 1, "fees", 10).most
        for word in ("fees", "the"):
            question = " ".join([word, "tariffs", "kittens", "borrowing"][: 1 + absent])
            found = rank_by_words(db, 1, question, 10)
            assert found.most == pytest.approx(rare * (absent + (word == "fees")), abs=1e-5)
            shares = [score / found.most for _, score in found.order]
            assert all(share < 1 / (1 + absent) for share in shares)
        assert rank_by_words(db, 1, "", 10).most == 0


@pytest.mark.parametrize("question", ["unheard", "the unheard"])
def test_empty_collection_finds_nothing(tmp_path: Path, question: str) -> None:
    with indexed(tmp_path, []) as db:
        assert rank_by_words(db, 1, question, 10).order == []


def test_frequent_words_are_omitted_where_they_cost_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(best(tmp_path, "common rarest else")) == {"0#0", "1#0", "2#0", "3#0"}
    monkeypatch.setattr(ranking, "_POSTINGS", 2)
    assert set(best(tmp_path, "common rarest else")) == {"2#0", "3#0"}
    assert len(best(tmp_path, "common")) == 3


def test_page_with_all_words_of_a_question_comes_before_single_words(tmp_path: Path) -> None:
    """Rows of one statement are records of their own, and each holds one of the words."""
    texts = {
        "a#0": ("income of the year", 4), "a#1": ("tax of the year", 4), "a#2": ("income alone", 5),
        "b#0": ("income without a page", None), "b#1": ("tax without a page", None), "b#2": ("nothing", 4),
        "c#0": ("water", 0), "c#1": ("pumps", 0), "c#2": ("hoses", 0), "c#3": ("valves", 0),
    }  # fmt: skip
    records = [
        replace(record(id_, text, n), metadata={} if page is None else {"page": page})
        for n, (id_, (text, page)) in enumerate(texts.items())
    ]

    def scores(file: LexicalFile) -> dict[str, float]:
        with file.transaction() as db:
            return dict(rank_by_words(db, 1, "income tax", 10).order)

    with opened(tmp_path / "lexical.sqlite3") as file:
        index = LexicalIndex(file, ("uuid",))
        index.upsert(records)
        paged = scores(file)
        index.patch([("a#1", {"page": 7})])
        apart = scores(file)
        index.patch([(id_, {"page": None}) for id_ in texts])
        bare = scores(file)
    assert paged["a#0"] == pytest.approx((bare["a#0"] + (bare["a#0"] + bare["a#1"]) / 2) / 2)
    assert apart == pytest.approx(bare)
    assert paged["b#0"] == bare["b#0"]


def test_page_that_holds_few_of_the_words_counts_less(tmp_path: Path) -> None:
    texts = ["income", "pumps", "hoses", "income", "income", "valves", "water"]
    pages = [1, 1, 1, 2, 2, 3, 3]
    records = [
        replace(record(f"a#{n}", text, n), metadata={"page": page})
        for n, (text, page) in enumerate(zip(texts, pages, strict=True))
    ]
    with indexed(tmp_path, records) as db:
        found = rank_by_words(db, 1, "income", 2)
    assert [id_ for id_, _ in found.order] == ["a#3", "a#4"]
    assert found.scores.keys() == {"a#0", "a#3", "a#4"}


# --- words that no record holds find the words that were meant ---------------------------------------------

MEANT = [
    "Visitors sign the guest book.",
    "The pump moves the water to the tank.",
    "Tickets for children cost 4711 euros.",
    "Die Häuser am Wald sind alt.",
    "Call get_or_create_collection first.",
    "Kittens need feeding, and the kitchen is closed.",
]


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("vistors", "0#0"),  # a letter is missing
        ("vissitors", "0#0"),  # one too many
        ("visitrs gest", "0#0"),
        ("watre", "1#0"),  # two in the wrong order
        ("pumo", "1#0"),
        ("childern", "2#0"),
        ("chidlern", "2#0"),  # two mistakes in a long word
        ("Hauser", "3#0"),
        ("Häusr", "3#0"),
        ("collecton", "4#0"),
        ("kitens", "5#0"),
        ("4712", None),  # numbers are meant as they are
        ("tnk", None),  # too short
        ("pimple", None),
        ("xylophone", None),
        ("書庫記録", None),
        ('"^pu" NEAR pum*', None),
    ],
)
def test_mistyped_word_finds_what_was_meant(tmp_path: Path, question: str, found: str | None) -> None:
    with indexed(tmp_path, numbered(MEANT)) as db:
        best = [id_ for id_, _ in rank_by_words(db, 1, question, 1).order]
        assert best == [found] * (found is not None)
        assert bool(distinctive_terms(db, 1, question)) == (found is not None)


@pytest.mark.parametrize(
    ("language", "text", "questions"),
    [
        ("en", "Readers borrowed books while waiting for operators.",
         "borrowign borrowde oborrowed waitign wating opertaors operatros opeators"),
        ("de", "Die Gebühren und Öffnungszeiten stehen am Eingang.",
         "Gebührne Gebuehren Egbühren Öfnungszeiten Öffnungszeitne stehne Eigang"),
        ("fr", "Les visiteurs signent le livre à l'entrée.", "visiteusr visteurs isiteurs singent signetn"),
        ("es", "Las entradas cuestan cuatro euros.", "entardas entrdas cuesatn cuestann quatro eurso"),
        ("ru", "Посетители подписывают книгу у входа.", "посетилети осетители подписываютт кнгиу"),
    ],
)  # fmt: skip
def test_mistake_at_any_place_finds_the_stem(
    tmp_path: Path, language: str, text: str, questions: str
) -> None:
    texts = [(language, text), *((language, f"{other}") for other in ("12 + 30", "4711", "x = y"))]
    with indexed(tmp_path, in_languages(texts)) as db:
        for question in questions.split():
            assert [id_ for id_, _ in rank_by_words(db, 1, question, 9).order] == ["0#0"], question


def test_guessed_word_counts_less_than_one_that_was_asked(tmp_path: Path) -> None:
    """``what`` is no mistake for ``that``; nobody can tell where no record holds it."""
    texts = ["That band.", "A ticket costs four euros, and two for children.", "A pump.", "A lid."]
    with indexed(tmp_path, numbered(texts)) as db:
        found = rank_by_words(db, 1, "what ticket", 9)
        assert [id_ for id_, _ in found.order] == ["1#0", "0#0"]
        assert found.most == pytest.approx(1.5 * rank_by_words(db, 1, "ticket", 9).most)
        (guessed,) = rank_by_words(db, 1, "what", 9).order
        (asked,) = rank_by_words(db, 1, "that", 9).order
        assert guessed[1] == pytest.approx(asked[1] / 2)


def test_first_words_of_a_long_question_are_corrected(tmp_path: Path) -> None:
    others = [f"xylo{letter}phone" for letter in "abcdefghijklmnop"]
    with indexed(tmp_path, numbered(MEANT)) as db:
        assert distinctive_terms(db, 1, " ".join(["vistors", *others])) == {"visitors"}
        assert distinctive_terms(db, 1, " ".join([*others, "vistors"])) == set()


def test_word_that_a_record_holds_is_never_corrected(tmp_path: Path) -> None:
    with opened(tmp_path / "lexical.sqlite3") as file:
        LexicalIndex(file, ("uuid",)).upsert(numbered(["pump", "pumps", "bump"]))
        with file.transaction() as db:
            assert distinctive_terms(db, 1, "bump") == {"bump"}
            LexicalIndex(file, ("other",))
        LexicalIndex(file, ("uuid",)).drop([RecordId("2#0")])
        with file.transaction() as db:
            assert distinctive_terms(db, 1, "bump") == {"pump"}, "a word of a removed record is unknown"


WORD = st.text("abc", max_size=7)


@given(WORD, WORD)
def test_distance_counts_the_fewest_edits(one: str, other: str) -> None:
    @cache
    def fewest(a: str, b: str) -> int:
        if not a or not b:
            return len(a) + len(b)
        ways = [
            fewest(a[:-1], b) + 1,
            fewest(a, b[:-1]) + 1,
            fewest(a[:-1], b[:-1]) + (a[-1] != b[-1]),
        ]
        if len(a) > 1 and len(b) > 1 and a[-2:] == b[-1] + b[-2]:
            ways.append(fewest(a[:-2], b[:-2]) + 1)
        return min(ways)

    assert distance(one, other) == fewest(one, other) == distance(other, one)
