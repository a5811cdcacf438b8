"""The figures as Prometheus sees them, and what they say of a pipeline that stalls."""

from collections import Counter

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from ingestor.engine.embedding import Counts
from ingestor.engine.outcomes import MOST_REASONS, WorkCounts
from ingestor.service.metrics import MOST_KINDS, kinds_of_reasons, metrics
from ingestor.service.situation import CollectionFigures, Situation, SourceFigures, obstacles
from ingestor.state.run_status import CheckResult, Live, RunningListing

FOUND = Situation(
    at=1000.0,
    documents={("docs", "docs", "settled"): 7, ("docs", "docs", "waiting"): 2},
    sources={
        "docs": SourceFigures(900.0, interval=300.0, oldest=940.0, last_success=950.0),
        "wiki": SourceFigures(None, held=True, interval=60.0),
    },
    reasons=[("docs", "password needed", 2), ("docs", "page 7 of '/a/b.pdf' is broken: xref 12", 1)],
    live=Live(
        in_flight={"docs": 3},
        listing={"wiki": RunningListing(990.0, 0, "")},
        tally={"added": 4, "records_added": 40},
        config_error="line 3",
    ),
    work=WorkCounts(
        changes=Counter({("docs", "added"): 4}),
        failures=Counter({("docs", "password needed"): 2}),
        retries=Counter({("docs", "no answer"): 5}),
    ),
    collections={"docs": CollectionFigures(writable=False, records={"live": 40, "previous": 38})},
    sizes={"chroma": 4096},
    dead={"cache": 512},
    swaps={"docs": (3, 9)},
    embedded=Counts(texts=100, tokens=5000, cached=50, seconds=2.5, waiting=6, busy_for=0.5),
    chroma_restarts=1,
    disk_free={"state": 7},
    checks=[CheckResult("docs", "faq.csv", 0.75, 0.125, False, 950.0)],
    stages={"read": 1.5, "write": 0.5},
)


UNUSABLE = {"docs": CollectionFigures(), "mail": CollectionFigures(readable=False, writable=False)}


class Fixed(Collector):
    def __init__(self, found: Situation) -> None:
        self._found = found

    def collect(self):
        return metrics(self._found)


def exposed(found: Situation = FOUND) -> str:
    registry = CollectorRegistry()
    registry.register(Fixed(found))
    return generate_latest(registry).decode()


LINES = """
documents{collection="docs",source="docs",state="waiting"} 2.0
lag_seconds{source="docs"} 60.0
lag_seconds{source="wiki"} 0.0
source_last_listing_timestamp_seconds{source="docs"} 900.0
source_listing_interval_seconds{source="wiki"} 60.0
source_listing_started_timestamp_seconds{source="wiki"} 990.0
source_held{source="wiki"} 1.0
quarantined_documents{reason="password needed",source="docs"} 2.0
documents_in_flight{source="docs"} 3.0
swap_documents{collection="docs",which="done"} 3.0
embedded_texts_total 100.0
cached_texts_total 50.0
embedding_queue_texts 6.0
document_changes_total{kind="added",source="docs"} 4.0
document_failures_total{reason="password needed",source="docs"} 2.0
document_retries_total{reason="no answer",source="docs"} 5.0
source_last_success_timestamp_seconds{source="docs"} 950.0
config_error 1.0
config_restart_pending 0.0
state_writable 1.0
collection_readable{collection="docs"} 1.0
collection_writable{collection="docs"} 0.0
collection_records{collection="docs",role="previous"} 38.0
folder_bytes{folder="chroma"} 4096.0
dead_bytes{file="cache"} 512.0
records_written_total{kind="added"} 40.0
check_recall{collection="docs",questions="faq.csv"} 0.75
check_fell{collection="docs",questions="faq.csv"} 0.125
check_passed{collection="docs",questions="faq.csv"} 0.0
check_timestamp_seconds{collection="docs",questions="faq.csv"} 950.0
chroma_up 1.0
chroma_restarts_total 1.0
stage_seconds_total{stage="read"} 1.5
disk_free_bytes{folder="state"} 7.0
"""


def test_metric_has_its_labels_and_value() -> None:
    told = exposed().splitlines()
    assert [line for line in LINES.split("\n")[1:-1] if f"ingestor_{line}" not in told] == []


def test_kinds_of_reasons_name_no_document_and_are_few() -> None:
    reasons = [("docs", f"page {n} of '/home/ada/{n}.pdf' is broken", 1) for n in range(50)]
    assert kinds_of_reasons(reasons) == {("docs", "page of"): 50}
    large = ("docs", "/home/ada/a.txt has 900 bytes, more than max_size (50): exclude it", 1)
    assert kinds_of_reasons([large]) == {("docs", "has bytes more than max_size"): 1}
    found = kinds_of_reasons([("docs", letters(n), 1) for n in range(200)])
    assert (len(found), sum(found.values())) == (MOST_KINDS + 1, 200)


def letters(number: int) -> str:
    return "".join(chr(97 + int(digit)) for digit in str(number))


@pytest.mark.parametrize(
    ("found", "reasons"),
    [
        (Situation(), []),
        (Situation(chroma_up=False), ["Chroma does not answer"]),
        (Situation(chroma_loads=True), ["Chroma is loading a collection"]),
        (Situation(chroma_loads=True, chroma_up=False), ["Chroma does not answer"]),
        (Situation(live=Live(state_error="disk full")), ["the state folder cannot be written"]),
        (Situation(collections=UNUSABLE), ["a collection cannot be read", "a collection cannot be written"]),
        (
            Situation(collections=UNUSABLE, chroma_up=False, chroma_loads=True),
            ["Chroma does not answer", "a collection cannot be written"],
        ),
        (Situation(idle=100), ["the engine makes no progress"]),
        (Situation(embedded=Counts(busy_for=100)), ["the embedder makes no progress"]),
        (Situation(sources={"a": SourceFigures(interval=60)}), ["a source was never listed completely"]),
        (Situation(sources={"a": SourceFigures(interval=60, held=True)}), []),
        (Situation(sources={"a": SourceFigures()}), []),
    ],
)
def test_obstacles_of_readiness_are_named(found: Situation, reasons: list[str]) -> None:
    assert obstacles(found) == reasons


def test_reasons_of_retries_are_few_and_name_no_document() -> None:
    counts = WorkCounts()
    for number in range(50):
        counts.note_failure("docs", f"/home/ada/{number}.txt: no answer in {number} s", retried=True)
        counts.note_failure("docs", letters(number))
    assert list(counts.retries.values()) == [50]
    for number in range(2 * MOST_REASONS):
        counts.note_failure("docs", "x" * (number % 60) + letters(number))
    assert len(counts.failures) <= MOST_REASONS + 1
    assert counts.failures.total() == 50 + 2 * MOST_REASONS


def test_only_what_reaches_readers_is_a_success() -> None:
    counts = WorkCounts()
    counts.note_write("docs", "added", 5.0)
    counts.note_write("docs", "withdrawn", 9.0)
    counts.note_write("docs", "unchanged", 7.0)
    assert counts.successes == {"docs": 7.0}
    assert counts.changes == {("docs", "added"): 1, ("docs", "withdrawn"): 1}
