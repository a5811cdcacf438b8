"""The figures as Prometheus sees them, and what they say of a pipeline that stalls."""

from collections import Counter

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from ingestor.engine.embedding import Counts
from ingestor.pipeline.actions import MOST_REASONS, WorkCounts
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


@pytest.mark.parametrize(
    "line",
    [
        'ingestor_documents{collection="docs",source="docs",state="waiting"} 2.0',
        'ingestor_lag_seconds{source="docs"} 60.0',
        'ingestor_lag_seconds{source="wiki"} 0.0',
        'ingestor_source_last_listing_timestamp_seconds{source="docs"} 900.0',
        'ingestor_source_listing_interval_seconds{source="wiki"} 60.0',
        'ingestor_source_listing_started_timestamp_seconds{source="wiki"} 990.0',
        'ingestor_source_held{source="wiki"} 1.0',
        'ingestor_quarantined_documents{reason="password needed",source="docs"} 2.0',
        'ingestor_documents_in_flight{source="docs"} 3.0',
        'ingestor_swap_documents{collection="docs",which="done"} 3.0',
        "ingestor_embedded_texts_total 100.0",
        "ingestor_cached_texts_total 50.0",
        "ingestor_embedding_queue_texts 6.0",
        'ingestor_document_changes_total{kind="added",source="docs"} 4.0',
        'ingestor_document_failures_total{reason="password needed",source="docs"} 2.0',
        'ingestor_document_retries_total{reason="no answer",source="docs"} 5.0',
        'ingestor_source_last_success_timestamp_seconds{source="docs"} 950.0',
        "ingestor_config_error 1.0",
        "ingestor_config_restart_pending 0.0",
        "ingestor_state_writable 1.0",
        'ingestor_collection_readable{collection="docs"} 1.0',
        'ingestor_collection_writable{collection="docs"} 0.0',
        'ingestor_collection_records{collection="docs",role="previous"} 38.0',
        'ingestor_folder_bytes{folder="chroma"} 4096.0',
        'ingestor_dead_bytes{file="cache"} 512.0',
        'ingestor_records_written_total{kind="added"} 40.0',
        'ingestor_check_recall{collection="docs",questions="faq.csv"} 0.75',
        'ingestor_check_fell{collection="docs",questions="faq.csv"} 0.125',
        'ingestor_check_passed{collection="docs",questions="faq.csv"} 0.0',
        'ingestor_check_timestamp_seconds{collection="docs",questions="faq.csv"} 950.0',
        "ingestor_chroma_up 1.0",
        "ingestor_chroma_restarts_total 1.0",
        'ingestor_stage_seconds_total{stage="read"} 1.5',
        'ingestor_disk_free_bytes{folder="state"} 7.0',
    ],
)
def test_metric_has_its_labels_and_value(line: str) -> None:
    assert line in exposed().splitlines()


def test_kinds_of_reasons_name_no_document() -> None:
    reasons = [("docs", f"page {n} of '/home/ada/{n}.pdf' is broken", 1) for n in range(50)]
    assert kinds_of_reasons(reasons) == {("docs", "page of"): 50}
    large = ("docs", "/home/ada/a.txt has 900 bytes, more than max_size (50): exclude it", 1)
    assert kinds_of_reasons([large]) == {("docs", "has bytes more than max_size"): 1}


def test_kinds_of_reasons_are_few() -> None:
    words = ["".join(chr(97 + int(digit)) for digit in str(n)) for n in range(200)]
    found = kinds_of_reasons([("docs", word, 1) for word in words])
    assert len(found) == MOST_KINDS + 1
    assert sum(found.values()) == 200


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
        counts.add_retry("docs", f"/home/ada/{number}.txt: no answer in {number} s")
        counts.note_failure("docs", "".join(chr(97 + int(digit)) for digit in str(number)))
    assert list(counts.retries.values()) == [50]
    for number in range(2 * MOST_REASONS):
        counts.note_failure(
            "docs", "x" * (number % 60) + "".join(chr(97 + int(digit)) for digit in str(number))
        )
    assert len(counts.failures) <= MOST_REASONS + 1
    assert counts.failures.total() == 50 + 2 * MOST_REASONS


def test_only_what_reaches_readers_is_a_success() -> None:
    counts = WorkCounts()
    counts.note_write("docs", "added", 5.0)
    counts.note_write("docs", "withdrawn", 9.0)
    counts.note_write("docs", "unchanged", 7.0)
    assert counts.successes == {"docs": 7.0}
    assert counts.changes == {("docs", "added"): 1, ("docs", "withdrawn"): 1}
