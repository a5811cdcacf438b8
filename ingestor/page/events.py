"""``GET /page/events``: the overview's parts as they change, as server-sent events.

A part is the HTML that the page itself has. All listeners share what is made, once in EVERY seconds.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from time import monotonic

from anyio import sleep
from anyio.to_thread import run_sync
from starlette.responses import Response, StreamingResponse

from ingestor.http_server.bounded import RequestRefused
from ingestor.page.frame import HEADERS

MOST = 12  # listeners
EVERY = 2.0  # seconds
QUIET = 5.0  # seconds without an event after which a comment is sent: it finds out who has left
_STEP = 0.25  # seconds in which the end of the daemon is noticed

Parts = Mapping[str, str]  # HTML by the id of its element


class Events:
    """``make``: the parts now; it may take a moment. Used by the server's event loop alone."""

    def __init__(self, make: Callable[[], Parts]) -> None:
        self._make = make
        self._made: tuple[float, Parts] = -EVERY, {}
        self._listeners, self._making, self._closed = 0, False, False

    def listen(self) -> Response:
        """Raises RequestRefused if there are too many listeners."""
        if self._listeners >= MOST or self._closed:
            raise RequestRefused(503, "too many open pages: reload this page to refresh it")
        return StreamingResponse(self._stream(), 200, HEADERS, "text/event-stream")

    def close(self) -> None:
        """Ends every stream soon. Any thread."""
        self._closed = True

    async def _stream(self) -> AsyncIterator[str]:
        if self._listeners >= MOST:
            return
        self._listeners += 1
        try:
            seen: dict[str, str] = {}
            said = monotonic()
            yield "retry: 3000\n\n"
            while not self._closed:
                parts = await self._parts()
                fresh = {name: text for name, text in parts.items() if seen.get(name) != text}
                seen |= fresh
                if fresh:
                    yield f"data: {json.dumps(fresh)}\n\n"
                elif monotonic() - said > QUIET:
                    yield ": still here\n\n"
                said = monotonic() if fresh or monotonic() - said > QUIET else said
                await self._rest()
        finally:
            self._listeners -= 1

    async def _parts(self) -> Parts:
        """Made by one listener at a time; others take the parts before."""
        if self._making or monotonic() - self._made[0] < EVERY:
            return self._made[1]
        self._making, begun = True, monotonic()
        try:
            self._made = begun, await run_sync(self._make)
        finally:
            self._making = False
        return self._made[1]

    async def _rest(self) -> None:
        until = monotonic() + EVERY
        while not self._closed and monotonic() < until:
            await sleep(min(_STEP, EVERY))
