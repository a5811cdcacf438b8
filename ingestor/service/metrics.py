"""Serves addresses that report the state of the daemon.

``GET /healthz`` reports whether the engine runs. ``GET /readyz`` reports whether collections are complete and
can be searched. Both need no token, and name no source. ``GET /status`` reports the state of each source and
collection, and ``GET /metrics`` numbers of the daemon and of requests to the service port, for Prometheus.
"""

import sqlite3
from collections import Counter as Counts
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from time import perf_counter
from typing import Any

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
from ingestor.http_server.requests import RequestRefused, json_response
from ingestor.service.daemon_view import DaemonView
from ingestor.service.searching import problems, require_owner
from ingestor.service.situation import UNLISTED, UNREADABLE, Kept, Situation, obstacles

PATHS = frozenset({"/healthz", "/readyz"})
STUCK = 300.0  # seconds without a step of the engine's loop, after which a restart may help


def state_routes(daemon: DaemonView, situation: Kept[Situation]) -> list[BaseRoute]:
    async def healthz(request: Request) -> Response:
        idle = daemon.idle()
        return json_response(200 if idle < STUCK else 503, {"healthy": idle < STUCK})

    def readyz(request: Request) -> Response:
        try:
            reasons = obstacles(situation.value())
        except sqlite3.Error:
            reasons = ["the journal cannot be read"]
        body = {
            "ready": not reasons,
            "readable": not any(reason in UNREADABLE for reason in reasons),
            "writable": not any(reason not in (*UNREADABLE, UNLISTED) for reason in reasons),
            "reasons": reasons,
        }
        return json_response(503 if reasons else 200, body)

    def status(request: Request) -> Response:
        with problems():
            require_owner(daemon, request)
            return json_response(200, overview(situation.value()))

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/status", status)]


def overview(situation: Situation) -> dict[str, Any]:
    """Return the fields of ``/status``.

    Times are POSIX seconds. ``lag`` is the age in seconds of the oldest change that a search does not find
    yet.
    """
    reasons = obstacles(situation)
    return {
        "ready": not reasons,
        "reasons": reasons,
        "waiting": situation.live.waiting,
        "collections": {
            name: situation.count(collection=name) for name in sorted({key[1] for key in situation.documents})
        },
        "sources": {
            name: {
                "documents": situation.count(source=name),
                "lag": round(situation.lag(name) or 0.0, 1),
                "last_listing": one.last_listing,
                "held": one.held,
                "paused": one.paused,
            }
            for name, one in situation.sources.items()
        },
    }


_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class _Figures(Collector):
    def __init__(self, situation: Kept[Situation]) -> None:
        self._situation = situation

    def collect(self) -> Iterator[Metric]:
        return metrics(self._situation.value())

    def describe(self) -> list[Metric]:
        """Return no metrics, so that registering this collector does not gather any numbers yet."""
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
                route = scope.get("route")
                path = route.path if isinstance(route, Route) else "other"
                method = scope["method"] if scope["method"] in ("GET", "POST", "HEAD") else "other"
                self._number.labels(path, method, str(status)).inc()
                self._seconds.labels(path).observe(perf_counter() - begun)

        return serve


def registry_of(situation: Kept[Situation]) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_Figures(situation))
    ProcessCollector(registry=registry)
    Info("ingestor_build", "The version that runs.", registry=registry).info({"version": __version__})
    return registry


def metrics_routes(registry: CollectorRegistry) -> list[BaseRoute]:
    def scrape(request: Request) -> Response:
        try:
            return Response(generate_latest(registry), 200, {"Content-Type": _TEXT})
        except sqlite3.Error as error:
            raise RequestRefused(503, f"the journal cannot be read: {error}") from error

    return [Route("/metrics", scrape)]


MOST_KINDS = 20  # kinds of reasons; rarer ones are counted together
Samples = Mapping[str, float | None] | Mapping[tuple[str, str], float] | Mapping[tuple[str, str, str], float]


def metrics(now: Situation) -> Iterator[Metric]:
    yield from _of_sources(now)
    yield from _of_collections(now)
    yield from _of_work(now)
    yield _gauge("chroma_up", "1: Chroma answers.", now.chroma_up)
    yield _counter(
        "chroma_restarts", "Restarts of the Chroma server by ingestor since its start.", now.chroma_restarts
    )
    yield _gauge("disk_free_bytes", "Free space of the file system.", now.disk_free, "folder")
    yield _gauge("folder_bytes", "Size of a folder that ingestor writes.", now.sizes, "folder")
    yield _gauge("dead_bytes", "Free pages in a SQLite file.", now.dead, "file")
    yield _gauge("engine_idle_seconds", "Seconds since the last step of the engine's loop.", now.idle)
    refused = "1: the config file has an error, and the previous config stays in force."
    yield _gauge("config_error", refused, bool(now.live.config_error))
    yield _gauge(
        "config_restart_pending", "1: the config file takes effect at a restart.", now.live.restart_pending
    )
    yield _gauge("state_writable", "0: the state folder cannot be written.", not now.live.state_error)


def _of_sources(now: Situation) -> Iterator[Metric]:
    lags = {source: now.lag(source) or 0.0 for source in now.sources}
    yield _gauge("lag_seconds", "Age of the oldest change that readers do not see yet.", lags, "source")
    for name, field, about in (
        ("last_listing_timestamp_seconds", "last_listing", "Time of the last complete listing."),
        ("listing_interval_seconds", "interval", "Seconds between listings."),
        ("held", "held", "1: held; nothing is removed until a person decides."),
        ("last_success_timestamp_seconds", "last_success", "Time of the last complete listing or write."),
        ("paused", "paused", "1: paused by `ingestor pause`."),
    ):
        samples = {source: getattr(one, field) for source, one in now.sources.items()}
        yield _gauge(f"source_{name}", about, samples, "source")
    listing = {name: one.since for name, one in now.live.listing.items()}
    yield _gauge("source_listing_started_timestamp_seconds", "Start of a running listing.", listing, "source")


def _of_collections(now: Situation) -> Iterator[Metric]:
    served = now.collections
    readable = {name: one.readable for name, one in served.items()}
    writable = {name: one.writable for name, one in served.items()}
    records = {(name, role): n for name, one in served.items() for role, n in one.records.items()}
    yield _gauge("collection_readable", "1: Chroma reads the collection.", readable, "collection")
    yield _gauge(
        "collection_writable", "0: writes to the collection fail repeatedly.", writable, "collection"
    )
    yield _gauge("collection_records", "Records in Chroma, by role.", records, "collection", "role")
    swaps = {
        (name, which): number
        for name, progress in now.swaps.items()
        for which, number in zip(("done", "all"), progress, strict=True)
    }
    yield _gauge(
        "swap_documents", "Documents of a collection that is being rebuilt.", swaps, "collection", "which"
    )

    for name, field, about in (
        ("check_recall", "recall", "Mean recall at the last `evaluate --check`, 0 to 1."),
        ("check_fell", "fell", "Fall of recall since the stored check, 0 to 1."),
        ("check_passed", "passed", "0: recall fell by more than the tolerance."),
        ("check_timestamp_seconds", "at", "Time of the last check."),
    ):
        samples = {(each.collection, each.questions): getattr(each, field) for each in now.checks}
        yield _gauge(name, about, samples, "collection", "questions")


def _of_work(now: Situation) -> Iterator[Metric]:
    kinds = ("added", "replaced", "patched", "dropped")
    written = {kind: float(now.live.tally.get(f"records_{kind}", 0)) for kind in kinds}
    reasons = "source", "reason"
    yield _gauge("documents", "Documents by state.", now.documents, "source", "collection", "state")
    yield _gauge(
        "quarantined_documents",
        "Documents that cannot be read, by the kind of the reason.",
        kinds_of_reasons(now.reasons),
        *reasons,
    )
    yield _gauge("documents_in_flight", "Documents that are being prepared.", now.live.in_flight, "source")
    yield _gauge("documents_waiting", "Documents that are due or in flight.", now.live.waiting)
    yield _counter("embedded_texts", "Texts that the model embedded.", now.embedded.texts)
    yield _counter("embedded_tokens", "Tokens that the model embedded.", now.embedded.tokens)
    yield _counter("cached_texts", "Texts whose vectors were in the cache.", now.embedded.cached)
    yield _counter("embedding_seconds", "Seconds that the model embedded.", now.embedded.seconds)
    yield _gauge(
        "embedding_queue_texts", "Texts that wait for the model, or are being embedded.", now.embedded.waiting
    )
    yield _gauge("embedding_batch_seconds", "Seconds since the running batch started.", now.embedded.busy_for)
    yield _counter(
        "document_changes", "Changes of documents that readers see.", now.work.changes, "source", "kind"
    )
    yield _counter("records_written", "Records written to Chroma.", written, "kind")
    yield _counter("document_retries", "Failed attempts that are retried.", now.work.retries, *reasons)
    yield _counter("document_failures", "Documents quarantined.", now.work.failures, *reasons)
    yield _counter("stage_seconds", "Seconds that all threads spent in a stage.", now.stages, "stage")


def kinds_of_reasons(reasons: Iterable[tuple[str, str, int]]) -> dict[tuple[str, str], int]:
    """Count failed documents by source and kind of reason.

    Rare kinds are counted together as "other", so that the number of labels in Prometheus stays small.
    """
    counts = Counts[tuple[str, str]]()
    for source, reason, documents in reasons:
        counts[source, kind_of(reason)] += documents
    kept = dict(counts.most_common(MOST_KINDS))
    for (source, kind), documents in counts.items():
        if (source, kind) not in kept:
            kept[source, "other"] = kept.get((source, "other"), 0) + documents
    return kept


def _metric(
    family: type[GaugeMetricFamily] | type[CounterMetricFamily],
    name: str, about: str, samples: Samples | float, *labels: str,
) -> Metric:  # fmt: skip
    """Build a metric. ``samples``: its value, or the value of each sample by the values of its labels.

    If a sample's value is None, the sample is omitted.
    """
    made = family(f"ingestor_{name}", about, labels=labels)
    for key, value in samples.items() if isinstance(samples, Mapping) else [((), samples)]:
        if value is not None:
            made.add_metric([key] if isinstance(key, str) else list(key), float(value))
    return made


_gauge, _counter = partial(_metric, GaugeMetricFamily), partial(_metric, CounterMetricFamily)
