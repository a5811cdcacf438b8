"""The law of the ranking: as SQLite's FTS5 ranks the same records, to the last bit, after any history."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestor.lexical import postings, ranking
from ingestor.lexical.file import LexicalFile
from ingestor.lexical.index import LexicalIndex
from ingestor.lexical.ranking import asked, ranked
from ingestor.model import RecordId
from tests.chroma.laws import record
from tests.lexical.worlds import opened, postings_kept, postings_wanted

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


@settings(max_examples=60, deadline=None)
@given(STEPS, TEXTS, st.integers(1, 12), st.sampled_from([3, 10_000]), st.sampled_from([1, 3, 12]))
def test_the_ranking_is_that_of_fts5(
    steps: list[tuple[str, object]], question: str, n: int, bound: int, bits: int
) -> None:
    with file() as lexical, pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "_POSTINGS", bound)
        patch.setattr(postings, "_BITS", bits)  # so that few records fill several blocks
        patch.setattr(postings, "ROWS", 1 << bits)
        played(lexical, steps)
        number = lexical.number("uuid")
        with lexical.transaction() as db:
            assert postings_kept(db, number) == postings_wanted(db, number)
            wanted = asked(db, number, question)
            found = [] if wanted is None else ranked(db, number, wanted, n)
            assert found == ([] if wanted is None else by_fts5(db, number, list(wanted.weights), n))
            if wanted is not None:
                pages = [ranked(db, number, wanted, 1, at) for at in range(n)]
                assert sorted(row for page in pages for row in page) == sorted(found)
                assert all(0 < score <= wanted.most * 1.001 for _, score in found)
            db.execute("DROP TABLE IF EXISTS temp.f")


def test_a_term_that_fills_a_record_is_counted_up_to_a_bound() -> None:
    assert postings.counted(" ".join(["x"] * 3)) == {"x": 3, "": 3}
    assert postings.counted(" ".join(["x"] * (postings.MOST + 5))) == {"x": postings.MOST, "": postings.MOST}
    assert postings.counted("") == {"": 0}
    assert postings.counted(None) == {}


def test_the_law_finds_a_ranking_that_forgets_what_records_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "_remove", lambda *_: None)
    with file() as lexical:
        played(lexical, [("upsert", {1: "one record", 2: "the index"}), ("upsert", {1: "other"})])
        with lexical.transaction() as db:
            assert postings_kept(db, 1) != postings_wanted(db, 1)
