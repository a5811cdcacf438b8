"""Assembles the routes of all pages, and updates open overviews (``GET /page/events``, server-sent events).

An event contains parts of the overview as HTML, each of which replaces an element of the page. Every two
seconds one rendering serves all open pages.
"""

import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from time import monotonic

from anyio import sleep
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from ingestor.config.models import Config
from ingestor.http_server.peers import PeerUsers
from ingestor.http_server.requests import RequestRefused
from ingestor.page.changes import PLAN, actions, changes, planner
from ingestor.page.documents import document, documents
from ingestor.page.overview import HERE as EVALUATION
from ingestor.page.overview import History, evaluation, overview
from ingestor.page.search import search
from ingestor.page.site import CHANGES, HEADERS, Sessions, Site, render, static
from ingestor.service.port import Common, Pages

MOST = 12  # listeners
EVERY = 2.0  # seconds
QUIET = 5.0  # seconds without an event after which a comment is sent, to notice closed connections
_STEP = 0.25  # seconds until the end of the daemon is noticed

Parts = Mapping[str, str]  # HTML by the id of its element


class Events:
    """Sends changes of the overview to all browsers that have it open.

    ``make``: renders the parts of the overview. Methods must be called in the server's event loop, except
    ``close``.
    """

    def __init__(self, make: Callable[[], Parts]) -> None:
        self._make = make
        self._made: tuple[float, Parts] = -EVERY, {}
        self._listeners, self._making, self._closed = 0, False, False

    def listen(self) -> Response:
        """Return a response that streams events to a browser.

        Raises RequestRefused if too many pages are open.
        """
        if self._listeners >= MOST or self._closed:
            raise RequestRefused(
                503, "too many pages are open, so this one is not updated: reload it yourself"
            )
        return StreamingResponse(self._stream(), 200, HEADERS, "text/event-stream")

    def close(self) -> None:
        """End every stream within a second. May be called by any thread."""
        self._closed = True

    async def _stream(self) -> AsyncIterator[str]:
        if self._listeners >= MOST:
            return
        self._listeners += 1
        try:
            seen: dict[str, str] = {}
            sent = monotonic()
            yield "retry: 3000\n\n"
            while not self._closed:
                parts = await self._parts()
                fresh = {name: text for name, text in parts.items() if seen.get(name) != text}
                seen |= fresh
                if fresh:
                    yield f"data: {json.dumps(fresh)}\n\n"
                elif monotonic() - sent > QUIET:
                    yield ": still here\n\n"
                sent = monotonic() if fresh or monotonic() - sent > QUIET else sent
                until = monotonic() + EVERY
                while not self._closed and monotonic() < until:
                    await sleep(min(_STEP, EVERY))
        finally:
            self._listeners -= 1

    async def _parts(self) -> Parts:
        """Render the parts of the overview, or return the last rendering if it is recent enough."""
        if self._making or monotonic() - self._made[0] < EVERY:
            return self._made[1]
        self._making, begun = True, monotonic()
        try:
            self._made = begun, await run_sync(self._make)
        finally:
            self._making = False
        return self._made[1]


LIVE = ("headline", "under_way", "charts", "sources", "collections", "failures")  # parts of the overview


def pages_of(common: Common, config: Callable[[], Config], path: Path) -> Pages:
    """Build the routes of all pages, and start what they need.

    ``config``: returns the config in force. ``path``: path of the config file.
    """
    daemon, now = common.daemon, common.situation.value
    token, peers = common.http.token, PeerUsers()
    site = Site(common, Sessions(token.get_secret_value() if token else None, peers))
    history, plans = History(now), planner(path)

    def render_live() -> Parts:
        try:
            values = overview(daemon, now(), history)
        except sqlite3.Error:  # the journal cannot be read now
            return {}
        return {f"live-{name}": render(f"_{name}.html", values) for name in LIVE}

    async def listen(request: Request) -> Response:
        if not site.sessions.admits(request):
            raise site.sessions.refusal(request)
        return events.listen()

    def refuse_unknown(request: Request) -> Mapping[str, object]:
        raise RequestRefused(404, "there is no such page")

    events = Events(render_live)
    history.start()

    def close() -> None:
        events.close()
        history.close()
        plans.close()
        peers.close()

    routes: list[BaseRoute] = [
        site.page("/", "overview.html", lambda request: overview(daemon, now(), history)),
        site.page("/page/documents", "documents.html", lambda request: documents(daemon, now(), request)),
        site.page(
            "/page/documents/{document}", "document.html",
            lambda request: document(daemon, now(), request),
        ),
        site.page("/page/search", "search.html", lambda request: search(daemon, request)),
        site.page(
            CHANGES, "changes.html", lambda request: changes(daemon, now(), config(), plans)
        ),
        site.page(EVALUATION, "evaluation.html", lambda request: evaluation(daemon, now(), request)),
        *(site.action(path, do, changes=path != PLAN) for path, do in actions(config, plans).items()),
        Route("/page/events", listen, methods=["GET"]),
        Route("/static/{name}", file, methods=["GET"]),
        site.page("/page/{rest:path}", "refusal.html", refuse_unknown),
    ]  # fmt: skip
    return Pages(routes, is_page, close)


def is_page(path: str) -> bool:
    """Return whether the path of a request is one of the pages: these check the token themselves."""
    return path == "/" or path.startswith(("/page/", "/static/"))


async def file(request: Request) -> Response:
    """Return a style sheet, script or picture of the pages; no token is needed."""
    known = static(request.path_params["name"])
    if known is None:
        raise RequestRefused(404, "there is no such file")
    content, kind, tag = known
    headers = {**HEADERS, "Cache-Control": "no-cache", "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(None, 304, headers)
    return Response(content, 200, {**headers, "Content-Type": kind})
