"""Failures of documents in the log: few of a kind, each version once. Warnings about a source's languages."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ingestor.core.decisions import Failure
from ingestor.core.entries import EditionName, Entry
from ingestor.core.events import name_all
from ingestor.engine.outcomes import ALIKE, LINE, FailureLog, LanguageWarnings
from ingestor.model import Item
from ingestor.state.editions import Notices
from ingestor.state.journal import Journal
from tests.engine.worlds import entry_of, lines


def entry(key: str, version: str = "1") -> Entry:
    return entry_of(1, key, item=Item(key, version, f"/docs/{key}"))


DAMAGED = Failure("is damaged", 1, 0.0, quarantined=True)


def test_version_that_fails_in_two_editions_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    log, known = FailureLog(), entry("a.pdf")
    for each in (known, replace(known, edition=EditionName("docs--2")), entry("a.pdf", "2")):
        log.note(each, "document_quarantined", DAMAGED)
    first, second = lines(caplog, "document_quarantined")
    assert first == ("WARNING", "quarantined a.pdf (s): is damaged")
    assert second[0] == "WARNING"


def test_repeated_failures_of_one_document_leave_others_their_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = FailureLog()
    for key in ["a.pdf"] * 10 + ["b.pdf"]:
        log.note(entry(key), "document_failed", DAMAGED)
    warned = [words for level, words in lines(caplog, "document_failed") if level == "WARNING"]
    assert [words.split()[0] for words in warned] == ["a.pdf", "b.pdf"]


def test_name_with_line_end_takes_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    FailureLog().note(entry("two\nlines.pdf"), "document_quarantined", DAMAGED)
    assert lines(caplog, "document_quarantined") == [
        ("WARNING", "quarantined two\\nlines.pdf (s): is damaged")
    ]
    assert name_all(["two\nlines.pdf", "b"]) == "two\\nlines.pdf and 1 more document"


def test_equal_failures_are_logged_up_to_a_number(caplog: pytest.LogCaptureFixture) -> None:
    log = FailureLog()
    for number in range(10):
        log.note(entry(f"{number}.pdf"), "document_quarantined", DAMAGED)
    warned = [words for level, words in lines(caplog, "document_quarantined") if level == "WARNING"]
    assert len(warned) == ALIKE
    assert warned[-1].endswith("; more like this: see `ingestor status`")


@pytest.mark.parametrize(
    ("key", "reason", "expected"),
    [
        (
            "b/report.pdf",
            "is a damaged or cut-off PDF (Failed to load document (PDFium: Data format error)); repair it",
            "quarantined b/report.pdf (s): is a damaged or cut-off PDF; repair it",
        ),
        (
            "bad.pdf",
            "looks like binary data of no known format (application/octet-stream), which no installed parser"
            " reads; exclude it, or convert it to text, Markdown or HTML",
            "quarantined bad.pdf (s): looks like binary data of no known format, which no installed"
            " parser reads",
        ),
        (
            "quarterly-reports-of-the-northern-region/2026/third.docx",
            "is damaged or cut off (File is not a zip file); save it again, or exclude it",
            "quarantined …-of-the-northern-region/2026/third.docx (s): is damaged or cut off; save it again",
        ),
        ("a.md", "x" * 200, f"quarantined a.md (s): {'x' * 76} …"),
    ],
)
def test_long_line_omits_details_then_remedies(
    caplog: pytest.LogCaptureFixture, key: str, reason: str, expected: str
) -> None:
    FailureLog().note(entry(key), "document_quarantined", Failure(reason, 1, 0.0, quarantined=True))
    (logged,) = caplog.records
    assert (logged.getMessage(), vars(logged)["reason"]) == (expected, reason)
    assert len(logged.getMessage()) <= LINE


def test_language_warnings_count_each_document_once_by_source_and_model(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite3")
    warnings, notices = LanguageWarnings(journal), Notices(journal)

    def add(source: str, name: int, *, model: str = "old", unknown: int = 0, language: str = "de") -> None:
        tools = SimpleNamespace(model="small-en", count_unknown=len, embedder_recipe=model)
        record = SimpleNamespace(metadata={"language": language})
        prepared = SimpleNamespace(records=(record,), tokens=(unknown, 100))
        entry = SimpleNamespace(source=source, document_id=str(name))
        warnings.add(cast(Any, entry), cast(Any, prepared), cast(Any, SimpleNamespace(tools=tools)))

    for name in (1, 2, 1, 2, 2):
        add("a", name)
    add("a", 3, model="new")
    add("b", 3)
    assert not notices.all("language"), "three documents of one source and model are needed"
    add("a", 3)
    assert [*notices.all("language")] == ["a"]
    assert str(notices.get("language", "a")).startswith("3 of 3 documents are in a language")
    for _ in range(3):
        add("c", 1, unknown=40)
    assert notices.get("tokens", "c") is None
    add("c", 2, unknown=40)
    assert str(notices.get("tokens", "c")).startswith(
        "80 of 200 sampled tokens (40 %) are unknown to small-en"
    )
    for name in range(4, 7):
        add("a", name, language="en-US")
    assert notices.get("language", "a") is None, "most documents are in English after all"
    journal.close()
