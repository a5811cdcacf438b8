"""The application behind the service port: every group of addresses is a file of its own with ``routes``."""

from itertools import chain

from starlette.routing import BaseRoute, Match, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from ingestor.assistants import port as assistants
from ingestor.config.models import Http
from ingestor.http_server.access import rules
from ingestor.http_server.bounded import Bounded, Refused
from ingestor.http_server.guarded import Guarded
from ingestor.http_server.limits import Limits
from ingestor.service import documents, embeddings, health, metrics, openapi, searching, status
from ingestor.service.daemon_view import DaemonView
from ingestor.service.gathering import Kept, gather


def application(daemon: DaemonView, http: Http) -> ASGIApp:
    situation = Kept(lambda: gather(daemon))
    registry = metrics.registry_of(situation)
    turns = searching.Turns()
    groups = [
        health.routes(daemon, situation),
        metrics.routes(registry),
        embeddings.routes(daemon),
        searching.routes(daemon, turns),
        documents.routes(daemon, turns),
        status.routes(daemon, situation),
        openapi.routes(),
    ]
    inner = Bounded(_routed(list(chain(*groups))), Limits())
    groups.append(assistants.routes(inner))
    token = http.token.get_secret_value() if http.token else None
    ours = rules([http.host, *http.hosts], token, "service port", "http")
    guarded = Guarded(_routed(list(chain(*groups))), ours, health.PATHS.__contains__)
    return metrics.Requests(registry).measured(guarded)


def _routed(routes: list[BaseRoute]) -> ASGIApp:
    paths = sorted({route.path for route in routes if isinstance(route, Route)})

    async def unknown(scope: Scope, receive: Receive, send: Send) -> None:
        raise Refused(404, f"there are {', '.join(paths)}")

    router = Router(routes, redirect_slashes=False, default=unknown)

    async def routed(scope: Scope, receive: Receive, send: Send) -> None:
        _require_method(routes, scope)
        await router(scope, receive, send)

    return routed


def _require_method(routes: list[BaseRoute], scope: Scope) -> None:
    """Raises Refused where the address exists and the method does not."""
    near = [(route, match) for route in routes if (match := route.matches(scope)[0]) is not Match.NONE]
    if near and all(match is Match.PARTIAL for _, match in near):
        methods = {method for route, _ in near if isinstance(route, Route) for method in route.methods or ()}
        allowed = ", ".join(sorted(methods))
        raise Refused(405, f"this address takes {allowed}", {"Allow": allowed})
