"""The law of the index: after any history of writes, every table says what the terms of the records say."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, chain
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.lexical import index as lexical_index
from ingestor.lexical import ranking
from ingestor.lexical.corrections import Correction
from ingestor.lexical.file import LexicalFile
from ingestor.lexical.index import LexicalIndex
from ingestor.lexical.ranking import rank_by_words
from ingestor.lexical.terms import question_words
from ingestor.model import RecordId
from tests.chroma.laws import record
from tests.examples import examples
from tests.lexical.worlds import kept, opened, wanted

WORDS = ["the", "of", "record", "ERR_4711", "Häuser", "index", "v1.2.3", "書庫", "a.b", "x", "C++", "d->e"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join) | st.text(max_size=30)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), st.dictionaries(st.integers(0, 14), TEXTS, max_size=8)),
        st.tuples(st.just("drop"), st.sets(st.integers(0, 14), max_size=4)),
    ),
    min_size=1,
    max_size=8,
)


def played(file: LexicalFile, steps: Sequence[tuple[str, object]]) -> LexicalIndex:
    index = LexicalIndex(file, ("uuid",))
    for deed, what in steps:
        if deed == "upsert":
            assert isinstance(what, Mapping)
            index.upsert([record(f"{at}#0", text, at) for at, text in what.items()])
        else:
            assert isinstance(what, set)
            index.drop([RecordId(f"{at}#0") for at in what])
    return index


@contextmanager
def file() -> Iterator[LexicalFile]:
    with TemporaryDirectory() as folder, opened(Path(folder) / "lexical.sqlite3") as found:
        yield found


def rarest(db: sqlite3.Connection, question: str, bound: int) -> set[str]:
    """The words that are looked for: the rarest, until they are in more than ``bound`` records."""
    rows = [set(terms.split()) for (terms,) in db.execute("SELECT terms FROM records_1")]
    terms = set(chain(*question_words(question, ["en", "de"])))
    holding = {term: sum(term in row for row in rows) for term in terms}
    in_order = sorted((held, term) for term, held in holding.items() if held)
    sums = accumulate(held for held, _ in in_order)
    pairs = zip(in_order, sums, strict=True)
    return {term for at, ((_, term), sum_) in enumerate(pairs) if not at or sum_ <= bound}


@examples(160)
@given(
    STEPS,
    st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join),
    st.sampled_from([1, 3, 10_000]),
)
def test_index_holds_the_terms_of_the_records(
    steps: list[tuple[str, object]], question: str, bound: int
) -> None:
    with file() as lexical, pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "_POSTINGS", bound)
        patch.setattr(ranking, "correct", lambda *_: Correction())
        played(lexical, steps)
        with lexical.transaction() as db:
            assert kept(db, 1) == wanted(db, 1)
            words = rarest(db, question, bound)
            found = rank_by_words(db, 1, question, 20)
            rows = db.execute("SELECT id, terms FROM records_1").fetchall()
            assert {id_ for id_, _ in found.order} == {
                id_ for id_, terms in rows if words & set(terms.split())
            }
            assert all(0 < score < found.most for _, score in found.order)


def test_record_that_is_written_as_it_was_keeps_its_row() -> None:
    with file() as lexical:
        played(lexical, [("upsert", {1: "one record", 2: "the index"})])
        before = rows(lexical)
        played(lexical, [("upsert", {1: "one record", 2: "the other index"})])
        assert rows(lexical)["1#0"] == before["1#0"]


def rows(lexical: LexicalFile) -> dict[str, int]:
    with lexical.transaction() as db:
        return dict(db.execute("SELECT id, row FROM records_1").fetchall())


@pytest.mark.parametrize("steps", [[("drop", {1})], [("upsert", {1: "another"})], [("upsert", {3: "more"})]])
def test_law_finds_a_vocabulary_that_is_not_kept_up(
    steps: list[tuple[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with file() as lexical:
        played(lexical, [("upsert", {1: "one record", 2: "the index"})])
        monkeypatch.setattr(lexical_index, "change_vocabulary", lambda *_: None)
        played(lexical, steps)
        with lexical.transaction() as db:
            assert kept(db, 1) != wanted(db, 1)


def test_discarded_collection_leaves_no_table() -> None:
    with file() as lexical:
        with lexical.transaction() as db:
            before = set(db.execute("SELECT name FROM sqlite_master").fetchall())
        played(lexical, [("upsert", {1: "one record"})])
        lexical.discard(("uuid",))
        with lexical.transaction() as db:
            assert set(db.execute("SELECT name FROM sqlite_master").fetchall()) == before
