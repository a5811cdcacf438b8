"""The connection to Chroma as the config names it: a server of our own, which is kept up, or another's."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import UUID

from ingestor.chroma.client import Client, Full, Place, Unanswered
from ingestor.chroma.folder import is_full
from ingestor.chroma.processes import free_port
from ingestor.chroma.server import ChromaServer
from ingestor.config.servers import Chroma, RemoteChroma, Supervised, local_address
from ingestor.core.entries import ChromaName
from ingestor.core.events import event
from ingestor.ports import Gone, NeedsHuman, Torn, Transient

log = logging.getLogger(__name__)

LOCAL = "127.0.0.1"
LOOK_EVERY = 5.0  # seconds between two looks at our server
BRIEF = 3.0  # seconds that a request of the daemon waits in all for another's server; the writer then pauses
PATIENCE = 60.0  # the same for a command; seconds that a request may take
PROMPT = 20.0  # seconds that a reader waits for Chroma
LAST_WORD = 15.0  # seconds to answer a small request, after another one timed out
STARTS, START_PATIENCE = 5, 30.0  # attempts to start our server; seconds in which another one is made

_UNUSABLE = (Transient, Gone, Torn, NeedsHuman)  # what Chroma answers for a collection


class Supervisor:
    """Keeps our server up. The state and what follows from it are in ``server.supervision``."""

    def __init__(self, server: ChromaServer) -> None:
        self.server, self.state = server, server.supervision
        self._looked, self._complaint = monotonic(), ""

    @property
    def restarts(self) -> int:
        """Count the restarts; what Chroma holds is unknown after each."""
        return max(0, self.state.starts - 1)

    def start(self) -> None:
        """Start the server, with retries. Raises what the last attempt raised."""
        until = monotonic() + START_PATIENCE
        for _ in range(STARTS - 1):
            try:
                return self.server.start()
            except Transient as error:
                if monotonic() > until:
                    raise
                _log_down(error, logging.WARNING)
        return self.server.start()

    def tick(self) -> None:
        """Call regularly: restarts the server if it died or hangs."""
        if monotonic() - self._looked >= LOOK_EVERY:
            self._looked = monotonic()
            self.revived()

    def revived(self) -> str | None:
        """Restart the server if it died or hangs. Return why, or None."""
        reason = self.server.poll()
        if reason is not None:
            self._restart(reason)
        return reason

    def trouble(self, name: ChromaName, error: Exception, ask: Callable[[Client], object]) -> None:
        """Restart the server if it died over a request for a collection, met a full disk, or hangs.

        Measured on 1.5.9: some torn files crash it at every load. A few writes after it met a full disk
        it only answers heartbeats until it is restarted, even if there is space again.

        ``ask``: makes a small request for the collection.
        """
        reason = self.server.poll()
        if reason is not None and self.server.crashed:
            self.state.note_death(name)
        if reason is None and isinstance(error, Full):
            full = is_full(self.server.path)
            reason = self.state.stuck("the disk was full" if full else "the database is not writable")
        if reason is None and isinstance(error, Unanswered):
            before = self.server.look()
            if self._answers(ask):
                self.state.note_answer(name)
            elif (reason := self.state.note_silence(name, before, self.server.look())) is None:
                log.info(
                    "Chroma is busy with collection %s: waiting longer for an answer",
                    name,
                    extra=event("chroma_slow", collection=str(name)),
                )
        if reason is not None:
            self._restart(reason)

    def _answers(self, ask: Callable[[Client], object]) -> bool:
        with connect_to(self.server, LAST_WORD) as client:
            try:
                ask(client)
            except Unanswered:
                return False
            except _UNUSABLE:
                pass
        return True

    def test(self, name: ChromaName, use: Callable[[Client], None]) -> None:
        """Find out whether a collection crashes Chroma. Readers wait meanwhile.

        A private server is asked, so that no other request can be the cause. ``use``: reads the collection
        and writes a record of it again. Raises Torn if Chroma reports that the collection is damaged.
        """
        self.server.stop()
        alone = ChromaServer(self.server.path, LOCAL, free_port(LOCAL), self.server.log_path)
        try:
            with alone, connect_to(alone) as client:
                try:
                    use(client)
                except Transient:
                    if alone.poll() is not None and alone.crashed:
                        self.state.fatal.add(name)
        finally:
            self._restart(f"stopped to test whether collection {name} crashes the server")

    def _restart(self, reason: str) -> None:
        """Restart the server; after an error the next tick retries."""
        if not self._complaint:
            log.error("restarting Chroma: %s", reason, extra=event("chroma_restarted", reason=reason))
        try:
            self.server.restart()
        except (Transient, NeedsHuman, OSError) as error:
            if self._complaint != str(error):
                _log_down(error, logging.ERROR)
            self._complaint = str(error)
            return
        log.info("Chroma is up again", extra=event("chroma_up"))
        self._complaint = ""


def _log_down(error: Exception, level: int) -> None:
    down = event("chroma_down", reason=str(error))
    log.log(level, "Chroma did not start, will retry: %s", error, extra=down)


def connect_to(server: ChromaServer, timeout: float = PATIENCE) -> Client:
    host, token = local_address(server.host), server.secret
    return Client(host, server.port, token=token, timeout=timeout, folder=server.path)


@dataclass(frozen=True, slots=True)
class ChromaConnection:
    """Clients of Chroma. ``client``: of the thread that writes; ``readers``: of any thread.

    ``connect``: makes another client, with seconds that a request may take. ``address``: where readers
    connect; "" if they cannot. ``supervisor``: of a server of our own.
    """

    client: Client
    readers: Client
    connect: Callable[[float], Client]
    address: str = ""
    supervisor: Supervisor | None = None

    @property
    def restarts(self) -> int:
        return self.supervisor.restarts if self.supervisor else 0

    @property
    def guard(self) -> str:
        """Describe how the port of our server is guarded; "" without a server."""
        return self.supervisor.server.level if self.supervisor else ""

    def tick(self) -> None:
        """Call regularly, from the thread that writes."""
        if self.supervisor:
            self.supervisor.tick()

    def revived(self) -> str | None:
        """Restart our server if it ended over the last request. Return why it ended, or None."""
        return self.supervisor.revived() if self.supervisor else None

    def answers(self, patience: float) -> bool:
        """Whether Chroma answers within ``patience`` seconds. Any thread."""
        with self.connect(patience) as client:
            return client.is_alive()

    def loading(self, uuids: Iterable[str], patience: float) -> bool:
        """Whether our server has not answered for one of these collections since it started.

        It loads them with their first request. Any thread; ``patience``: seconds.
        """
        loaded = self.supervisor.state.loaded if self.supervisor else {*uuids}
        unknown = {*uuids} - loaded
        if not unknown:
            return False
        with self.connect(patience) as client:
            for uuid in sorted(unknown):
                try:
                    client.count(UUID(uuid))
                except Unanswered:
                    return True
                except _UNUSABLE:
                    continue
                loaded.add(uuid)
        return False


@contextmanager
def connected(
    chroma: Chroma, log_path: Path, *, serve: bool = False, attach: bool = False
) -> Iterator[ChromaConnection]:
    """Connect to Chroma, and run its server if it is ours.

    ``attach``: a daemon runs and serves, so its server is used; ``serve``: be that daemon. Neither: a server
    for this command alone, on any port, as ``embedded`` is always.
    """
    supervisor, address = None, ""
    with ExitStack() as stack:
        if isinstance(chroma, RemoteChroma):
            address = f"{'https' if chroma.ssl else 'http'}://{chroma.host}:{chroma.port}"
        elif isinstance(chroma, Supervised) and (serve or attach):
            address = f"http://{chroma.host}:{chroma.port}"
        if not isinstance(chroma, RemoteChroma) and not attach:
            supervisor = _supervise(chroma, log_path, stack, serve=serve)

        def connect(timeout: float) -> Client:
            if supervisor is not None:
                return connect_to(supervisor.server, timeout)
            return _client_of(chroma, timeout, BRIEF if serve else PATIENCE)

        client = stack.enter_context(connect(PATIENCE))
        readers = stack.enter_context(connect(PROMPT)) if serve else client
        yield ChromaConnection(client, readers, connect, address, supervisor)


def _supervise(chroma: Chroma, log_path: Path, stack: ExitStack, *, serve: bool) -> Supervisor:
    """Start our server, which is stopped with the stack."""
    assert not isinstance(chroma, RemoteChroma)
    host, port, rights = LOCAL, 0, dict[str, Any]()
    if isinstance(chroma, Supervised):
        rights = {"tokens": chroma.rights, "names": chroma.hosts}
        host, port = (chroma.host, chroma.port) if serve else (LOCAL, 0)
    server = ChromaServer(chroma.path, host, port or free_port(LOCAL), log_path, **rights)
    stack.callback(server.stop)
    supervisor = Supervisor(server)
    supervisor.start()
    level = logging.WARNING if serve and "without" in server.level else logging.DEBUG
    log.log(level, "Chroma's port: %s", server.level, extra=event("listening", guard=server.level))
    return supervisor


def _client_of(chroma: Chroma, timeout: float, patience: float) -> Client:
    """Connect to a server that another process runs."""
    assert isinstance(chroma, RemoteChroma | Supervised)
    token = chroma.token.get_secret_value() if chroma.token else None
    if isinstance(chroma, Supervised):
        host = local_address(chroma.host)
        return Client(host, chroma.port, token=token, timeout=timeout, folder=chroma.path)
    headers = {name: value.get_secret_value() for name, value in chroma.headers.items()}
    place = Place(chroma.tenant, chroma.database, headers, chroma.bounds, patience)
    return Client(chroma.host, chroma.port, token=token, ssl=chroma.ssl, timeout=timeout, place=place)
