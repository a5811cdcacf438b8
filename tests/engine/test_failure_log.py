"""Failures of documents in the log: few of a kind, and each version once."""

import logging
from dataclasses import replace

import pytest

from ingestor.core.decisions import Failure
from ingestor.core.entries import EditionName, Entry
from ingestor.engine.notes import ALIKE, LINE, FailureLog
from ingestor.model import DocumentId, Item, SourceName


def entry(key: str, version: str = "1", edition: str = "docs") -> Entry:
    item = Item(key, version, f"/docs/{key}")
    name = EditionName(edition)
    return Entry(1, DocumentId(key), SourceName("s"), name, key, item, None, None, None, None, None, 0)


def test_version_that_fails_in_two_editions_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    log, failure = FailureLog(), Failure("is damaged", 1, 0.0, quarantined=True)
    first = entry("a.pdf")
    for each in (first, replace(first, collection=EditionName("docs--2")), entry("a.pdf", "2")):
        log.note(each, "document_quarantined", failure)
    warned = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert warned[:1] == ["quarantined a.pdf (s): is damaged"]
    assert len(warned) == 2


def test_equal_failures_are_logged_up_to_a_number(caplog: pytest.LogCaptureFixture) -> None:
    log, failure = FailureLog(), Failure("is damaged", 1, 0.0, quarantined=True)
    for number in range(10):
        log.note(entry(f"{number}.pdf"), "document_quarantined", failure)
    warned = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
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
