"""The body of a request, read with a limit."""

import json
from typing import Any

from starlette.requests import Request

from ingestor.http_server.bounded import Refused


async def read_body(request: Request, most: int) -> bytes:
    """Raises Refused if it has more than ``most`` bytes."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise Refused(413, f"the body of a request may have {most:,} bytes")
    return bytes(body)


async def read_object(request: Request, most: int) -> dict[str, Any]:
    """``most``: bytes. Raises Refused unless the body is a JSON object of that size at most."""
    body = await read_body(request, most)
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise Refused(400, "the body must be JSON") from None
    if not isinstance(found, dict):
        raise Refused(400, "the body must be a JSON object")
    return found
