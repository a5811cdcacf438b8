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


def overview(found: Situation) -> dict[str, Any]:
    """Times are POSIX seconds. ``lag``: age of the oldest change that readers do not see yet."""
    reasons = obstacles(found)
    return {
        "ready": not reasons,
        "reasons": reasons,
        "waiting": found.waiting,
        "collections": {
            name: _counted(found, collection=name) for name in sorted({key[1] for key in found.documents})
        },
        "sources": {
            name: {
                "documents": _counted(found, source=name),
                "lag": 0.0 if one.oldest is None else max(0.0, round(found.at - one.oldest, 1)),
                "last_listing": one.last_listing,
                "held": one.held,
                "paused": one.paused,
            }
            for name, one in found.sources.items()
        },
    }


def _counted(found: Situation, source: str | None = None, collection: str | None = None) -> dict[str, int]:
    """Documents by state."""
    counts: dict[str, int] = {}
    for (of, into, state), number in found.documents.items():
        if source in (None, of) and collection in (None, into):
            counts[state] = counts.get(state, 0) + number
    return counts
