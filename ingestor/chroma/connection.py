"""The connection to the Chroma server that the config describes, either our own or that of somebody else."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from ingestor.chroma.client import Client, Place, Unanswered
from ingestor.chroma.server import LOCAL, UNUSABLE, ChromaServer
from ingestor.config.servers import Chroma, RemoteChroma, Supervised, local_address
from ingestor.core.events import event

log = logging.getLogger(__name__)

# Seconds for which a request to a server of somebody else is retried. The daemon's writer then pauses.
BRIEF = 3.0
PATIENCE = 60.0  # the same for a command
PROMPT = 20.0  # seconds that a request of a reader may take


@dataclass(frozen=True, slots=True)
class ChromaConnection:
    """A Chroma server and a client of it, for any thread.

    ``address``: the address at which readers connect; "" if they cannot. ``server``: our own server; None if
    somebody else runs Chroma.
    """

    client: Client
    address: str = ""
    server: ChromaServer | None = None

    @property
    def restarts(self) -> int:
        """Return how often our server was restarted; 0 if somebody else runs Chroma."""
        return self.server.restarts if self.server else 0

    def tick(self) -> None:
        """Restart our server if it died or hangs. The thread that writes must call this regularly."""
        if self.server:
            self.server.tick()

    def answers(self, patience: float) -> bool:
        """Return whether Chroma answers within ``patience`` seconds. Any thread may call."""
        return self.client.within(patience).is_alive()

    def is_loading(self, uuids: Iterable[str], patience: float) -> bool:
        """Return whether our server is still loading one of these collections, which may take minutes.

        After a start, the first request for a collection makes the server load it. ``patience``: seconds to
        wait for an answer. Any thread may call.
        """
        loaded = self.server.supervision.loaded if self.server else {*uuids}
        for uuid in sorted({*uuids} - loaded):
            try:
                self.client.within(patience).count(UUID(uuid))
            except Unanswered:
                return True
            except UNUSABLE:
                continue
            loaded.add(uuid)
        return False


@contextmanager
def connect_to_chroma(
    chroma: Chroma, log_path: Path, *, serve: bool = False, attach: bool = False
) -> Iterator[ChromaConnection]:
    """Connect to Chroma until the context ends. If the server is ours, run it.

    ``attach``: use the server that the daemon runs already. ``serve``: run the daemon's own server, on the
    port of the config. If both are False, a server on any free port runs for this command alone. If the
    config says ``embedded``, other clients cannot connect to the server.
    """
    server, address = None, ""
    with ExitStack() as stack:
        if isinstance(chroma, RemoteChroma):
            address = f"{'https' if chroma.ssl else 'http'}://{chroma.host}:{chroma.port}"
        elif isinstance(chroma, Supervised) and (serve or attach):
            address = f"http://{chroma.host}:{chroma.port}"
        if not isinstance(chroma, RemoteChroma) and not attach:
            if isinstance(chroma, Supervised):
                host, port = (chroma.host, chroma.port) if serve else (LOCAL, 0)
                rights, names = chroma.rights, chroma.hosts
                server = ChromaServer(chroma.path, host, port, log_path, tokens=rights, names=names)
            else:
                server = ChromaServer(chroma.path, LOCAL, 0, log_path)
            stack.callback(server.stop)
            server.start_patiently()
            level = logging.WARNING if serve and "without" in server.level else logging.DEBUG
            log.log(level, "Chroma's port: %s", server.level, extra=event("listening", guard=server.level))

        client = server.connect() if server else _client_of(chroma, BRIEF if serve else PATIENCE)
        yield ChromaConnection(stack.enter_context(client), address, server)


def _client_of(chroma: Chroma, patience: float) -> Client:
    """Return a client of a server that another process runs."""
    assert isinstance(chroma, RemoteChroma | Supervised)
    token = chroma.token.get_secret_value() if chroma.token else None
    if isinstance(chroma, Supervised):
        host = local_address(chroma.host)
        return Client(host, chroma.port, token=token, folder=chroma.path)
    headers = {name: value.get_secret_value() for name, value in chroma.headers.items()}
    place = Place(chroma.tenant, chroma.database, headers, chroma.bounds, patience)
    return Client(chroma.host, chroma.port, token=token, ssl=chroma.ssl, place=place)
