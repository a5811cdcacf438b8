"""Lists all collections in Chroma, whoever owns them, and deletes or adopts a collection for a person."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from ingestor.app.parts import here
from ingestor.chroma.backend import Collections, model_of
from ingestor.config.models import Config
from ingestor.core.backend import HOME, home_of, pack
from ingestor.core.entries import ChromaName, Edition, shard_names, shard_of
from ingestor.ports import Gone, NeedsHuman, Torn, Transient
from ingestor.queries.access import BadRequest, collections_of, journal_or_blank
from ingestor.rechunk.policy import strategies_and_model
from ingestor.state import files
from ingestor.state.editions import Editions, Requests
from ingestor.state.journal import Journal
from ingestor.state.reports import Reports
from ingestor.units import in_words, quantity

Owner = Literal["this ingestor", "another ingestor", "not ingestor"]


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """A collection in Chroma, which may be a shard of one of our collections.

    The fields are keys of ``ingestor collections --json``.
    """

    name: str
    owner: Owner
    state: str | None  # mark of the state that wrote it
    role: Literal["live", "building", "previous"] | None  # in our journal
    in_config: bool  # whether sources of the config feed it
    documents: int  # documents of this state in it
    records: int | None  # None if Chroma cannot count them
    strategies: tuple[str, ...]
    model: str | None  # the model that readers' queries load
    dimensions: int | None
    trouble: str | None  # why Chroma cannot read it
    uuid: str
    elsewhere: str | None  # where the copy of this state is that wrote it last, if one did

    @property
    def is_unused(self) -> bool:
        """Return whether the collection is ours, but no source of the config feeds it and it has no
        documents."""
        return self.owner == "this ingestor" and not (self.in_config or self.documents)


def list_collections(config: Config) -> list[CollectionInfo]:
    """Return every collection in Chroma, whoever owns it, sorted by name."""
    with _open(config) as (journal, collections):
        return _infos(config, journal, collections)


def delete(config: Config, name: str, *, not_ours: bool) -> CollectionInfo:
    """Delete an unused collection of ours. ``not_ours``: whether a collection of somebody else may be
    deleted.

    Return the deleted collection. Raises BadRequest if the collection must not be deleted.
    """
    with _open(config) as (journal, collections):
        info = _find_named(_infos(config, journal, collections), name)
        ours = info.owner == "this ingestor"
        if why := _why_kept(info, config) if ours else _why_guarded(info, not_ours):
            raise BadRequest(why)
        collections.delete_any(info.uuid)
        for edition in Editions(journal).all():
            if info.uuid in edition.uuids and edition.role == "live":
                Editions(journal).forget(edition.name)
        return info


def adopt(config: Config, name: str) -> CollectionInfo:
    """Make a collection that another state wrote available to this state.

    If that state is lost, the collection is deleted, so that our collection can get its name. If the other
    state is a copy of this one, in another place, all collections of the copy become ours with their records.
    The next pass compares them with the journal. Raises BadRequest unless the config names the collection and
    another ingestor wrote it.
    """
    names = _names(config)
    if name not in names:
        raise BadRequest(f"no source of the config feeds {name!r}; known: {', '.join(names)}")
    with _open(config) as (journal, collections):
        infos = _infos(config, journal, collections)
        info = _find_named(infos, name)
        if info.elsewhere is not None:
            for each in infos:
                if each.elsewhere == info.elsewhere:
                    collections.index(each.uuid).note({HOME: pack(here(config))})
            Requests(journal).arrange()
            return info
        if info.owner == "this ingestor":
            raise BadRequest(f"collection {name!r} already belongs to this ingestor")
        if info.owner == "not ingestor":
            raise BadRequest(_why_guarded(info, not_ours=False) or "")
        collections.delete_any(info.uuid)
        Requests(journal).arrange()  # a daemon lists all sources again, and finds the name free
        return info


def _why_kept(info: CollectionInfo, config: Config) -> str | None:
    """Return why a collection of ours must not be deleted; None if it may be deleted."""
    if info.role == "building":
        return f"collection {info.name!r} is being built: it takes the place of the one that readers see"
    if info.role == "previous":
        return (
            f"collection {info.name!r} is what readers saw before the last change of the config: "
            "`ingestor rollback` needs it. It is deleted by itself "
            f"{in_words(config.rechunk.grace)} after that change took effect (rechunk.grace)"
        )
    if info.in_config:
        return (
            f"collection {info.name!r} is what readers see, and sources in the config feed it: remove these "
            "sources from the config first"
        )
    if info.documents:
        return (
            f"collection {info.name!r} holds {quantity(info.documents, 'document')} of sources "
            "that left the config: run `ingestor apply` first, which removes them"
        )
    return None


def _why_guarded(info: CollectionInfo, not_ours: bool) -> str | None:
    """Return why a collection of somebody else must not be deleted; None if it may be deleted."""
    if not_ours:
        return None
    whose = "another ingestor wrote" if info.owner == "another ingestor" else "no ingestor wrote"
    records = "records" if info.records is None else quantity(info.records, "record")
    return (
        f"collection {info.name!r} holds {records} that {whose}. If you are sure that nobody "
        f"needs them, run: ingestor collections --delete {info.name} --not-ours"
    )


def _find_named(all_: Sequence[CollectionInfo], name: str) -> CollectionInfo:
    info = next((one for one in all_ if one.name == name), None)
    if info is None:
        known = ", ".join(one.name for one in all_)
        raise BadRequest(f"Chroma has no collection {name!r}; known: {known or 'none'}")
    return info


def _infos(config: Config, journal: Journal, collections: Collections) -> list[CollectionInfo]:
    """Describe every collection in Chroma for a person."""
    shards = {
        uuid: (edition, number)
        for edition in Editions(journal).all()
        for number, (uuid, _) in enumerate(edition.in_chroma)
    }
    infos = list[CollectionInfo]()
    for collection, mark in collections.describe_all():  # mark: of the state that wrote it
        ours, uuid, home = mark == journal.owner, str(collection.id), home_of(collection.metadata or {})
        edition, number = shards.get(uuid, (None, 0)) if ours else (None, 0)
        role = edition.role if edition is not None else None
        documents, records, trouble = 0, None, None
        strategies, model = tuple[str, ...](), model_of(collection)
        if edition is not None:
            ids = Editions(journal).documents(edition.name)
            documents = sum(shard_of(document, edition.shards) == number for _, document in ids)
            if edition.choices is not None:
                strategies, chosen = strategies_and_model(edition.choices)
                model = chosen or model
        try:
            records, sample = collections.index(uuid).count(), collections.index(uuid).select(None, 1)
            named = (each.metadata.get("strategy") for each in sample)
            strategies = strategies or tuple(str(strategy) for strategy in named if strategy is not None)
        except (Gone, Torn, Transient) as error:
            trouble = str(error)
        fed = edition.serves in config.collections if edition else collection.name in _names(config)
        away = ours and home is not None and not here(config).is_home_of(home)
        infos.append(
            CollectionInfo(
                name=collection.name,
                owner="this ingestor" if ours else "another ingestor" if mark else "not ingestor",
                state=mark,
                role=None if role == "deleted" else "building" if role == "staging" else role,
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
        )
    return infos


def _names(config: Config) -> list[str]:
    """Return the names that all collections of the config and their shards have in Chroma."""
    fed = dict.fromkeys((source.collection, source.shards) for source in config.sources)
    return [name for whole, shards in fed for name in shard_names(whole, shards)]


@contextmanager
def _open(config: Config) -> Iterator[tuple[Journal, Collections]]:
    """Open the journal and Chroma.

    If there is no journal, because the state is new or lost, no collection is ours.
    """
    files.make(config.state, lambda name: False)  # for the server's log
    with journal_or_blank(config) as journal, collections_of(config, journal) as collections:
        yield journal, collections


def unusable(config: Config, journal: Journal) -> dict[str, str]:
    """Return the collections that cannot be used, each with the reason.

    They differ from the journal, cannot be read, or have a name that belongs to somebody else's collection.
    """
    kept = Reports(journal)
    editions = [one for one in Editions(journal).all() if one.role in ("live", "staging") and one.uuids]
    path = getattr(config.chroma, "path", None)
    if path is not None and not (path / "chroma.sqlite3").exists():
        reason = f"missing: Chroma has nothing in {path}; a sync writes all records again"
        return {one.serves: reason for one in editions if kept.records(one.name)}
    try:
        with ExitStack() as stack:
            if not config.state.exists():  # lost: the log of Chroma's server needs another folder
                folder = stack.enter_context(TemporaryDirectory(prefix="ingestor-"))
                config = replace(config, state=Path(folder))
            collections = stack.enter_context(collections_of(config, journal))
            here = [one.serves for one in editions]
            new = {each.collection: each.shards for each in config.sources if each.collection not in here}
            reasons = {name: _clash(collections, shard_names(name, shards)) for name, shards in new.items()}
            reasons |= {one.serves: _difference(collections, kept, one) for one in editions}
    except (NeedsHuman, Transient) as error:
        return dict.fromkeys(config.collections, str(error))
    return {str(name): reason for name, reason in reasons.items() if reason is not None}


def _clash(collections: Collections, names: Sequence[str]) -> str | None:
    """Return why a new collection cannot be created under these names of shards; None if it can."""
    try:
        for name in names:
            collections.find(ChromaName(name))
    except NeedsHuman as error:
        return str(error)
    return None


def _difference(collections: Collections, kept: Reports, edition: Edition) -> str | None:
    """Return how an edition in Chroma differs from the journal; None if it does not."""
    try:
        index = collections.edition(edition)
        if index is None:
            return "missing in Chroma; a sync writes all records again"
        before = kept.records(edition.name, sure=True)
        there, after = index.count(), kept.records(edition.name)
    except (Gone, Torn, NeedsHuman) as error:
        return str(error)
    if before <= there <= max(after, kept.records(edition.name)):
        return None
    records = quantity(there, "record")
    return f"Chroma holds {records} and the journal {after:,}; to repair: ingestor verify --repair"
