"""The body of a request, read with a limit."""

import json
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request

from ingestor.http_server.bounded import RequestRefused


async def read_body(request: Request, most: int) -> bytes:
    """Raises RequestRefused if it has more than ``most`` bytes."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise RequestRefused(413, f"the body of a request may have {most:,} bytes")
    return bytes(body)


async def read_form(request: Request, most: int) -> dict[str, str]:
    """Read the fields of a browser's form; the last of several fields with one name wins.

    ``most``: bytes of the body. Raises RequestRefused.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise RequestRefused(415, "the body must be a form (application/x-www-form-urlencoded)")
    body = await read_body(request, most)
    try:
        return dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=100))
    except ValueError:
        raise RequestRefused(400, "the body must be a form of few fields, in UTF-8") from None


async def read_object(request: Request, most: int) -> dict[str, Any]:
    """Read a JSON object. Raises RequestRefused for any other body and for more than ``most`` bytes."""
    body = await read_body(request, most)
    try:
        value = json.loads(body)
        if b"\\u" in body:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise RequestRefused(
            400, "the body has a lone surrogate such as \\ud800: send valid Unicode"
        ) from None
    except (ValueError, RecursionError):
        raise RequestRefused(400, "the body must be JSON") from None
    if not isinstance(value, dict):
        raise RequestRefused(400, "the body must be a JSON object")
    return value
