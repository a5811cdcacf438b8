"""The collections of a state in Chroma: opened, found, described, renamed and deleted."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import UUID

from ingestor.chroma.client import INVALID, Client, DescribedCollection, Refused
from ingestor.chroma.collections import (
    OWNER,
    Described,
    Ownership,
    describe_differences,
    mark_of,
    model_of,
    new_configuration,
    require_known,
    right_settings,
)
from ingestor.chroma.connection import ChromaConnection, connected
from ingestor.chroma.index import ChromaIndex
from ingestor.chroma.reach import probe
from ingestor.chroma.shards import SearchedShards
from ingestor.chroma.supervision import DEATHS
from ingestor.config.servers import Chroma
from ingestor.core.backend import Model
from ingestor.core.entries import ChromaName, Edition
from ingestor.core.events import event
from ingestor.core.generation import home_of
from ingestor.model import ReaderModel
from ingestor.ports import Foreign, Gone, NeedsHuman, Torn, Transient
from ingestor.units import counted

log = logging.getLogger(__name__)

_EMPTIED = 2000  # records that one request deletes


@contextmanager
def opened(
    chroma: Chroma, owner: Ownership, log_path: Path, *, serve: bool = False, attach: bool = False
) -> Iterator["Collections"]:
    """Open the collections of one state. See ``connection.connected``."""
    with connected(chroma, log_path, serve=serve, attach=attach) as connection:
        yield Collections(connection, owner)


class Collections:
    """The collections of one state, as ``core.backend.Backend``."""

    def __init__(self, connection: ChromaConnection, owner: Ownership) -> None:
        self.connection, self._client, self._owner = connection, connection.client, owner
        self._models = dict[str, Model]()  # by UUID
        self._refused = set[str]()  # UUIDs of collections whose records could not be deleted
        self._looks = 0

    def for_readers(self, uuids: Sequence[str]) -> SearchedShards:
        """Return an edition by the UUIDs of its shards, over a connection of its own. Any thread."""
        return SearchedShards([ChromaIndex(self.connection.readers, UUID(uuid)) for uuid in uuids])

    def open(self, name: ChromaName, model: Model) -> tuple[ChromaIndex, str]:
        """The collection, and its UUID. It is made if it does not exist, and adopted if empty and unmarked.

        Raises NeedsHuman, and changes nothing, if it is not ours or has vectors of another length; Torn if it
        crashes Chroma, Transient if Chroma is away.
        """
        if (supervisor := self.connection.supervisor) is not None:
            if supervisor.state.suspects(name):
                supervisor.test(name, lambda client: _use(self._find(client, name)))
            if name in supervisor.state.fatal:
                raise Torn(
                    f"Chroma crashed {DEATHS} times while reading collection {name!r}, and again in a test"
                )
        dimensions = model.dimensions()
        collection = self._ours(self._client, name)
        if collection is not None and self._owner.of(collection) is None:
            self._client.delete_collection(name)
            collection = None
        if collection is None:
            collection = self._create(name, model.reader)
        elif dimensions and collection.dimension not in (None, dimensions):
            raise NeedsHuman(
                f"collection {name!r} holds vectors of {collection.dimension} dimensions, and the embedding "
                f"model makes {dimensions}: use another collection, or the model that wrote these vectors"
            )
        else:
            self._restore(collection, model.reader, model.known or model.reader is not None)
        index = ChromaIndex(self._client, collection.id, collection.name)
        if mark_of(collection) is None:
            log.warning(
                "collection %s: its metadata was replaced; ingestor's mark is restored",
                name,
                extra=event("collection_changed_elsewhere", collection=str(name)),
            )
            index.note({OWNER: self._owner.mark})
        self._models[index.uuid] = model
        return index, index.uuid

    def _create(self, name: ChromaName, model: ReaderModel | None) -> DescribedCollection:
        try:
            return self._client.create_collection(name, new_configuration(model), {OWNER: self._owner.mark})
        except Refused as error:
            if error.kind == INVALID:
                raise NeedsHuman(f"Chroma rejects the collection name {name!r}: {error}") from error
            raise Transient(f"collection {name!r} could not be created: {error}") from error

    def existing(self, name: ChromaName) -> ChromaIndex | None:
        """Our collection of that name, or None. Raises NeedsHuman if it is not ours."""
        return self._find(self._client, name)

    def _find(self, client: Client, name: ChromaName) -> ChromaIndex | None:
        collection = self._ours(client, name)
        is_ours = collection is not None and self._owner.of(collection) == self._owner.mark
        return (
            ChromaIndex(client, collection.id, collection.name)
            if collection is not None and is_ours
            else None
        )

    def _ours(self, client: Client, name: ChromaName) -> DescribedCollection | None:
        """The collection, if it is ours or is empty and unmarked; None if there is none. Raises Foreign."""
        try:
            collection = client.get_collection(name)
        except Gone:
            return None
        mark = self._owner.of(collection)
        if mark not in (None, self._owner.mark):
            raise Foreign(
                f"collection {name!r} was written by another ingestor (state {mark}, ours is "
                f"{self._owner.mark}): if that one is in use, give your sources another `collection` in the "
                "config; if its state is lost, have the collection deleted and written again: "
                f"ingestor collections --adopt {name}"
            )
        if mark is None and (records := client.count(collection.id)):
            raise Foreign(
                f"collection {name!r} holds {counted(records, 'record')} that ingestor did not write: "
                "give your sources another `collection` in the config"
            )
        return collection

    def edition(self, edition: Edition) -> SearchedShards | None:
        """The collection of an edition, by UUID: after a crash its name may not match its role.

        None if it, or one of its shards, is gone.
        """
        parts = [self.existing(name) for name in self._names_now(edition)]
        present = [part for part in parts if part is not None]
        return SearchedShards(present) if len(present) == len(parts) else None

    def _names_now(self, edition: Edition) -> list[ChromaName]:
        here = self.names()
        return [ChromaName(here.get(uuid, name)) for uuid, name in edition.places]

    def changed_settings(self, edition: Edition, model: Model, *, restore: bool = False) -> list[str]:
        """Describe settings of an edition's collections that somebody else changed.

        ``restore``: also give them their right values. Records and vectors stay as they are.
        """
        return [
            f"{name}: {each}"
            for name in self._names_now(edition)
            for each in self._list_changes(name, model, restore=restore)
        ]

    def _list_changes(self, name: ChromaName, model: Model, *, restore: bool) -> list[str]:
        try:
            collection = self._client.get_collection(name)
        except Gone:
            return []
        if restore:
            return describe_differences(collection, self._restore(collection, model.reader, model.known))
        return describe_differences(collection, right_settings(collection, model.reader, model.known))

    def _restore(
        self, collection: DescribedCollection, model: ReaderModel | None, known: bool
    ) -> dict[str, Any]:
        """Return the settings that were wrong, with their right values."""
        right = right_settings(collection, model, known)
        try:
            if right and model is not None:
                require_known(model)
            if right:
                self._client.change_collection(collection.id, "configuration", right)
        except (Refused, NeedsHuman) as error:
            log.warning(
                "collection %s: its settings cannot be restored: %s",
                collection.name,
                error,
                extra=event("collection_changed_elsewhere", collection=collection.name, reason=str(error)),
            )
        return right

    def empty(self, name: ChromaName, most: int) -> bool:
        """Delete at most ``most`` records of our collection of that name. Return whether others are left.

        Chroma 1.5 keeps the lists of records whose collection is deleted, and gives them to new records of
        any collection, which take the same rows. A collection that refuses is not tried again: a torn one
        may end the server.
        """
        with suppress(Foreign, Torn, Gone, Transient, NeedsHuman, Refused):
            if (collection := self._ours(self._client, name)) is not None:
                index = ChromaIndex(self._client, collection.id, name)
                if index.uuid not in self._refused:
                    self._refused.add(index.uuid)
                    ids = [*islice(index.ids(), most)]
                    index.drop(ids)
                    self._refused.remove(index.uuid)
                    return len(ids) == most
        return False

    def delete(self, name: ChromaName) -> None:
        """Delete our collection of that name, torn or whole, and its records first; never a stranger's."""
        while self.empty(name, _EMPTIED):
            pass
        with suppress(Foreign):
            if self._ours(self._client, name) is not None:
                self._client.delete_collection(name)
        if self.connection.supervisor:
            self.connection.supervisor.state.forget(name)

    def delete_any(self, uuid: str) -> None:
        """Delete a collection of any owner: a person decided that."""
        if (name := self.names().get(uuid)) is not None:
            self._client.delete_collection(name)

    def note(self, uuid: str, facts: Mapping[str, str]) -> None:
        """Add to the metadata of a collection of any owner: a person decided that."""
        ChromaIndex(self._client, UUID(uuid)).note(facts)

    def names(self) -> Mapping[str, str]:
        return self._client.names()

    def rename(self, uuid: str, name: str) -> bool:
        """Rename a collection. Return False if another collection has that name.

        Readers' handles keep working: they hold the UUID.
        """
        try:
            self._client.change_collection(UUID(uuid), "name", name)
        except (Refused, Transient):
            if name in self.names().values():
                return False
            raise
        return True

    def evict(self, name: str) -> str:
        """Free a name that a foreign collection has: delete it if empty, else rename it. Return which."""
        collection = self._client.get_collection(name)
        if not self._client.count(collection.id):
            self._client.delete_collection(name)
            return "deleted, for it was empty"
        aside = f"{name}--aside-{str(collection.id)[:8]}"
        self._client.change_collection(collection.id, "name", aside)
        return f"kept, as {aside}"

    def described(self) -> list[Described]:
        """Describe all collections, of any owner, by name."""
        return sorted(map(self._describe, self._client.collections()), key=lambda collection: collection.name)

    def _describe(self, collection: DescribedCollection) -> Described:
        about = Described(
            ChromaName(collection.name),
            str(collection.id),
            self._owner.of(collection),
            home_of(collection.metadata or {}),
            model_of(collection),
            collection.dimension,
        )
        index = ChromaIndex(self._client, collection.id)
        try:
            records, sample = index.count(), index.sample(0, 1)
        except (Gone, Torn, Transient) as error:
            return replace(about, trouble=str(error))
        strategy = sample[0].metadata.get("strategy") if sample else None
        return replace(about, records=records, strategy=None if strategy is None else str(strategy))

    def probe(self, name: ChromaName) -> str | None:
        """Return why the collection or shard is not healthy or cannot grow, or None."""
        try:
            self._client.require_room()
            index = self.existing(name)
            return probe(index, int(monotonic())) if index is not None else "the collection does not exist"
        except (Transient, Gone, Torn, NeedsHuman) as error:
            return str(error)

    def look(self, name: ChromaName) -> str | None:
        """Return why too many records are out of search's reach, or None. Each look samples other records.

        Settings of the collection that somebody else changed are restored.
        """
        index = self.existing(name)
        if index is None:
            raise Gone(f"collection {name!r} does not exist")
        if (model := self._models.get(index.uuid)) is not None:
            for words in self._list_changes(name, model, restore=True):
                log.warning(
                    "collection %s: another program changed a setting, now restored: %s",
                    name,
                    words,
                    extra=event("collection_changed_elsewhere", collection=str(name)),
                )
        self._looks += 1
        return probe(index, self._looks)

    def trouble(self, name: ChromaName, error: Exception) -> None:
        """Restart our server if it died over a request, met a full disk, or hangs."""
        if self.connection.supervisor:
            self.connection.supervisor.trouble(name, error, lambda client: _count(self._find(client, name)))


def _count(index: ChromaIndex | None) -> None:
    if index is not None:
        index.count()


def _use(index: ChromaIndex | None) -> None:
    """Read and search a collection, and write one of its records again."""
    if index is not None:
        probe(index)
        index.upsert(index.sample(0, 1))
        probe(index)
