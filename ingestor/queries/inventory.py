"""Lists all collections in Chroma, whoever owns them, and deletes or adopts a collection for a person."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ingestor.chroma.backend import Collections
from ingestor.chroma.settings import model_of
from ingestor.config.models import Config
from ingestor.core.entries import ChromaName, Edition, Role, collection_of, shard_names, shard_of
from ingestor.core.generations import HOME, home_of, pack
from ingestor.ports import Gone, NeedsHuman, Torn, Transient
from ingestor.queries.access import BadRequest, collections_of, is_running, journal_of, require_known
from ingestor.rechunk.policy import strategies_and_model
from ingestor.state.editions import Editions, Requests
from ingestor.state.files import here
from ingestor.state.journal import Journal
from ingestor.state.reports import count_records_of
from ingestor.units import in_words, quantity

Owner = Literal["this ingestor", "another ingestor", "not ingestor"]
ShownRole = Literal["live", "building", "previous"]
_ROLES: Mapping[Role, ShownRole] = {"live": "live", "staging": "building", "previous": "previous"}


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """A collection in Chroma, which may be a shard of one of our collections.

    The fields are keys of ``ingestor collections --json``.
    """

    name: str
    owner: Owner
    state: str | None  # mark of the state that wrote it
    role: ShownRole | None  # in our journal
    in_config: bool  # whether sources of the config feed it
    documents: int  # documents of this state in it
    records: int | None  # None if Chroma cannot count them
    strategies: tuple[str, ...]
    model: str | None  # the model that readers' queries load
    dimensions: int | None
    trouble: str | None  # why Chroma cannot read it
    uuid: str
    elsewhere: str | None  # where the copy of this state is that wrote it last, if one did


def list_collections(config: Config) -> list[CollectionInfo]:
    """Return every collection in Chroma, whoever owns it, sorted by name."""
    with _open(config) as (_, _, infos):
        return [*infos.values()]


def delete(config: Config, name: str, *, not_ours: bool) -> CollectionInfo:
    """Delete an unused collection of ours. ``not_ours``: whether a collection of somebody else may be
    deleted.

    Return the deleted collection. Raises BadRequest if the collection must not be deleted.
    """
    with _open(config) as (journal, collections, infos):
        require_known("collection", name, infos)
        info = infos[name]
        ours = info.owner == "this ingestor"
        if why := _why_kept(info, config) if ours else None if not_ours else _refuse_foreign(info):
            raise BadRequest(why)
        collections.delete_any(info.uuid)
        for edition in Editions(journal).all():
            if info.uuid in edition.uuids and edition.role == "live":
                Editions(journal).forget(edition.name)
        return info


def adopt(config: Config, name: str) -> CollectionInfo:
    """Make a collection that another state wrote available to this state.

    If that state is lost, its collection is deleted with all shards and versions, so that ours can get the
    name. If the other state is a copy of this one, in another place, all collections of the copy become ours
    with their records. The next pass compares them with the journal. Return the adopted collection, with the
    number of all deleted records. Raises BadRequest unless the config names the collection and another
    ingestor wrote it.
    """
    serves = collection_of(name, config.collections)
    if serves is None:
        require_known("collection", name, _names(config))
    with _open(config) as (journal, collections, infos):
        require_known("collection", name, infos)
        info = infos[name]
        if info.elsewhere is not None:
            for each in infos.values():
                if each.elsewhere == info.elsewhere:
                    collections.index(each.uuid).note({HOME: pack(here(config))})
        elif info.owner == "this ingestor":
            raise BadRequest(f"collection {name!r} already belongs to this ingestor")
        elif info.owner == "not ingestor":
            raise BadRequest(_refuse_foreign(info))
        else:
            its = [one for one in infos.values() if one.state == info.state]
            its = [one for one in its if collection_of(one.name, config.collections) == serves]
            for one in its:
                collections.delete_any(one.uuid)
            info = replace(info, records=sum(one.records or 0 for one in its))
        Requests(journal).arrange()  # a daemon lists all sources again, and finds the name free
        return info


def _why_kept(info: CollectionInfo, config: Config) -> str | None:
    """Return why a collection of ours must not be deleted; None if it may be deleted."""
    name = f"collection {info.name!r}"
    if info.role == "building":
        return f"{name} is being built: it takes the place of the one that readers see"
    if info.role == "previous":
        after = f"{in_words(config.rechunk.grace)} after the last change of the config (rechunk.grace)"
        return f"{name} is what `ingestor rollback` needs; it is deleted by itself {after}"
    if info.in_config:
        return f"{name} is what readers see: first remove the sources that feed it from the config"
    if info.documents:
        documents = quantity(info.documents, "document")
        return f"{name} has {documents} of sources that left the config: run `ingestor apply` first"
    return None


def _refuse_foreign(info: CollectionInfo) -> str:
    """Return why a collection of somebody else is not deleted, with the command that deletes it."""
    whose = "another ingestor wrote" if info.owner == "another ingestor" else "no ingestor wrote"
    records = "records" if info.records is None else quantity(info.records, "record")
    return (
        f"collection {info.name!r} holds {records} that {whose}. If you are sure that nobody "
        f"needs them, run: ingestor collections --delete {info.name} --not-ours"
    )


def _infos(config: Config, journal: Journal, collections: Collections) -> dict[str, CollectionInfo]:
    """Describe every collection in Chroma for a person, by name."""
    shards = {
        uuid: (edition, number)
        for edition in Editions(journal).all()
        for number, (uuid, _) in enumerate(edition.in_chroma)
    }
    infos = dict[str, CollectionInfo]()
    for collection, mark in collections.describe_all():  # mark: of the state that wrote it
        ours, uuid, home = mark == journal.owner, str(collection.id), home_of(collection.metadata or {})
        edition, number = shards.get(uuid, (None, 0)) if ours else (None, 0)
        documents, records, trouble = 0, None, None
        strategies, model = tuple[str, ...](), model_of(collection)
        if edition is not None:
            ids = Editions(journal).documents(edition.name)
            documents = sum(shard_of(document, edition.shards) == number for _, document in ids)
            if edition.choices is not None:
                strategies, chosen = strategies_and_model(edition.choices)
                model = chosen or model
        try:
            records = collections.index(uuid).count()
        except (Gone, Torn, Transient) as error:
            trouble = str(error)
        fed = edition.serves in config.collections if edition else collection.name in _names(config)
        away = ours and home is not None and not here(config).is_home_of(home)
        infos[collection.name] = CollectionInfo(
            name=collection.name,
            owner="this ingestor" if ours else "another ingestor" if mark else "not ingestor",
            state=mark,
            role=_ROLES.get(edition.role) if edition else None,
            in_config=fed,
            documents=documents,
            records=records,
            strategies=strategies,
            model=model,
            dimensions=collection.dimension,
            trouble=trouble,
            uuid=uuid,
            elsewhere=str(home) if away else None,
        )
    return infos


def _names(config: Config) -> list[str]:
    """Return the names that all collections of the config and their shards have in Chroma."""
    fed = dict.fromkeys((source.collection, source.shards) for source in config.sources)
    return [name for whole, shards in fed for name in shard_names(whole, shards)]


@contextmanager
def _open(config: Config) -> Iterator[tuple[Journal, Collections, dict[str, CollectionInfo]]]:
    """Open the journal and Chroma, and describe the collections. In a new or lost state none is ours."""
    with journal_of(config, or_blank=True) as journal, collections_of(config, journal) as collections:
        yield journal, collections, _infos(config, journal, collections)


def unusable(config: Config, journal: Journal) -> dict[str, str]:
    """Return the collections that cannot be used, each with the reason.

    They differ from the journal, cannot be read, or have a name that belongs to somebody else's collection.
    Or a sync could not write the state or Chroma's folder.
    """
    reasons = dict[str, str]()
    for key, folder in (("state", config.state), ("chroma.path", getattr(config.chroma, "path", None))):
        if folder is not None and not is_running(config) and not _is_writable(folder):
            why = f"can't write {folder}: let this user write there, or correct `{key}`"
            return dict.fromkeys(config.collections, why)
    editions = [one for one in Editions(journal).all() if one.role in ("live", "staging") and one.uuids]
    path = getattr(config.chroma, "path", None)
    if path is not None and not (path / "chroma.sqlite3").exists():
        lost = f"missing: Chroma has nothing in {path}; a sync writes all records again"
        return {one.serves: lost for one in editions if count_records_of(journal, one.name)}
    written = [one.serves for one in editions]
    new = {one.collection: one.shards for one in config.sources if one.collection not in written}
    try:
        with collections_of(config, journal) as collections:
            for name, shards in new.items():
                try:
                    for shard in shard_names(name, shards):
                        collections.find(ChromaName(shard))
                except NeedsHuman as error:
                    reasons[name] = str(error)
            for edition in editions:
                if reason := _difference(collections, journal, edition):
                    reasons[edition.serves] = reason
    except (NeedsHuman, Transient) as error:
        return dict.fromkeys(config.collections, str(error))
    return reasons


def _is_writable(folder: Path) -> bool:
    """Return whether this user may write in a folder, or create it."""
    # unlike Path.exists, os.path.exists raises no error below a closed folder
    there = next(each for each in (folder, *folder.parents) if os.path.exists(each))  # noqa: PTH110
    return os.access(there, os.W_OK | os.X_OK)


def _difference(collections: Collections, journal: Journal, edition: Edition) -> str | None:
    """Return how an edition in Chroma differs from the journal; None if it does not."""
    try:
        index = collections.edition(edition)
        if index is None:
            return "missing in Chroma; a sync writes all records again"
        before = count_records_of(journal, edition.name, sure=True)
        there, after = index.count(), count_records_of(journal, edition.name)
    except (Gone, Torn, NeedsHuman) as error:
        return str(error)
    if before <= there <= max(after, count_records_of(journal, edition.name)):
        return None
    records = quantity(there, "record")
    return f"Chroma holds {records} and the journal {after:,}; to repair: ingestor verify --repair"
