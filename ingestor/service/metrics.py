"""``GET /metrics``: what Prometheus scrapes; and the requests to the service port, counted."""

import sqlite3
from collections.abc import Iterator
from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Histogram, Info, ProcessCollector, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ingestor import __version__
from ingestor.http_server.bounded import RequestRefused
from ingestor.service import figures
from ingestor.service.gathering import Kept
from ingestor.service.situation import Situation

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class _Figures(Collector):
    def __init__(self, situation: Kept[Situation]) -> None:
        self._situation = situation

    def collect(self) -> Iterator[Metric]:
        return figures.metrics(self._situation.value())

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
