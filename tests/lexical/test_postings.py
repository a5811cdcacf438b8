"""The law of the ranking: as SQLite's FTS5 ranks the same records, to the last bit, after any history."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, chain
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestor.lexical import postings, ranking
from ingestor.lexical.file import LexicalFile
from ingestor.lexical.index import LexicalIndex
from ingestor.lexical.ranking import ranked
from ingestor.lexical.terms import question_words
from ingestor.model import RecordId
from tests.chroma.laws import record
from tests.lexical.worlds import lengths_kept, lengths_wanted, opened, postings_kept, postings_wanted

WORDS = ["the", "of", "record", "ERR_4711", "Häuser", "index", "v1.2.3", "書庫", "a.b", "x"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), st.dictionaries(st.integers(0, 14), TEXTS, max_size=8)),
        st.tuples(st.just("drop"), st.sets(st.integers(0, 14), max_size=4)),
    ),
    min_size=1,
    max_size=8,
)


def played(file: LexicalFile, steps: Sequence[tuple[str, object]]) -> LexicalIndex:
    index = LexicalIndex(file, "uuid")
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


def by_fts5(db: sqlite3.Connection, number: int, words: Sequence[str], n: int) -> list[tuple[str, float]]:
    """The ranking of decision 0041, before there were postings of our own."""
    db.execute("CREATE VIRTUAL TABLE temp.f USING fts5(terms, tokenize=\"ascii tokenchars '_.:@/\\+&-,#>'\")")
    db.execute(f"INSERT INTO temp.f (rowid, terms) SELECT row, terms FROM records_{number}")
    query = f"""SELECT id, -found.rank FROM (SELECT rowid AS row, rank FROM temp.f
                WHERE f MATCH ? ORDER BY rank LIMIT ?) AS found JOIN records_{number} USING (row)"""
    rows = db.execute(query, (" OR ".join(f'"{word}"' for word in words), n)).fetchall()
    return sorted(rows, key=lambda row: (-row[1], row[0]))


@contextmanager
def small_blocks(bits: int) -> Iterator[pytest.MonkeyPatch]:
    """So that few records fill several blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postings, "_BITS", bits)
        patch.setattr(postings, "ROWS", 1 << bits)
        patch.setattr(postings, "_SPARSE", max(1, (1 << bits) // 4))
        yield patch


def by_counting(db: sqlite3.Connection, number: int, question: str, bound: int) -> list[str]:
    """The words that are looked for: the rarest, until they are in more than ``bound`` records."""
    rows = [set(terms.split(" ")) for (terms,) in db.execute(f"SELECT terms FROM records_{number}")]
    terms = set(chain(*question_words(question, ["en", "de"])))
    holding = {term: sum(term in row for row in rows) for term in terms}
    rarest = sorted((held, term) for term, held in holding.items() if held)
    sums = accumulate(held for held, _ in rarest)
    return [
        term for at, ((_, term), sum_) in enumerate(zip(rarest, sums, strict=True)) if not at or sum_ <= bound
    ]


@settings(max_examples=60, deadline=None)
@given(STEPS, TEXTS, st.integers(1, 12), st.sampled_from([1, 3, 10_000]), st.sampled_from([1, 3, 13]))
def test_the_ranking_is_that_of_fts5(
    steps: list[tuple[str, object]], question: str, n: int, bound: int, bits: int
) -> None:
    with file() as lexical, small_blocks(bits) as patch:
        patch.setattr(ranking, "_POSTINGS", bound)
        played(lexical, steps)
        number = lexical.number("uuid")
        with lexical.transaction() as db:
            assert postings_kept(db, number) == postings_wanted(db, number)
            assert lengths_kept(db, number) == lengths_wanted(db, number)
            words = by_counting(db, number, question, bound)
            found = ranked(db, number, question, n)
            assert found.order == (by_fts5(db, number, words, n) if words else [])
            assert all(0 < score <= found.most * 1.001 for _, score in found.order)
            db.execute("DROP TABLE IF EXISTS temp.f")


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sets(st.integers(0, 40), max_size=12), max_size=40), st.sampled_from([2, 3]))
def test_rows_that_count_no_longer_are_a_bounded_part(writes: list[set[int]], bits: int) -> None:
    with file() as lexical, small_blocks(bits):
        for turn, which in enumerate(writes):
            played(lexical, [("upsert", dict.fromkeys(which, f"record {turn}"))])
            if turn % 3 == 2:
                played(lexical, [("drop", {at for at in range(40) if at % 5 != turn % 5})])
            with lexical.transaction() as db:
                lengths = postings.read_lengths(db, 1)
                assert lengths_kept(db, 1) == lengths_wanted(db, 1)
                assert len(lengths.values) <= 10 * np.count_nonzero(lengths.values) + 3 * postings.ROWS


def test_a_record_that_is_written_as_it_was_keeps_its_row() -> None:
    with file() as lexical:
        played(lexical, [("upsert", {1: "one record", 2: "the index"})])
        played(lexical, [("upsert", {1: "one record", 2: "the other index"})])
        with lexical.transaction() as db:
            assert db.execute("SELECT id, row FROM records_1 ORDER BY id").fetchall() == [
                ("1#0", 0),
                ("2#0", 2),
            ]


def test_a_term_that_fills_a_record_is_counted_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "MOST", 3)
    with file() as lexical:
        played(lexical, [("upsert", {1: " ".join(["x"] * 5)})])
        with lexical.transaction() as db:
            assert postings_kept(db, 1) == {(0, "x"): 3}
            assert lengths_kept(db, 1) == {0: 5}


@pytest.mark.parametrize("deed", ["strike", "append"])
def test_the_laws_find_blocks_that_are_not_kept_up(deed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "_set_lengths", lambda *_: None)
    if deed == "append":
        monkeypatch.setattr(
            postings, "append", lambda _db, _number, records: range(5, 5 + len(list(records)))
        )
    with file() as lexical:
        played(lexical, [("upsert", {1: "one record", 2: "the index"})])
        with lexical.transaction() as db:
            assert lengths_kept(db, 1) != lengths_wanted(db, 1)
