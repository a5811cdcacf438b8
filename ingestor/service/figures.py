"""The figures of a daemon as Prometheus' metrics. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from ingestor.core.work_counts import kind_of
from ingestor.service.situation import Situation

MOST_KINDS = 20  # of reasons; the rarest are counted together
Samples = Iterable[tuple[Sequence[str], float]]


def metrics(found: Situation) -> Iterator[Metric]:
    yield from _documents(found)
    yield from _sources(found)
    yield from _embedding(found)
    yield from _writes(found)
    yield from _chroma(found)
    free = [((name,), size) for name, size in found.disk_free.items()]
    yield _gauges("disk_free_bytes", "Free space of the file system.", ("folder",), free)
    yield from _checks(found)
    yield _gauge("engine_idle_seconds", "Seconds since the engine's loop last turned.", found.idle)
    yield from _health(found)


def _documents(found: Situation) -> Iterator[Metric]:
    yield _gauges(
        "documents", "Documents by state.", ("source", "collection", "state"), found.documents.items()
    )
    yield _gauges(
        "quarantined_documents",
        "Documents that cannot be read, by the kind of the reason.",
        ("source", "reason"),
        kinds_of_reasons(found.reasons).items(),
    )
    in_flight = [((source,), number) for source, number in found.in_flight.items()]
    yield _gauges("documents_in_flight", "Documents that are being prepared.", ("source",), in_flight)
    yield _gauge("documents_waiting", "Documents that are due or in flight.", found.waiting)
    swaps = [((name, "done"), done) for name, (done, _) in found.swaps.items()]
    swaps += [((name, "all"), whole) for name, (_, whole) in found.swaps.items()]
    yield _gauges("swap_documents", "Documents of a collection in building.", ("collection", "which"), swaps)


def _sources(found: Situation) -> Iterator[Metric]:
    sources = found.sources.items()
    lag = [
        ((name,), max(0.0, found.at - one.oldest) if one.oldest is not None else 0.0) for name, one in sources
    ]
    yield _gauges("lag_seconds", "Age of the oldest change that readers do not see yet.", ("source",), lag)
    listed = [((source,), one.last_listing) for source, one in sources if one.last_listing is not None]
    yield _gauges(
        "source_last_listing_timestamp_seconds", "Time of the last complete listing.", ("source",), listed
    )
    every = [((name,), one.interval) for name, one in sources if one.interval is not None]
    yield _gauges("source_listing_interval_seconds", "Seconds between listings.", ("source",), every)
    begun = [((name,), since) for name, since in found.listing.items()]
    yield _gauges("source_listing_started_timestamp_seconds", "Listings under way.", ("source",), begun)
    held = [((name,), float(one.held)) for name, one in sources]
    yield _gauges("source_held", "1: held, nothing is removed until a person decides.", ("source",), held)
    success = [((name,), one.last_success) for name, one in sources if one.last_success is not None]
    yield _gauges("source_last_success_timestamp_seconds", "Last listing or write.", ("source",), success)
    paused = [((name,), float(one.paused)) for name, one in sources]
    yield _gauges("source_paused", "1: paused by `ingestor pause`.", ("source",), paused)


def _embedding(found: Situation) -> Iterator[Metric]:
    yield _counter("embedded_texts", "Texts that the model embedded.", found.texts)
    yield _counter("embedded_tokens", "Tokens of these texts.", found.tokens)
    yield _counter("cached_texts", "Texts whose vectors were in the cache.", found.cached)
    yield _counter("embedding_seconds", "Time that the model took.", found.embedding_seconds)
    yield _gauge("embedding_queue_texts", "Texts that wait, or are embedded now.", found.queued_texts)
    yield _gauge("embedding_batch_seconds", "Age of the step under way.", found.batch_seconds)


def _writes(found: Situation) -> Iterator[Metric]:
    tally = found.tally
    changes = found.changes.items()
    yield _labelled("document_changes", "Documents brought in step.", changes, ("source", "kind"))
    records = _counters(tally, "records_added", "records_replaced", "records_patched", "records_dropped")
    yield _labelled("records_written", "Records written to Chroma.", records)
    reasons = ("source", "reason")
    yield _labelled("document_retries", "Failed attempts that are retried.", found.retries.items(), reasons)
    yield _labelled("document_failures", "Documents quarantined.", found.failures.items(), reasons)
    seconds = [((stage,), spent) for stage, spent in found.stages.items()]
    yield _labelled("stage_seconds", "Time that threads spent in a stage.", seconds, ("stage",))


def _chroma(found: Situation) -> Iterator[Metric]:
    yield _gauge("chroma_up", "1: Chroma answers.", float(found.chroma_up))
    yield _counter("chroma_restarts", "Restarts of the Chroma server by ingestor.", found.chroma_restarts)


def _health(found: Situation) -> Iterator[Metric]:
    yield _gauge("config_error", "1: the config file was refused, an earlier one runs.", float(found.refused))
    restart = float(found.restart_pending)
    yield _gauge("config_restart_pending", "1: the config file takes effect at a restart.", restart)
    yield _gauge("state_writable", "0: the state folder cannot be written.", float(found.state_writable))
    collections = found.collections.items()
    readable = [((name,), float(one.readable)) for name, one in collections]
    yield _gauges("collection_readable", "1: Chroma reads the collection.", ("collection",), readable)
    writable = [((name,), float(one.writable)) for name, one in collections]
    yield _gauges("collection_writable", "0: writes fail again and again.", ("collection",), writable)
    records = [((name, role), n) for name, one in collections for role, n in one.records.items()]
    yield _gauges("collection_records", "Records in Chroma, by role.", ("collection", "role"), records)
    sizes = [((name,), size) for name, size in found.sizes.items()]
    yield _gauges("folder_bytes", "Size of what we keep on disk.", ("folder",), sizes)
    free = [((name,), size) for name, size in found.dead.items()]
    yield _gauges("dead_bytes", "Pages of a file that hold nothing.", ("file",), free)


def _checks(found: Situation) -> Iterator[Metric]:
    labels, checks = ("collection", "questions"), found.checks.items()
    recall = [(key, each.recall) for key, each in checks]
    fell = [(key, each.fell) for key, each in checks]
    passed = [(key, float(each.passed)) for key, each in checks]
    at = [(key, each.at) for key, each in checks]
    yield _gauges("check_recall", "Mean recall at the last `evaluate --check`, 0 to 1.", labels, recall)
    yield _gauges("check_fell", "Fall of recall since the stored check, 0 to 1.", labels, fell)
    yield _gauges("check_passed", "0: recall fell by more than the tolerance.", labels, passed)
    yield _gauges("check_timestamp_seconds", "Time of the last check.", labels, at)


def kinds_of_reasons(reasons: Iterable[tuple[str, str, int]]) -> dict[tuple[str, str], int]:
    """Documents by source and kind of reason; the rarest kinds are counted together: labels must be few."""
    counts = Counter[tuple[str, str]]()
    for source, reason, documents in reasons:
        counts[source, kind_of(reason)] += documents
    kept = dict(counts.most_common(MOST_KINDS))
    for (source, kind), documents in counts.items():
        if (source, kind) not in kept:
            kept[source, "other"] = kept.get((source, "other"), 0) + documents
    return kept


def _counters(tally: Mapping[str, int], *names: str) -> list[tuple[tuple[str], int]]:
    return [((name.removeprefix("records_"),), tally.get(name, 0)) for name in names]


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(f"ingestor_{name}", about, value=value)


def _counter(name: str, about: str, value: float) -> Metric:
    return CounterMetricFamily(f"ingestor_{name}", about, value=value)


def _gauges(name: str, about: str, labels: Sequence[str], samples: Samples) -> Metric:
    family = GaugeMetricFamily(f"ingestor_{name}", about, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _labelled(name: str, about: str, samples: Samples, labels: Sequence[str] = ("kind",)) -> Metric:
    family = CounterMetricFamily(f"ingestor_{name}", about, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family
