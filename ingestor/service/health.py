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
from ingestor.service.situation import Situation

PATHS = frozenset({"/healthz", "/readyz"})
STUCK = 300.0  # seconds without a turn of the engine's loop, after which a restart is worth trying
SLOW = 60.0  # seconds without a turn, or for one batch of texts, after which readers may see old records


def obstacles(found: Situation) -> list[str]:
    """What keeps the daemon from being ready. Pure."""
    unlisted = [one for one in found.sources.values() if one.interval and one.last_listing is None]
    reasons = {
        "Chroma does not answer": not found.chroma_up,
        "the engine does not go on": found.idle > SLOW,
        "the embedder does not go on": found.batch_seconds > SLOW,
        "a source was never listed whole": any(not (one.held or one.paused) for one in unlisted),
    }
    return [reason for reason, holds in reasons.items() if holds]


def routes(daemon: DaemonView, situation: Kept[Situation]) -> list[BaseRoute]:
    async def healthz(request: Request) -> Response:
        idle = daemon.idle()
        return json_response(200 if idle < STUCK else 503, {"healthy": idle < STUCK})

    def readyz(request: Request) -> Response:
        try:
            reasons = obstacles(situation.value())
        except sqlite3.Error:
            reasons = ["the journal cannot be read"]
        return json_response(503 if reasons else 200, {"ready": not reasons, "reasons": reasons})

    return [Route("/healthz", healthz), Route("/readyz", readyz)]
