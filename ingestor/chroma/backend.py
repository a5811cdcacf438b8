"""The collections of one state in Chroma: opens, checks, renames and deletes them, and keeps their settings.

A collection carries the mark of the state that wrote it. A collection with another mark, or with records and
no mark, is never changed: a wrong name in a config must not destroy anyone's data. Other programs may replace
a collection's metadata, including our mark. The journal still knows its UUID, which nobody can change.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import UUID

from ingestor.chroma.client import INVALID, Client, DescribedCollection, Place, Refused, Unanswered
from ingestor.chroma.folder import LEAST_ROOM
from ingestor.chroma.index import ChromaIndex, probe
from ingestor.chroma.server import LOCAL, OBSERVE_EVERY, UNUSABLE, ChromaServer
from ingestor.chroma.settings import describe_differences, new_configuration, right_settings
from ingestor.chroma.shards import SearchedShards
from ingestor.chroma.supervision import is_stuck
from ingestor.config.servers import Chroma, RemoteChroma, Supervised, local_address
from ingestor.core.entries import ChromaName, Edition, name_for_readers
from ingestor.core.events import event
from ingestor.core.generations import Home, Model, judge
from ingestor.model import ReaderModel
from ingestor.ports import Foreign, Gone, NeedsHuman, Torn, Transient
from ingestor.units import quantity

log = logging.getLogger(__name__)

DEATHS = 4  # crashes over one collection after which it is tested before it is opened
_EMPTIED = 2000  # records that one request deletes

OWNER = "ingestor_owner"  # key of the mark in a collection's own metadata


@dataclass(frozen=True, slots=True)
class Ownership:
    """The facts by which our own collections are recognised.

    ``mark``: the mark of this state. ``uuids``: returns the UUIDs of the collections that the journal knows.
    """

    mark: str
    uuids: Callable[[], Collection[str]] = tuple

    def of(self, collection: DescribedCollection) -> str | None:
        """Return the mark of the state that wrote a collection; None if no ingestor wrote it."""
        if (mark := mark_of(collection)) is None and str(collection.id) in self.uuids():
            return self.mark
        return mark


def mark_of(collection: DescribedCollection) -> str | None:
    """Return the mark that a collection's metadata carries, or None."""
    return (collection.metadata or {}).get(OWNER)


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
        """Return how often our server was restarted; 0 if somebody else runs Chroma.

        After each restart, the records in Chroma must be compared with the journal.
        """
        return self.server.supervision.starts - 1 if self.server else 0

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

    def await_loaded(self, uuids: Collection[str]) -> None:
        """Wait until our server has loaded these collections, as long as it uses processor time.

        A load may take longer than a request may. A command that gave up would begin it again each time.
        """
        if self.server is None:
            return
        begun = before = self.server.observe()
        while self.is_loading(uuids, OBSERVE_EVERY):
            now = self.server.observe()
            if is_stuck(begun.at, before, now):
                return  # the next request fails, with the reason
            before = now


@contextmanager
def open_collections(
    chroma: Chroma,
    owner: Ownership,
    log_path: Path,
    *,
    serve: bool = False,
    attach: bool = False,
) -> Iterator["Collections"]:
    """Open the collections of one state until the context ends. If Chroma's server is ours, run it.

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
            ours = chroma if isinstance(chroma, Supervised) else None
            host, port = (ours.host, ours.port) if ours and serve else (LOCAL, 0)
            rights, names = (ours.rights, ours.hosts) if ours else ((), ())
            server = ChromaServer(chroma.path, host, port, log_path, tokens=rights, names=names)
            stack.callback(server.stop)
            server.start_patiently()
            level = logging.WARNING if serve and "without" in server.level else logging.DEBUG
            log.log(level, "Chroma's port: %s", server.level, extra=event("listening", guard=server.level))

        client = server.connect() if server else _client_of(chroma, BRIEF if serve else PATIENCE)
        yield Collections(ChromaConnection(stack.enter_context(client), address, server), owner)


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


class Collections:
    """The collections of one state in Chroma. Names are the names in Chroma."""

    def __init__(self, connection: ChromaConnection, owner: Ownership) -> None:
        self.connection, self._client, self._owner = connection, connection.client, owner
        self._models = dict[str, Model]()  # by UUID of the collection
        self._refused = set[str]()  # UUIDs of collections whose records could not be deleted

    def for_readers(self, uuids: Sequence[str]) -> SearchedShards:
        """Return an edition by the UUIDs of its shards, for readers, who wait at most PROMPT seconds.

        Any thread may call.
        """
        return SearchedShards([ChromaIndex(self._client.within(PROMPT), UUID(uuid)) for uuid in uuids])

    def open(self, name: ChromaName, model: Model) -> tuple[ChromaIndex, str]:
        """Return our collection of this name and its UUID; create the collection if it does not exist.

        An empty collection without a mark is replaced by ours. Raises NeedsHuman, and changes nothing, if the
        collection belongs to somebody else or has vectors of another length. Raises Torn if the collection
        crashes Chroma, and Transient if Chroma cannot be reached.
        """
        if (server := self.connection.server) is not None:
            if server.supervision.deaths[name] >= DEATHS:
                server.test(
                    name, lambda client: _use(Collections(ChromaConnection(client), self._owner).find(name))
                )
            if name in server.supervision.fatal:
                raise Torn(
                    f"Chroma crashed {DEATHS} times while reading collection {name!r}, and again in a test"
                )
        dimensions = model.dimensions()
        collection = self._ours(name)
        if collection is not None and self._owner.of(collection) is None:
            self._client.delete_collection(name)
            collection = None
        if collection is None:
            collection = self._create(name, model.reader)
        elif dimensions and collection.dimension not in (None, dimensions):
            raise NeedsHuman(
                f"collection {name!r} holds vectors of {collection.dimension} dimensions, but the embedding "
                f"model returns {dimensions}: set another `collection`, or the model that wrote these "
                "vectors"
            )
        else:
            self._changes(collection, model, restore=True)
        index = ChromaIndex(self._client, collection.id, collection.name)
        if mark_of(collection) is None:
            words = "collection %s: another program replaced its metadata; ingestor's mark in it is restored"
            log.warning(words, name, extra=_event_of_change(name))
            index.note({OWNER: self._owner.mark})
        # without ``dimensions``, which would keep the embedder in memory
        self._models[index.uuid] = Model(model.recipe, model.reader, known=model.known)
        return index, index.uuid

    def _create(self, name: ChromaName, model: ReaderModel | None) -> DescribedCollection:
        try:
            return self._client.create_collection(name, new_configuration(model), {OWNER: self._owner.mark})
        except Refused as error:
            if error.kind == INVALID:
                raise NeedsHuman(f"Chroma rejects the collection name {name!r}: {error}") from error
            raise Transient(f"collection {name!r} could not be created: {error}") from error

    def find(self, name: ChromaName) -> ChromaIndex | None:
        """Return our collection of this name; None if it does not exist.

        Raises NeedsHuman if the name belongs to a collection of somebody else.
        """
        collection = self._ours(name)
        if collection is None or self._owner.of(collection) != self._owner.mark:
            return None
        return ChromaIndex(self._client, collection.id, collection.name)

    def _ours(self, name: ChromaName) -> DescribedCollection | None:
        """Return our collection of this name, or an empty one without a mark; None if none has the name.

        Raises Foreign if the name belongs to any other collection, or if readers would take a collection of
        another ingestor for ours.
        """
        try:
            collection = self._client.get_collection(name)
        except Gone:
            others = [
                each
                for each in self._client.collections()
                if name_for_readers(each.name) == name_for_readers(name)
                and mark_of(each) not in (None, self._owner.mark)
            ]
            if not others:
                return None
            collection = min(others, key=lambda other: other.name)
        mark = self._owner.of(collection)
        if mark not in (None, self._owner.mark):
            raise Foreign(
                f"collection {collection.name!r} was written by another ingestor (state {mark}, ours is "
                f"{self._owner.mark}): if that one is in use, give your sources another `collection` in the "
                "config; if its state is lost, have the collection deleted and written again: "
                f"ingestor collections --adopt {collection.name}"
            )
        if mark is None and (records := self._client.count(collection.id)):
            raise Foreign(
                f"collection {name!r} holds {quantity(records, 'record')} that ingestor did not write: "
                "give your sources another `collection` in the config"
            )
        return collection

    def edition(self, edition: Edition) -> SearchedShards | None:
        """Return the shards of an edition, once our server has loaded them; None if any no longer exists.

        Shards are found by UUID, because after a crash their names may not match the edition's role yet.
        """
        parts = [self.find(name) for name in self._names_now(edition)]
        present = [part for part in parts if part is not None]
        self.connection.await_loaded(edition.uuids)
        return SearchedShards(present) if len(present) == len(parts) else None

    def _names_now(self, edition: Edition) -> list[ChromaName]:
        """Return the names that an edition's shards have in Chroma now.

        A shard that does not exist has its last name.
        """
        here = self.names()
        return [ChromaName(here.get(uuid, name)) for uuid, name in edition.in_chroma]

    def list_changed_settings(self, edition: Edition, model: Model, *, restore: bool = False) -> list[str]:
        """Describe the settings of an edition's collections that somebody else changed.

        ``restore``: give these settings their right values, and describe only those that were restored.
        Records and vectors are not changed.
        """
        changes = list[str]()
        for name in self._names_now(edition):
            with suppress(Gone):
                now = self._changes(self._client.get_collection(name), model, restore=restore)
                changes += [f"{name}: {each}" for each in now]
        return changes

    def _changes(self, collection: DescribedCollection, model: Model, *, restore: bool) -> list[str]:
        """Describe the settings of a collection that somebody else changed.

        ``restore``: give them their right values. If that fails, log the reason, and describe none.
        """
        right, name = right_settings(collection, model), collection.name
        try:
            if right and restore:
                self._client.change_collection(collection.id, "configuration", right)
        except Refused as error:
            words = "collection %s: another program changed its settings, and they cannot be restored: %s"
            log.warning(words, name, error, extra=_event_of_change(name, str(error)))
            return []
        return describe_differences(collection, right)

    def empty(self, name: ChromaName, most: int) -> bool:
        """Delete at most ``most`` records of our collection of this name. Return whether records are left.

        Call this before a collection is deleted. Otherwise Chroma 1.5 would keep the lists in the metadata of
        its records, and give them to new records of any collection. A collection whose records cannot be
        deleted is not tried again, because a damaged collection may crash the server. Raises Transient if the
        disk is full.
        """
        self._client.require_room(LEAST_ROOM)
        with suppress(Foreign, Torn, Gone, Transient, NeedsHuman, Refused):
            if (collection := self._ours(name)) is not None:
                index = ChromaIndex(self._client, collection.id, name)
                if index.uuid not in self._refused:
                    self._refused.add(index.uuid)
                    ids = [*islice(index.ids(), most)]
                    index.drop(ids)
                    self._refused.remove(index.uuid)
                    return len(ids) == most
        return False

    def delete(self, name: ChromaName) -> None:
        """Delete the records of our collection of this name, then the collection, even if it is damaged.

        A collection of somebody else is not deleted.
        """
        while self.empty(name, _EMPTIED):
            pass
        with suppress(Foreign):
            if self._ours(name) is not None:
                self._client.delete_collection(name)
        if self.connection.server:
            self.connection.server.supervision.forget(name)

    def delete_any(self, uuid: str) -> None:
        """Delete a collection, whoever owns it, because a person decided so."""
        if (name := self.names().get(uuid)) is not None:
            self._client.delete_collection(name)

    def names(self) -> Mapping[str, str]:
        """Return the name of every collection by its UUID, whoever owns the collection."""
        return self._client.names()

    def own_names(self, home: Home) -> Mapping[str, str]:
        """Return the name of every collection that this state created, by its UUID.

        Collections that a copy of this state wrote last, at another home, are left out.
        """
        return {
            str(each.id): each.name
            for each in self._client.collections()
            if self._owner.of(each) == self._owner.mark
            and judge(each.metadata or {}, (), home) != "elsewhere"
        }

    def rename(self, uuid: str, name: str) -> bool:
        """Rename a collection. Return False if another collection has the name.

        Readers that opened the collection can continue, since they use its UUID.
        """
        try:
            self._client.change_collection(UUID(uuid), "name", name)
        except (Refused, Transient):
            if name in self.names().values():
                return False
            raise
        return True

    def evict(self, name: str) -> str:
        """Free a name that somebody else's collection has: delete that collection if it is empty, else rename
        it.

        Return in words what was done with it.
        """
        collection = self._client.get_collection(name)
        if not self._client.count(collection.id):
            self._client.delete_collection(name)
            return "deleted, since it was empty"
        aside = f"{name}--aside-{str(collection.id)[:8]}"
        self._client.change_collection(collection.id, "name", aside)
        return f"kept, as {aside}"

    def describe_all(self) -> list[tuple[DescribedCollection, str | None]]:
        """Return all collections, whoever owns them, sorted by name.

        Each comes with the mark of the state that wrote it, or None.
        """
        everything = sorted(self._client.collections(), key=lambda collection: collection.name)
        return [(collection, self._owner.of(collection)) for collection in everything]

    def index(self, uuid: str) -> ChromaIndex:
        """Return the collection with this UUID, whoever owns it."""
        return ChromaIndex(self._client, UUID(uuid))

    def probe(self, name: ChromaName) -> str | None:
        """Return why a collection or shard is not healthy or cannot grow; None if all is well."""
        try:
            self._client.require_room()
            if (index := self.find(name)) is None:
                return "the collection does not exist"
            self.connection.await_loaded([index.uuid])
            return probe(index, int(monotonic()))
        except (Transient, Gone, Torn, NeedsHuman) as error:
            return str(error)

    def reach_problem(self, name: ChromaName) -> str | None:
        """Return why search misses too many records of a collection; None if search finds enough of them.

        Each call examines another sample of records, and writes few missed ones again. It also restores
        settings that somebody else changed.
        """
        index = self.find(name)
        if index is None:
            raise Gone(f"collection {name!r} does not exist")
        if (model := self._models.get(index.uuid)) is not None:
            words = "collection %s: another program changed a setting, now restored: %s"
            for change in self._changes(self._client.get_collection(name), model, restore=True):
                log.warning(words, name, change, extra=_event_of_change(name))
        return probe(index, int(monotonic()), restore=True)

    def trouble(self, name: ChromaName, error: Exception) -> None:
        """Examine our server after a request for a collection failed, and restart it if necessary.

        That is the case if it died, met a full disk, or hangs. ``error``: the error of the request.
        """
        if self.connection.server:
            self.connection.server.trouble(name, error)


def _event_of_change(name: str, reason: str | None = None) -> dict[str, Any]:
    return event("collection_changed_elsewhere", collection=str(name), reason=reason)


def _use(index: ChromaIndex | None) -> None:
    """Read and search a collection, and write one of its records again, to test whether this crashes the
    server."""
    if index is not None:
        probe(index)
        index.upsert(index.read([*islice(index.ids(), 1)], vectors=True))
        probe(index)
