"""Assembly of the pages."""

import sqlite3
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ingestor.config.models import Config
from ingestor.http_server.bounded import RequestRefused
from ingestor.http_server.peers import PeerUsers
from ingestor.page.changes import HERE, PLAN, changes, deeds
from ingestor.page.document import document
from ingestor.page.documents import documents
from ingestor.page.evaluation import HERE as EVALUATION
from ingestor.page.evaluation import evaluation
from ingestor.page.events import Events
from ingestor.page.frame import HEADERS, render, static
from ingestor.page.history import History
from ingestor.page.overview import overview
from ingestor.page.planning import planner
from ingestor.page.search import search
from ingestor.page.sessions import Sessions
from ingestor.page.site import Site
from ingestor.service.port import Common, Pages

LIVE = ("headline", "under_way", "charts", "sources", "collections", "failures")  # parts of the overview


def pages_of(common: Common, config: Callable[[], Config], path: Path) -> Pages:
    """Assemble the pages. ``config``: returns the config in force; ``path``: the config's file."""
    daemon, now = common.daemon, common.situation.value
    token, peers = common.http.token, PeerUsers()
    site = Site(common, Sessions(token.get_secret_value() if token else None, peers))
    history, plans = History(now), planner(path)

    def of_overview() -> Mapping[str, object]:
        return overview(daemon, now(), history)

    events = Events(lambda: parts(of_overview))
    history.start()

    def close() -> None:
        events.close()
        history.close()
        plans.close()
        peers.close()

    routes: list[BaseRoute] = [
        site.page("/", "overview.html", lambda request: of_overview()),
        site.page("/page/documents", "documents.html", lambda request: documents(daemon, now(), request)),
        site.page(
            "/page/documents/{document}", "document.html",
            lambda request: document(daemon, now(), request),
        ),
        site.page("/page/search", "search.html", lambda request: search(daemon, request)),
        site.page(
            HERE, "changes.html", lambda request: changes(daemon, now(), config(), plans)
        ),
        site.page(EVALUATION, "evaluation.html", lambda request: evaluation(daemon, now(), request)),
        *(site.deed(address, do, changes=address != PLAN) for address, do in deeds(config, plans).items()),
        Route("/page/events", partial(_listen, site, events), methods=["GET"]),
        Route("/static/{name}", file, methods=["GET"]),
        site.page("/page/{rest:path}", "refusal.html", _nothing),
    ]  # fmt: skip
    return Pages(routes, judges, close)


def judges(path: str) -> bool:
    """Whether a path is one of the pages, which ask for the token by themselves."""
    return path == "/" or path.startswith(("/page/", "/static/"))


def parts(of_overview: Callable[[], Mapping[str, object]]) -> dict[str, str]:
    """The parts of the overview that change, as HTML; none if the journal cannot be read now."""
    try:
        values = of_overview()
    except sqlite3.Error:
        return {}
    return {f"live-{name}": render(f"_{name}.html", values) for name in LIVE}


def _nothing(request: Request) -> Mapping[str, object]:
    raise RequestRefused(404, "there is no such page")


async def _listen(site: Site, events: Events, request: Request) -> Response:
    if not site.sessions.admits(request):
        raise site.sessions.refusal(request)
    return events.listen()


async def file(request: Request) -> Response:
    """A file of the pages, which all may have."""
    found = static(request.path_params["name"])
    if found is None:
        raise RequestRefused(404, "there is no such file")
    content, kind, tag = found
    headers = {**HEADERS, "Cache-Control": "no-cache", "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(None, 304, headers)
    return Response(content, 200, {**headers, "Content-Type": kind})
