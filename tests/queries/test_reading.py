"""The spellings of a document's name that commands take, and the questions that they suggest."""

from pathlib import Path

import pytest

from ingestor.core.decisions import Changes
from ingestor.core.escape import line, raw
from ingestor.model import Item
from ingestor.queries.access import BadRequest
from ingestor.queries.reading import find_documents, rank
from ingestor.state.journal import Journal
from tests.state.journals import C, S

MEMBER, ODD, WINDOWS = "mail/box.mbox/!/0@x.eml", "notes/new\nline.md", r"a\new.md"


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path / "journal.sqlite3", synchronous="OFF")
    uris = {MEMBER: "/docs/mail/box.mbox!/0@x.eml", ODD: f"/docs/{ODD}", WINDOWS: f"/docs/{WINDOWS}"}
    items = tuple(Item(key, "1", uri, 3, 5.0) for key, uri in uris.items())
    journal.observe(S, C, Changes(items, ()), remove_at=100.0)
    return journal


@pytest.mark.parametrize(
    ("wanted", "key"),
    [
        *((name, MEMBER) for name in (MEMBER, "mail/box.mbox!/0@x.eml", "/docs/mail/box.mbox!/0@x.eml")),
        ("/docs/mail/box.mbox/!/0@x.eml", MEMBER),
        *((name, ODD) for name in (ODD, line(ODD), line(f"/docs/{ODD}"))),
        (WINDOWS, WINDOWS),
    ],
)
def test_document_is_found_by_each_spelling(journal: Journal, wanted: str, key: str) -> None:
    assert [entry.key for entry in find_documents(journal, wanted)] == [key]
    journal.close()


@pytest.mark.parametrize("wanted", ["notes/new", "mail/box.mbox", r"\ud800", r"\u0000"])
def test_document_with_other_name_is_not_found(journal: Journal, wanted: str) -> None:
    with pytest.raises(BadRequest, match="no document"):
        find_documents(journal, wanted)
    journal.close()


@pytest.mark.parametrize("text", ["a\nb\tc", "bell \x07", "to the left \u202e.md", "plain"])
def test_escaped_name_is_read_back(text: str) -> None:
    assert raw(line(text)) == text


@pytest.mark.parametrize(
    ("titles", "question"),
    [
        ([], None),
        (["", "7."], "7."),
        (["x" * 61], None),
        (["Salt", "Bread, in numbers"], "Bread, in numbers"),
        (["A rather long heading of a section", "3. Is it open?"], "Is it open?"),
        (["How long?", "How long may I keep a book?", "2.1 Why?"], "How long may I keep a book?"),
        (["b?", "a?"], "a?"),
        (["It came without bits. Is that so?", "Is it open?"], "Is it open?"),
    ],
)
def test_suggested_question_is_best_heading(titles: list[str], question: str | None) -> None:
    assert next(iter(rank(titles)), None) == question
