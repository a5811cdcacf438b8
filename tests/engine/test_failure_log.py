"""Failures of documents in the log: few of a kind, and each version once."""

import logging
from dataclasses import replace

import pytest

from ingestor.core.decisions import Failure
from ingestor.core.entries import EditionName, Entry
from ingestor.engine.outcomes import ALIKE, FailureLog
from ingestor.model import DocumentId, Item, SourceName

WORDS = "quarantined %s (%s): %s"


def entry(key: str, version: str = "1", edition: str = "docs") -> Entry:
    item = Item(key, version, f"/docs/{key}")
    name = EditionName(edition)
    return Entry(1, DocumentId(key), SourceName("s"), name, key, item, None, None, None, None, None, 0)


def test_version_that_fails_in_two_editions_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    log, failure = FailureLog(), Failure("is damaged", 1, 0.0, quarantined=True)
    first = entry("a.pdf")
    for each in (first, replace(first, collection=EditionName("docs--2")), entry("a.pdf", "2")):
        log.note(each, "document_quarantined", WORDS, failure)
    warned = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert warned[:1] == ["quarantined a.pdf (s): is damaged"]
    assert len(warned) == 2


def test_documents_that_fail_alike_are_logged_up_to_a_number(caplog: pytest.LogCaptureFixture) -> None:
    log, failure = FailureLog(), Failure("is damaged", 1, 0.0, quarantined=True)
    for number in range(10):
        log.note(entry(f"{number}.pdf"), "document_quarantined", WORDS, failure)
    warned = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert len(warned) == ALIKE
    assert warned[-1].endswith("; more like this: see `ingestor status`")
