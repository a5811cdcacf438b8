from pathlib import Path

import pytest

from ingestor.lexical import ranking
from ingestor.lexical.file import LexicalFile
from ingestor.lexical.index import LexicalIndex
from ingestor.lexical.ranking import asked, ranked
from tests.chroma.laws import record
from tests.lexical.worlds import opened

TEXTS = ["common words alone", "common words and rare ones", "common rare rarest", "something else"]


def filled(file: LexicalFile) -> int:
    LexicalIndex(file, "uuid").upsert([record(f"{n}#0", text, n) for n, text in enumerate(TEXTS)])
    return file.number("uuid")


def best(file: LexicalFile, question: str) -> list[str]:
    number = filled(file)
    with file.transaction() as db:
        wanted = asked(db, number, question)
        found = [] if wanted is None else ranked(db, number, wanted, 10)
    assert all(0 < score <= (wanted.most if wanted else 0) * 1.001 for _, score in found)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    return [id_ for id_, _ in found]


def test_rare_words_weigh_most(tmp_path: Path) -> None:
    with opened(tmp_path / "lexical.sqlite3") as file:
        assert best(file, "rarest something")[0] in ("2#0", "3#0")
        assert best(file, "rare ones") == ["1#0", "2#0"]
        assert best(file, "unheard of") == []


def test_frequent_words_are_left_out_where_they_cost_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "lexical.sqlite3") as file:
        assert set(best(file, "common rarest else")) == {"0#0", "1#0", "2#0", "3#0"}
        monkeypatch.setattr(ranking, "_POSTINGS", 2)
        assert set(best(file, "common rarest else")) == {"2#0", "3#0"}
        assert len(best(file, "common")) == 3
