"""Connections that are kept: of the file that is there now, each for one thread at a time."""

from contextlib import closing
from pathlib import Path

import pytest

from ingestor.lexical.check import words_of
from ingestor.lexical.file import LexicalFile, LexicalReaders, Unusable
from ingestor.lexical.index import LexicalIndex
from ingestor.lexical.ranking import rank_by_words
from tests.chroma.laws import record
from tests.lexical.worlds import opened


def found(readers: LexicalReaders, question: str) -> list[str]:
    with words_of(readers.connect(), ("uuid",)) as words:
        assert words.db is not None
        assert words.number is not None
        return [id_ for id_, _ in rank_by_words(words.db, words.number, question, 9).order]


def test_connection_is_kept_and_sees_what_is_written_later(tmp_path: Path) -> None:
    path = tmp_path / "lexical.sqlite3"
    with opened(path) as file, closing(LexicalReaders(path)) as readers:
        LexicalIndex(file, ("uuid",)).upsert(
            [record("a#0", "one shelf", 1), record("b#0", "other things", 1)]
        )
        assert found(readers, "shelf") == ["a#0"]
        with readers.connect() as first:
            pass
        LexicalIndex(file, ("uuid",)).upsert([record("b#0", "the other shelf", 1)])
        assert set(found(readers, "shelf")) == {"a#0", "b#0"}
        with readers.connect() as again, readers.connect() as another:
            assert again is first
            assert another is not first


def test_file_that_was_rebuilt_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "lexical.sqlite3"
    with closing(LexicalReaders(path)) as readers:
        for text in ("one shelf", "two"):
            with opened(path) as file:
                LexicalIndex(file, ("uuid",)).upsert([record("a#0", text, 1)])
                assert found(readers, text) == ["a#0"]
            for suffix in ("", "-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            with pytest.raises(Unusable), readers.connect():
                pass


def test_connection_that_met_damage_is_not_used_again(tmp_path: Path) -> None:
    path = tmp_path / "lexical.sqlite3"
    with opened(path) as file, closing(LexicalReaders(path)) as readers:
        LexicalIndex(file, ("uuid",)).upsert([record("a#0", "one shelf", 1)])
        with pytest.raises(Unusable, match="no such table"), readers.connect() as met:
            met.execute("SELECT * FROM elsewhere")
        with readers.connect() as other:
            assert other is not met


def test_file_of_other_rules_is_unusable(tmp_path: Path) -> None:
    path = tmp_path / "lexical.sqlite3"
    LexicalFile(path).close()
    path.write_bytes(b"damage" * 1000)
    with closing(LexicalReaders(path)) as readers, pytest.raises(Unusable), readers.connect():
        pass
