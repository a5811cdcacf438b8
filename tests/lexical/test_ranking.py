from dataclasses import replace
from pathlib import Path

import pytest

from ingestor.lexical import ranking
from ingestor.lexical.file import LexicalFile
from ingestor.lexical.index import LexicalIndex
from ingestor.lexical.ranking import rank_by_words
from tests.chroma.laws import record
from tests.lexical.worlds import opened

TEXTS = ["common words alone", "common words and rare ones", "common rare rarest", "something else"]


def best(file: LexicalFile, question: str) -> list[str]:
    LexicalIndex(file, ("uuid",)).upsert([record(f"{n}#0", text, n) for n, text in enumerate(TEXTS)])
    number = file.number(("uuid",))
    with file.transaction() as db:
        found = rank_by_words(db, number, question, 10)
    assert all(0 < score <= found.most * 1.001 for _, score in found.order)
    assert [score for _, score in found.order] == sorted((score for _, score in found.order), reverse=True)
    return [id_ for id_, _ in found.order]


def test_rare_words_weigh_most(tmp_path: Path) -> None:
    with opened(tmp_path / "lexical.sqlite3") as file:
        assert best(file, "rarest something")[0] in ("2#0", "3#0")
        assert best(file, "rare ones") == ["1#0", "2#0"]
        assert best(file, "unheard of") == []


@pytest.mark.parametrize("absent", [0, 1, 3])
def test_words_that_no_record_holds_count_as_the_rarest(tmp_path: Path, absent: int) -> None:
    """Forms of one word in several languages are one word."""
    texts = ["the fees", "the songs", "the pump", "Die Häuser"]
    with opened(tmp_path / "lexical.sqlite3") as file:
        LexicalIndex(file, ("uuid",)).upsert(
            [
                replace(record(f"{n}#0", text, n), metadata={"language": "de" if n == 3 else "en"})
                for n, text in enumerate(texts)
            ]
        )
        number = file.number(("uuid",))
        with file.transaction() as db:
            rare = rank_by_words(db, number, "fees", 10).most
            for word in ("fees", "the"):
                question = " ".join([word, "tariffs", "kittens", "borrowing"][: 1 + absent])
                found = rank_by_words(db, number, question, 10)
                assert found.most == pytest.approx(rare * (absent + (word == "fees")), abs=1e-5)
                shares = [score / found.most for _, score in found.order]
                assert all(share < 1 / (1 + absent) for share in shares)
            assert rank_by_words(db, number, "", 10).most == 0


@pytest.mark.parametrize("question", ["unheard", "the unheard"])
def test_empty_collection_finds_nothing(tmp_path: Path, question: str) -> None:
    with opened(tmp_path / "lexical.sqlite3") as file:
        number = file.number(("uuid",))
        with file.transaction() as db:
            assert rank_by_words(db, number, question, 10).order == []


def test_frequent_words_are_omitted_where_they_cost_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "lexical.sqlite3") as file:
        assert set(best(file, "common rarest else")) == {"0#0", "1#0", "2#0", "3#0"}
        monkeypatch.setattr(ranking, "_POSTINGS", 2)
        assert set(best(file, "common rarest else")) == {"2#0", "3#0"}
        assert len(best(file, "common")) == 3


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
            return dict(rank_by_words(db, file_number, "income tax", 10).order)

    with opened(tmp_path / "lexical.sqlite3") as file:
        index, file_number = LexicalIndex(file, ("uuid",)), file.number(("uuid",))
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
    with opened(tmp_path / "lexical.sqlite3") as file:
        LexicalIndex(file, ("uuid",)).upsert(records)
        number = file.number(("uuid",))
        with file.transaction() as db:
            found = rank_by_words(db, number, "income", 2)
    assert [id_ for id_, _ in found.order] == ["a#3", "a#4"]
    assert found.scores.keys() == {"a#0", "a#3", "a#4"}
