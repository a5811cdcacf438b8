"""Serves addresses that report the state of the daemon.

``GET /healthz`` reports whether the engine runs. ``GET /readyz`` reports whether collections are complete and
can be searched. Both need no token, and name no source. ``GET /status`` reports the state of each source and
collection.
"""

import sqlite3
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ingestor.http_server.requests import json_response
from ingestor.service.daemon_view import DaemonView
from ingestor.service.searching import problems, require_owner
from ingestor.service.situation import UNLISTED, UNREADABLE, Kept, Situation, obstacles

PATHS = frozenset({"/healthz", "/readyz"})
STUCK = 300.0  # seconds without a step of the engine's loop, after which a restart may help


def routes(daemon: DaemonView, situation: Kept[Situation]) -> list[BaseRoute]:
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
