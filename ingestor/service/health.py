"""``GET /healthz``: whether the engine runs. ``GET /readyz``: whether readers find what they should.

Both need no token, and name no source.
"""

import sqlite3

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ingestor.http_server.bounded import json_response
from ingestor.service.daemon_view import DaemonView
from ingestor.service.gathering import Kept
from ingestor.service.situation import UNLISTED, UNREADABLE, Situation, obstacles

PATHS = frozenset({"/healthz", "/readyz"})
STUCK = 300.0  # seconds without a turn of the engine's loop, after which a restart is worth trying


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

    return [Route("/healthz", healthz), Route("/readyz", readyz)]
