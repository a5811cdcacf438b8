"""``GET /status``: how far sources and collections are, in short."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ingestor.http_server.bounded import json_response
from ingestor.service.daemon_view import DaemonView
from ingestor.service.gathering import Kept
from ingestor.service.searching import problems, require_owner
from ingestor.service.situation import Situation, obstacles


def routes(daemon: DaemonView, situation: Kept[Situation]) -> list[BaseRoute]:
    def status(request: Request) -> Response:
        with problems():
            require_owner(daemon, request)
            return json_response(200, overview(situation.value()))

    return [Route("/status", status)]


def overview(situation: Situation) -> dict[str, Any]:
    """Times are POSIX seconds. ``lag``: age of the oldest change that readers do not see yet."""
    reasons = obstacles(situation)
    return {
        "ready": not reasons,
        "reasons": reasons,
        "waiting": situation.waiting,
        "collections": {
            name: _count(situation, collection=name)
            for name in sorted({key[1] for key in situation.documents})
        },
        "sources": {
            name: {
                "documents": _count(situation, source=name),
                "lag": 0.0 if one.oldest is None else max(0.0, round(situation.at - one.oldest, 1)),
                "last_listing": one.last_listing,
                "held": one.held,
                "paused": one.paused,
            }
            for name, one in situation.sources.items()
        },
    }


def _count(situation: Situation, source: str | None = None, collection: str | None = None) -> dict[str, int]:
    """Documents by state."""
    counts: dict[str, int] = {}
    for (of, into, state), number in situation.documents.items():
        if source in (None, of) and collection in (None, into):
            counts[state] = counts.get(state, 0) + number
    return counts
