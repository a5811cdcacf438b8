"""Words that no record holds find the words that were meant."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.lexical.corrections import distance
from ingestor.lexical.index import LexicalIndex
from ingestor.lexical.ranking import distinctive_terms, rank_by_words
from ingestor.model import RecordId
from tests.chroma.laws import record
from tests.lexical.worlds import opened

TEXTS = [
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
    with opened(tmp_path / "lexical.sqlite3") as file:
        LexicalIndex(file, ("uuid",)).upsert([record(f"{n}#0", text, n) for n, text in enumerate(TEXTS)])
        with file.transaction() as db:
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
    with opened(tmp_path / "lexical.sqlite3") as file:
        LexicalIndex(file, ("uuid",)).upsert(
            [
                replace(record(f"{n}#0", each, n), metadata={"language": code})
                for n, (code, each) in enumerate(texts)
            ]
        )
        with file.transaction() as db:
            for question in questions.split():
                assert [id_ for id_, _ in rank_by_words(db, 1, question, 9).order] == ["0#0"], question


def test_guessed_word_counts_less_than_one_that_was_asked(tmp_path: Path) -> None:
    """``what`` is no mistake for ``that``; nobody can tell where no record holds it."""
    texts = ["That band.", "A ticket costs four euros, and two for children.", "A pump.", "A lid."]
    with opened(tmp_path / "lexical.sqlite3") as file:
        LexicalIndex(file, ("uuid",)).upsert([record(f"{n}#0", text, n) for n, text in enumerate(texts)])
        with file.transaction() as db:
            found = rank_by_words(db, 1, "what ticket", 9)
            assert [id_ for id_, _ in found.order] == ["1#0", "0#0"]
            assert found.most == pytest.approx(1.5 * rank_by_words(db, 1, "ticket", 9).most)
            (guessed,) = rank_by_words(db, 1, "what", 9).order
            (asked,) = rank_by_words(db, 1, "that", 9).order
            assert guessed[1] == pytest.approx(asked[1] / 2)


def test_first_words_of_a_long_question_are_corrected(tmp_path: Path) -> None:
    others = [f"xylo{letter}phone" for letter in "abcdefghijklmnop"]
    with opened(tmp_path / "lexical.sqlite3") as file:
        LexicalIndex(file, ("uuid",)).upsert([record(f"{n}#0", text, n) for n, text in enumerate(TEXTS)])
        with file.transaction() as db:
            assert distinctive_terms(db, 1, " ".join(["vistors", *others])) == {"visitors"}
            assert distinctive_terms(db, 1, " ".join([*others, "vistors"])) == set()


def test_word_that_a_record_holds_is_never_corrected(tmp_path: Path) -> None:
    with opened(tmp_path / "lexical.sqlite3") as file:
        LexicalIndex(file, ("uuid",)).upsert(
            [record(f"{n}#0", text, n) for n, text in enumerate(["pump", "pumps", "bump"])]
        )
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
