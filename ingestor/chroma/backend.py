"""Chroma as the config names it: our own server, another server, or inside this process."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from time import monotonic
from types import TracebackType
from uuid import UUID

from ingestor.chroma.client import Client, Full, Place, Unanswered, connect, embedded
from ingestor.chroma.collections import (
    Described,
    Ownership,
    changed_settings,
    delete_any_collection,
    delete_collection,
    describe_collections,
    evict_collection,
    find_collection,
    list_names,
    open_collection,
    rename_collection,
)
from ingestor.chroma.folder import is_full
from ingestor.chroma.index import ChromaIndex
from ingestor.chroma.reach import probe
from ingestor.chroma.server import ChromaServer, Silences, free_port, hangs
from ingestor.chroma.shards import SearchedShards
from ingestor.config.servers import Chroma, Embedded, RemoteChroma, Supervised, local_address
from ingestor.core.backend import Model
from ingestor.core.entries import ChromaName, Edition
from ingestor.core.events import event
from ingestor.ports import Foreign, Gone, NeedsHuman, Torn, Transient

log = logging.getLogger("ingestor")

LOCAL = "127.0.0.1"
LOOK_EVERY = 5.0  # seconds between two checks of our server
BRIEF = 3.0  # seconds that a request of the daemon waits in all for another's server; the writer then pauses
PATIENCE = 60.0  # the same for a command
PROMPT = 20.0  # seconds that a reader waits for Chroma
LAST_WORD = 15.0  # seconds to answer a small request, after another one timed out
DEATHS = 4  # crashes over one collection, after which its files are suspected
STARTS, START_PATIENCE = 5, 30.0  # attempts to start our server; seconds in which another one is made
FORGIVEN = 600.0  # seconds without a restart, after which deaths no longer count


class Collections:
    """The collections of one state, as ``core.backend.Backend``. Use as a context.

    ``attach``: a daemon runs and serves, so its server is used; ``serve``: be that daemon. Neither: a server
    for this command alone, on any port. In this process Chroma would hold up every thread while it writes,
    and a torn segment would take the program with it.
    """

    def __init__(
        self,
        chroma: Chroma,
        owner: Ownership,
        *,
        log_path: Path,
        serve: bool = False,
        attach: bool = False,
    ) -> None:
        self._chroma, self._owner = chroma, owner
        self._log_path, self._serve, self._attach = log_path, serve, attach
        self._server: ChromaServer | None = None
        self._looked = monotonic()
        self._restarted = monotonic()
        self._deaths = Counter[ChromaName]()
        self._fatal = set[ChromaName]()  # found to crash our server when asked; until they are deleted
        self._models = dict[str, Model]()  # by UUID
        self._silences = Silences()
        self._loaded = set[str]()  # UUIDs; another set after each restart
        self._looks = 0
        self.restarts = 0  # of our server, since the start
        self._down = ""  # why our server did not start when it was last tried
        self._stack = ExitStack()

    def __enter__(self) -> "Collections":
        try:
            self._client = self._stack.enter_context(self._connected())
            self._readers = self._client
            if self._serve and not isinstance(self._chroma, Embedded):
                self._readers = self._stack.enter_context(self._another(PROMPT))
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def address(self) -> str:
        """Where readers connect; "" if they cannot."""
        if isinstance(self._chroma, RemoteChroma):
            scheme = "https" if self._chroma.ssl else "http"
            return f"{scheme}://{self._chroma.host}:{self._chroma.port}"
        if isinstance(self._chroma, Supervised) and (self._serve or self._attach):
            return f"http://{self._chroma.host}:{self._chroma.port}"
        return ""

    def for_readers(self, uuids: Sequence[str]) -> SearchedShards:
        """Return an edition by the UUIDs of its shards, over a connection of its own. Any thread."""
        return SearchedShards([ChromaIndex(self._readers, UUID(uuid)) for uuid in uuids])

    def answers(self, patience: float) -> bool:
        """Whether Chroma answers within ``patience`` seconds. Any thread."""
        if isinstance(self._chroma, Embedded):
            return True
        with self._another(patience) as client:
            return client.is_alive()

    def loading(self, uuids: Iterable[str], patience: float) -> bool:
        """Whether our server has not answered for one of these collections since it started: it loads them
        with their first request. Any thread; ``patience``: seconds.
        """
        loaded = self._loaded
        unknown = {*uuids} - loaded
        if self._server is None or not unknown:
            return False
        with self._another(patience) as client:
            for uuid in sorted(unknown):
                try:
                    ChromaIndex(client, UUID(uuid)).count()
                except Unanswered:
                    return True
                except (Transient, Gone, Torn, NeedsHuman):
                    continue
                loaded.add(uuid)
        return False

    @property
    def guard(self) -> str:
        """How the port of our server is guarded, in words; "" without a server."""
        return self._server.level if self._server else ""

    def open(self, name: ChromaName, model: Model) -> tuple[ChromaIndex, str]:
        """The collection, created if it does not exist, and its UUID.

        Raises NeedsHuman if it is not ours, Torn if it crashes Chroma, Transient if Chroma is away.
        """
        if self._deaths[name] >= DEATHS:
            self._find_out(name)
        if name in self._fatal:
            raise Torn(
                f"Chroma crashed {DEATHS} times while reading collection {name!r}, and again in a test"
            )
        index = open_collection(
            self._client,
            name,
            model=model.reader,
            dimensions=model.dimensions(),
            owner=self._owner,
            known=model.known,
        )
        self._models[index.uuid] = model
        return index, index.uuid

    def changed_settings(self, edition: Edition, model: Model, *, restore: bool = False) -> list[str]:
        """Settings of an edition's collections that somebody else changed, in words."""
        here = self.names()
        return [
            f"{name}: {each}"
            for uuid, name in ((uuid, ChromaName(here.get(uuid, name))) for uuid, name in edition.places)
            for each in changed_settings(self._client, name, model.reader, known=model.known, restore=restore)
        ]

    def delete(self, name: ChromaName) -> None:
        """Delete our collection of that name, if there is one; never another program's."""
        with suppress(Foreign):
            delete_collection(self._client, name, owner=self._owner)
        self._fatal.discard(name)
        self._deaths[name] = 0

    def described(self) -> list[Described]:
        return describe_collections(self._client, self._owner)

    def delete_any(self, uuid: str) -> None:
        """Delete a collection, ours or not: a person decided that."""
        delete_any_collection(self._client, uuid)

    def note(self, uuid: str, facts: Mapping[str, str]) -> None:
        """Add to the metadata of a collection of any owner: a person decided that."""
        ChromaIndex(self._client, UUID(uuid)).note(facts)

    def names(self) -> Mapping[str, str]:
        return list_names(self._client)

    def rename(self, uuid: str, name: str) -> bool:
        return rename_collection(self._client, uuid, name)

    def evict(self, name: str) -> str:
        return evict_collection(self._client, name)

    def existing(self, name: ChromaName) -> ChromaIndex | None:
        """Our collection of that name, or None."""
        return find_collection(self._client, name, owner=self._owner)

    def edition(self, edition: Edition) -> SearchedShards | None:
        """The collection of an edition, by UUID: after a crash its name may not match its role. None if it,
        or one of its shards, is gone."""
        here = self.names()
        found = [self.existing(ChromaName(here.get(uuid, name))) for uuid, name in edition.places]
        parts = [part for part in found if part is not None]
        return SearchedShards(parts) if len(parts) == len(found) else None

    def probe(self, name: ChromaName) -> str | None:
        """Why the collection or shard is not healthy or cannot grow, or None."""
        try:
            self._client.require_room()
            index = self.existing(name)
            return probe(index, int(monotonic())) if index is not None else "the collection does not exist"
        except (Transient, Gone, Torn, NeedsHuman) as error:
            return str(error)

    def look(self, name: ChromaName) -> str | None:
        """Why too many records are out of search's reach, or None. Each look samples other records.

        Settings of the collection that somebody else changed are restored.
        """
        index = self.existing(name)
        if index is None:
            raise Gone(f"collection {name!r} does not exist")
        if (model := self._models.get(index.uuid)) is not None:
            for words in changed_settings(self._client, name, model.reader, known=model.known, restore=True):
                log.warning(
                    "collection %s: another program changed a setting, now restored: %s",
                    name,
                    words,
                    extra=event("collection_changed_elsewhere", collection=str(name)),
                )
        self._looks += 1
        return probe(index, self._looks)

    def trouble(self, name: ChromaName, error: Exception) -> None:
        """Restart our server if it died over a request, met a full disk, or hangs.

        Measured on 1.5.9: some torn files crash it at every load. A few writes after it met a full disk
        it only answers heartbeats until it is restarted, even if there is space again.
        """
        if self._server is None:
            return
        reason = self._server.poll()
        self._deaths[name] += reason is not None and self._server.crashed
        if reason is None and isinstance(error, Full):
            reason = "the disk was full" if is_full(self._server.path) else "the database is not writable"
        if reason is None and isinstance(error, Unanswered) and self._hangs(self._server, name):
            reason = "no answer"
        if reason is not None:
            self._restart(self._server, reason)

    def revived(self) -> str | None:
        """Restart our server if it ended over the last request. Returns why it ended, or None."""
        reason = self._server.poll() if self._server is not None else None
        if self._server is not None and reason is not None:
            self._restart(self._server, reason)
        return reason

    def tick(self) -> bool:
        """Call regularly: restarts our server if it died or hangs. True if that was done."""
        if self._server is None or monotonic() - self._looked < LOOK_EVERY:
            return False
        self._looked = monotonic()
        reason = self._server.poll()
        if reason is not None:
            return self._restart(self._server, reason)
        if monotonic() - self._restarted > FORGIVEN:
            self._deaths.clear()
        return False

    def _restart(self, server: ChromaServer, reason: str) -> bool:
        """Whether it started; if not, the next tick retries."""
        if not self._down:
            log.error("restarting Chroma: %s", reason, extra=event("chroma_restarted", reason=str(reason)))
        self._restarted = monotonic()
        self._silences.clear()
        self._loaded = set()
        self.restarts += 1
        try:
            server.restart()
        except (Transient, NeedsHuman, OSError) as error:
            if self._down != str(error):
                log.error(
                    "Chroma did not start, will retry: %s",
                    error,
                    extra=event("chroma_down", reason=str(error)),
                )
            self._down = str(error)
            return False
        log.info("Chroma is up again", extra=event("chroma_up"))
        self._down = ""
        return True

    def _connected(self) -> Client:
        chroma = self._chroma
        if isinstance(chroma, Embedded):
            return embedded(chroma.path)
        if isinstance(chroma, Supervised) and not self._attach:
            host, port = (chroma.host, chroma.port) if self._serve else (LOCAL, free_port(LOCAL))
            self._server = ChromaServer(
                chroma.path, host, port, self._log_path, tokens=chroma.rights, names=chroma.hosts
            )
            self._stack.callback(self._server.stop)
            self._start(self._server)
            level = logging.WARNING if self._serve and "without" in self._server.level else logging.DEBUG
            guard = event("listening", guard=self._server.level)
            log.log(level, "Chroma's port: %s", self._server.level, extra=guard)
        return self._another()

    def _start(self, server: ChromaServer) -> None:
        """Start our server, with retries. Raises what the last attempt raised."""
        until = monotonic() + START_PATIENCE
        for _ in range(STARTS - 1):
            try:
                server.start()
            except Transient as error:
                if monotonic() > until:
                    raise
                log.warning(
                    "Chroma did not start, will retry: %s",
                    error,
                    extra=event("chroma_down", reason=str(error)),
                )
            else:
                return
        server.start()

    def _find_out(self, name: ChromaName) -> None:
        """Whether our server crashes over this collection alone. Readers wait meanwhile."""
        assert self._server is not None
        self._deaths[name] = 0
        try:
            if crashes_chroma(self._server, name, self._owner):
                self._fatal.add(name)
        finally:
            self._restart(self._server, f"stopped to test whether collection {name} crashes the server")

    def _hangs(self, server: ChromaServer, name: ChromaName) -> bool:
        """Whether our server neither answers for this collection nor works, or has not answered for long."""
        before = server.look()
        if self._answers(name):
            self._silences.ended(name)
            return False
        now = server.look()
        if hangs(self._silences.since(name, before.at, now.at), before, now):
            return True
        log.info(
            "Chroma is busy with collection %s: waiting longer for an answer",
            name,
            extra=event("chroma_slow", collection=str(name)),
        )
        return False

    def _answers(self, name: ChromaName) -> bool:
        """Whether our server answers at all when asked for this collection's size."""
        with self._another(LAST_WORD) as client:
            try:
                index = find_collection(client, name, owner=self._owner)
                if index is not None:
                    index.count()
            except Unanswered:
                return False
            except (Transient, Gone, Torn, NeedsHuman):
                pass
        return True

    def _another(self, timeout: float = 60.0) -> Client:
        """A client of the server, ours or not."""
        chroma = self._chroma
        assert not isinstance(chroma, Embedded)
        if isinstance(chroma, RemoteChroma):
            ours = chroma.host, chroma.port
            place = _place(chroma, BRIEF if self._serve else PATIENCE)
            return connect(*ours, token=self._token(chroma), ssl=chroma.ssl, timeout=timeout, place=place)
        at = self._server or chroma
        token, folder = self._token(chroma), chroma.path
        return connect(local_address(at.host), at.port, token=token, timeout=timeout, folder=folder)

    def _token(self, chroma: Supervised | RemoteChroma) -> str | None:
        """The secret of our server, or the token of the config."""
        if self._server is not None:
            return self._server.secret
        return chroma.token.get_secret_value() if chroma.token else None


def _place(chroma: RemoteChroma, patience: float) -> Place:
    return Place(chroma.tenant, chroma.database, _headers(chroma), chroma.bounds, patience)


def _headers(chroma: RemoteChroma) -> dict[str, str]:
    return {name: value.get_secret_value() for name, value in chroma.headers.items()}


def crashes_chroma(server: ChromaServer, name: ChromaName, owner: Ownership) -> bool:
    """Ask a private server, so that no other request can be the cause of a crash.

    ``server`` is stopped, and stays stopped. The collection is read and searched, and one of its records is
    written again. Raises Torn if Chroma reports that the collection is damaged.
    """
    server.stop()
    alone = ChromaServer(server.path, LOCAL, free_port(LOCAL), server.log_path)
    with alone, connect(LOCAL, alone.port, token=alone.secret) as client:
        try:
            index = find_collection(client, name, owner=owner)
            if index is not None:
                probe(index)
                index.upsert(index.sample(0, 1))
                probe(index)
        except Transient:
            return alone.poll() is not None and alone.crashed
    return False
