"""The service port: its HTTP application, and the server that opens it in a daemon.

Each group of addresses is a module of this folder with a function ``routes``. The caller passes the pages for
people (``ingestor/page``).
"""

import errno
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

from starlette.routing import BaseRoute, Match, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from ingestor.chroma import processes
from ingestor.config.servers import Http
from ingestor.core.events import event
from ingestor.http_server.access import rules
from ingestor.http_server.requests import Bounded, Guarded, RequestRefused, ServerLimits
from ingestor.http_server.server import Server
from ingestor.service import assistants, documents, embeddings, metrics, openapi, searching
from ingestor.service.daemon_view import DaemonView
from ingestor.service.situation import Kept, Situation, gather
from ingestor.state.journal import JournalReader


@dataclass(frozen=True, slots=True)
class Common:
    """Resources that all addresses of the service port share.

    ``turns``: limits how many searches run at a time.
    """

    daemon: DaemonView
    http: Http
    situation: Kept[Situation]
    turns: searching.Turns


@dataclass(frozen=True, slots=True)
class Pages:
    """Routes of the pages for people.

    ``judges``: returns whether a path is one of the pages, which check the sender of a request themselves.
    ``close``: ends open streams, so that the server can stop.
    """

    routes: Sequence[BaseRoute]
    judges: Callable[[str], bool]
    close: Callable[[], None]


Paging = Callable[[Common], Pages]  # builds the pages for people


def common(daemon: DaemonView, http: Http) -> Common:
    return Common(daemon, http, Kept(lambda: gather(daemon)), searching.Turns())


def application(shared: Common, pages: Pages) -> ASGIApp:
    """Build the ASGI application of the service port.

    It consists of the routes of all addresses, behind access rules, limits and metrics.
    """
    daemon, situation, turns, http = shared.daemon, shared.situation, shared.turns, shared.http
    registry = metrics.registry_of(situation)
    groups = [
        metrics.state_routes(daemon, situation),
        metrics.metrics_routes(registry),
        embeddings.routes(daemon),
        searching.routes(daemon, turns),
        documents.routes(daemon, turns),
        openapi.routes(),
    ]
    inner = Bounded(_route(list(chain(*groups)), ()), ServerLimits())
    groups.append(assistants.routes(inner))
    token = http.token.get_secret_value() if http.token else None
    proxy = urlsplit((http.public_url or "").lower())
    origins = [f"{proxy.scheme}://{proxy.netloc}"] if http.public_url else []
    ours = rules([http.host, *http.hosts], token, "service port", "http", origins)
    app = _route(list(chain(*groups)), pages.routes)
    guarded = Guarded(app, ours, lambda path: path in metrics.PATHS or pages.judges(path))
    return metrics.RequestMetrics(registry).measure(guarded)


def _route(routes: list[BaseRoute], pages: Sequence[BaseRoute]) -> ASGIApp:
    """Build the application that passes requests to their routes.

    The refusal of an unknown path lists the paths of ``routes``, but not those of ``pages``.
    """
    paths = sorted({route.path for route in routes if isinstance(route, Route)})

    async def unknown(scope: Scope, receive: Receive, send: Send) -> None:
        raise RequestRefused(404, f"unknown address; known: {', '.join(paths)}")

    every = [*routes, *pages]
    router = Router(every, redirect_slashes=False, default=unknown)

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        near = [(route, match) for route in every if (match := route.matches(scope)[0]) is not Match.NONE]
        if near and all(match is Match.PARTIAL for _, match in near):  # another method of this path
            known = {each for route, _ in near if isinstance(route, Route) for each in route.methods or ()}
            allowed = ", ".join(sorted(known))
            raise RequestRefused(405, f"this address accepts only the methods {allowed}", {"Allow": allowed})
        await router(scope, receive, send)

    return dispatch


log = logging.getLogger("ingestor")


@contextmanager
def open_service(
    http: Http | None, journal_path: Path, view: Callable[[JournalReader], DaemonView], paging: Paging
) -> Iterator[str]:
    """Serve the service port until the context ends.

    Yield "", or the reason if the port could not be opened, which is also logged with a remedy. ``view``:
    builds the view of the daemon, given a reader of its journal. ``paging``: builds the pages for people.
    """
    if http is None:
        yield ""
        return
    journal = JournalReader(journal_path)
    shared = common(view(journal), http)
    pages, limits = paging(shared), ServerLimits(always=metrics.PATHS)
    try:
        server = Server(application(shared, pages), http.host, http.port, limits)
    except OSError as error:
        reason, advice = _explain(http, error)
        log.error("the service port is not open: %s", advice, extra=event("message", reason=advice))
        pages.close()
        shared.daemon.close()
        yield reason
        return
    server.start()
    log.info("the service port listens at %s", http.url, extra=event("listening", address=http.url))
    try:
        yield ""
    finally:
        pages.close()
        server.stop()
        shared.daemon.close()


def _explain(http: Http, error: OSError) -> tuple[str, str]:
    """Return why the port cannot be opened, for ``ingestor status``, and the reason with its remedy."""
    place = f"{http.host}:{http.port}"
    if error.errno != errno.EADDRINUSE:
        reason = f"cannot listen on {place}: {error.strerror}"
        return reason, f"{reason}; correct `http` in the config"
    holder = processes.listener(http.port)
    by = f" by {processes.describe(holder)}" if holder is not None else ""
    return f"{place} is taken by another program", (
        f"port {http.port} is taken{by}; documents are still indexed. Stop that program, or set `http.port` "
        "to a free port, then restart"
    )
