"""Before requests for a collection reach Chroma, one request of the guard's own has it loaded.

Measured on 1.5.9: the first request for a collection after a start adds to its index what was not persisted
yet, up to 1,000 records. For 700 records of 384 dimensions beside 30,000 that takes 5 s of the processor. A
request that is given up meanwhile loses that work, and of three at once on two processors none was answered
within a minute. So collections are loaded one after another, each by one request that nobody gives up.
"""

import asyncio
import re
from contextlib import suppress

_COLLECTION = re.compile(rb"(/api/v2/tenants/[^/?]+/databases/[^/?]+/collections/[0-9a-fA-F-]{36})(?![^/?])")
_PATIENCE = 600.0  # seconds for one collection; then requests are let through


class CollectionLoading:
    """Loads of collections, bound to the event loop that created this object.

    ``port``: port of Chroma on 127.0.0.1.
    """

    def __init__(self, port: int) -> None:
        self._port, self._turn = port, asyncio.Lock()
        self._loads: dict[bytes, asyncio.Task[None]] = {}

    def under_way(self, target: bytes) -> asyncio.Task[None] | None:
        """Return the load that a request must wait for, if any. The task never fails."""
        found = _COLLECTION.match(target)
        if found is None:
            return None
        path = found[1]
        if path not in self._loads:
            self._loads[path] = asyncio.get_running_loop().create_task(self._load(path))
        load = self._loads[path]
        return None if load.done() else load

    async def _load(self, path: bytes) -> None:
        async with self._turn:
            loaded = False
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    loaded = await self._answers(path)
        if not loaded:  # it does not exist, or Chroma cannot load it: the next request tries again
            del self._loads[path]

    async def _answers(self, path: bytes) -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(b"GET %b/count HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n" % path)
            return b" 200 " in (await reader.read()).partition(b"\r\n")[0]
        finally:
            writer.close()
