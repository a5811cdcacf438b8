"""``GET /metrics``: the daemon's figures, and the requests to the service port, for Prometheus."""

import sqlite3
from collections import Counter as Counts
from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Histogram, Info, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ingestor import __version__
from ingestor.core.errors import kind_of
from ingestor.http_server.requests import RequestRefused
from ingestor.service.gathering import Kept
from ingestor.service.situation import Situation

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class _Figures(Collector):
    def __init__(self, situation: Kept[Situation]) -> None:
        self._situation = situation

    def collect(self) -> Iterator[Metric]:
        return metrics(self._situation.value())

    def describe(self) -> list[Metric]:
        """Empty, so that nothing is gathered before the first scrape."""
        return []


class RequestMetrics:
    """Numbers and latencies of requests, by path, method and status."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._number = Counter(
            "ingestor_http_requests", "Requests answered.", ("path", "method", "status"), registry=registry
        )
        self._seconds = Histogram(
            "ingestor_http_request_duration_seconds", "Time until the answer was sent.", ("path",),
            buckets=_BUCKETS, registry=registry,
        )  # fmt: skip

    def measure(self, app: ASGIApp) -> ASGIApp:
        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            status, begun = 500, perf_counter()

            async def forward(message: Message) -> None:
                nonlocal status
                status = message.get("status", status)
                await send(message)

            try:
                await app(scope, receive, forward)
            except RequestRefused as refused:
                status = refused.status
                raise
            finally:
                self._note(scope, status, perf_counter() - begun)

        return serve

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = scope.get("route")
        path = route.path if isinstance(route, Route) else "other"
        method = scope["method"] if scope["method"] in ("GET", "POST", "HEAD") else "other"
        self._number.labels(path, method, str(status)).inc()
        self._seconds.labels(path).observe(seconds)


def registry_of(situation: Kept[Situation]) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_Figures(situation))
    ProcessCollector(registry=registry)
    Info("ingestor_build", "The version that runs.", registry=registry).info({"version": __version__})
    return registry


def routes(registry: CollectorRegistry) -> list[BaseRoute]:
    def scrape(request: Request) -> Response:
        try:
            return Response(generate_latest(registry), 200, {"Content-Type": _TEXT})
        except sqlite3.Error as error:
            raise RequestRefused(503, f"the journal cannot be read: {error}") from error

    return [Route("/metrics", scrape)]


MOST_KINDS = 20  # of reasons; the rarest are counted together
Samples = Iterable[tuple[Sequence[str], float]]


def metrics(situation: Situation) -> Iterator[Metric]:
    yield from _documents(situation)
    yield from _sources(situation)
    yield from _embedding(situation)
    yield from _writes(situation)
    yield from _chroma(situation)
    free = [((name,), size) for name, size in situation.disk_free.items()]
    yield _gauges("disk_free_bytes", "Free space of the file system.", ("folder",), free)
    yield from _checks(situation)
    yield _gauge("engine_idle_seconds", "Seconds since the engine's loop last turned.", situation.idle)
    yield from _health(situation)


def _documents(situation: Situation) -> Iterator[Metric]:
    yield _gauges(
        "documents", "Documents by state.", ("source", "collection", "state"), situation.documents.items()
    )
    yield _gauges(
        "quarantined_documents",
        "Documents that cannot be read, by the kind of the reason.",
        ("source", "reason"),
        kinds_of_reasons(situation.reasons).items(),
    )
    in_flight = [((source,), number) for source, number in situation.in_flight.items()]
    yield _gauges("documents_in_flight", "Documents that are being prepared.", ("source",), in_flight)
    yield _gauge("documents_waiting", "Documents that are due or in flight.", situation.waiting)
    swaps = [((name, "done"), done) for name, (done, _) in situation.swaps.items()]
    swaps += [((name, "all"), whole) for name, (_, whole) in situation.swaps.items()]
    yield _gauges("swap_documents", "Documents of a collection in building.", ("collection", "which"), swaps)


def _sources(situation: Situation) -> Iterator[Metric]:
    sources = situation.sources.items()
    lag = [
        ((name,), max(0.0, situation.at - one.oldest) if one.oldest is not None else 0.0)
        for name, one in sources
    ]
    yield _gauges("lag_seconds", "Age of the oldest change that readers do not see yet.", ("source",), lag)
    listed = [((source,), one.last_listing) for source, one in sources if one.last_listing is not None]
    yield _gauges(
        "source_last_listing_timestamp_seconds", "Time of the last complete listing.", ("source",), listed
    )
    every = [((name,), one.interval) for name, one in sources if one.interval is not None]
    yield _gauges("source_listing_interval_seconds", "Seconds between listings.", ("source",), every)
    begun = [((name,), since) for name, since in situation.listing.items()]
    yield _gauges("source_listing_started_timestamp_seconds", "Listings under way.", ("source",), begun)
    held = [((name,), float(one.held)) for name, one in sources]
    yield _gauges("source_held", "1: held, nothing is removed until a person decides.", ("source",), held)
    success = [((name,), one.last_success) for name, one in sources if one.last_success is not None]
    yield _gauges("source_last_success_timestamp_seconds", "Last listing or write.", ("source",), success)
    paused = [((name,), float(one.paused)) for name, one in sources]
    yield _gauges("source_paused", "1: paused by `ingestor pause`.", ("source",), paused)


def _embedding(situation: Situation) -> Iterator[Metric]:
    yield _counter("embedded_texts", "Texts that the model embedded.", situation.texts)
    yield _counter("embedded_tokens", "Tokens of these texts.", situation.tokens)
    yield _counter("cached_texts", "Texts whose vectors were in the cache.", situation.cached)
    yield _counter("embedding_seconds", "Time that the model took.", situation.embedding_seconds)
    yield _gauge("embedding_queue_texts", "Texts that wait, or are embedded now.", situation.queued_texts)
    yield _gauge("embedding_batch_seconds", "Age of the step under way.", situation.batch_seconds)


def _writes(situation: Situation) -> Iterator[Metric]:
    tally = situation.tally
    changes = situation.changes.items()
    yield _build_counter("document_changes", "Documents brought in step.", changes, ("source", "kind"))
    records = _counters(tally, "records_added", "records_replaced", "records_patched", "records_dropped")
    yield _build_counter("records_written", "Records written to Chroma.", records)
    reasons = ("source", "reason")
    yield _build_counter(
        "document_retries", "Failed attempts that are retried.", situation.retries.items(), reasons
    )
    yield _build_counter("document_failures", "Documents quarantined.", situation.failures.items(), reasons)
    seconds = [((stage,), spent) for stage, spent in situation.stages.items()]
    yield _build_counter("stage_seconds", "Time that threads spent in a stage.", seconds, ("stage",))


def _chroma(situation: Situation) -> Iterator[Metric]:
    yield _gauge("chroma_up", "1: Chroma answers.", float(situation.chroma_up))
    yield _counter("chroma_restarts", "Restarts of the Chroma server by ingestor.", situation.chroma_restarts)


def _health(situation: Situation) -> Iterator[Metric]:
    yield _gauge(
        "config_error", "1: the config file was refused, an earlier one runs.", float(situation.refused)
    )
    restart = float(situation.restart_pending)
    yield _gauge("config_restart_pending", "1: the config file takes effect at a restart.", restart)
    yield _gauge("state_writable", "0: the state folder cannot be written.", float(situation.state_writable))
    collections = situation.collections.items()
    readable = [((name,), float(one.readable)) for name, one in collections]
    yield _gauges("collection_readable", "1: Chroma reads the collection.", ("collection",), readable)
    writable = [((name,), float(one.writable)) for name, one in collections]
    yield _gauges("collection_writable", "0: writes fail again and again.", ("collection",), writable)
    records = [((name, role), n) for name, one in collections for role, n in one.records.items()]
    yield _gauges("collection_records", "Records in Chroma, by role.", ("collection", "role"), records)
    sizes = [((name,), size) for name, size in situation.sizes.items()]
    yield _gauges("folder_bytes", "Size of what we keep on disk.", ("folder",), sizes)
    free = [((name,), size) for name, size in situation.dead.items()]
    yield _gauges("dead_bytes", "Pages of a file that hold nothing.", ("file",), free)


def _checks(situation: Situation) -> Iterator[Metric]:
    labels, checks = ("collection", "questions"), situation.checks.items()
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
    counts = Counts[tuple[str, str]]()
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


def _build_counter(name: str, about: str, samples: Samples, labels: Sequence[str] = ("kind",)) -> Metric:
    family = CounterMetricFamily(f"ingestor_{name}", about, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family
