"""Many ask for a collection at once as soon as Chroma started, and some give up: one request loads it."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress

from ingestor.chroma.guard import serve
from ingestor.chroma.guard_rules import access
from ingestor.http_server.access import rules
from ingestor.http_server.peers import PeerUsers
from tests.serving import HOST, free_port

BASE = "/api/v2/tenants/default_tenant/databases/default_database/collections"
FIRST, SECOND = (f"{BASE}/{digit * 8}-0000-0000-0000-000000000000" for digit in "12")


class SlowChroma:
    """Loads a collection with its first request, and never answers a second one that comes meanwhile.
    ``heard``: the paths in their order."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.loaded, self.loading = set[str](), set[str]()
        self.may_load = asyncio.Event()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split()[1].decode()
                self.heard.append(path)
                if of := re.search("collections/([0-9-]+)", path):
                    await self._load(of[1])
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n1")
                if b"connection: close" in head:
                    return

    async def _load(self, collection: str) -> None:
        if collection in self.loaded:
            return
        if self.loading:
            await asyncio.Event().wait()
        self.loading.add(collection)
        await self.may_load.wait()
        self.loading.clear()
        self.loaded.add(collection)


@asynccontextmanager
async def guarded(chroma: SlowChroma) -> AsyncIterator[Callable[[str], Awaitable[bytes]]]:
    """A way to ask it through a guard."""
    server = await asyncio.start_server(chroma.talk, HOST, 0)
    listener = socket.create_server((HOST, port := free_port()))
    peers = PeerUsers()
    guard = asyncio.create_task(
        serve(
            access(rules([], None), "", [(None, "read")]),
            peers,
            listener,
            server.sockets[0].getsockname()[1],
            lambda stop: None,
            lambda number, client: None,
        )
    )

    async def ask(path: str) -> bytes:
        reader, writer = await asyncio.open_connection(HOST, port)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            return await reader.readuntil(b"\r\n\r\n1")
        finally:
            writer.close()
            await writer.wait_closed()

    try:
        yield ask
    finally:
        guard.cancel()
        peers.close()
        listener.close()
        server.close()
        await asyncio.sleep(0.2)  # for both to see that the connections ended


async def many_ask(chroma: SlowChroma) -> None:
    async with guarded(chroma) as ask, asyncio.timeout(30):
        first = [asyncio.create_task(ask(f"{FIRST}/query")) for _ in range(8)]
        second = [asyncio.create_task(ask(f"{SECOND}?x=1")) for _ in range(8)]
        while not chroma.loading:
            await asyncio.sleep(0.01)
        await ask("/api/v2/heartbeat")
        await ask(BASE)
        for task in (*first[:7], *second[:7]):  # they have no more time
            task.cancel()
        await asyncio.wait([*first[:7], *second[:7]])
        chroma.may_load.set()
        await asyncio.gather(first[7], second[7])
        await ask(f"{FIRST}/count")


def test_collection_is_loaded_by_one_request_even_if_callers_give_up() -> None:
    async def play() -> None:
        chroma = SlowChroma()
        await many_ask(chroma)
        loads = [path for path in chroma.heard if path.endswith("/count")]
        assert sorted(loads) == [f"{FIRST}/count", f"{FIRST}/count", f"{SECOND}/count"]
        first_asked = min(map(chroma.heard.index, (f"{FIRST}/query", f"{SECOND}?x=1")))
        assert first_asked > chroma.heard.index(loads[0])

    asyncio.run(play())
