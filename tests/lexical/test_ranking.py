from pathlib import Path

import pytest

from ingestor.lexical import ranking
from ingestor.lexical.file import LexicalFile
from ingestor.lexical.index import LexicalIndex
from ingestor.lexical.ranking import ranked
from tests.chroma.laws import record
from tests.lexical.worlds import opened

TEXTS = ["common words alone", "common words and rare ones", "common rare rarest", "something else"]


def best(file: LexicalFile, question: str) -> list[str]:
    LexicalIndex(file, "uuid").upsert([record(f"{n}#0", text, n) for n, text in enumerate(TEXTS)])
    number = file.number("uuid")
    with file.transaction() as db:
        found = ranked(db, number, question, 10)
    assert all(0 < score <= found.most * 1.001 for _, score in found.order)
    assert [score for _, score in found.order] == sorted((score for _, score in found.order), reverse=True)
    return [id_ for id_, _ in found.order]


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
