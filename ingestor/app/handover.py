"""Gives the documents of a renamed source to its new name, in the journal.

No document is embedded for that; the next pass writes the new name into the metadata (``source_name``). All
rows of the journal under the old name get the new one: documents, the state of the source, and recipes.
"""

import logging
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ingestor.config.models import Config, SourceConfig
from ingestor.core.entries import Choices
from ingestor.core.events import event
from ingestor.core.fingerprint import plugin_fingerprint
from ingestor.model import CollectionName, Fingerprint, SourceName
from ingestor.ports import NeedsHuman
from ingestor.rechunk import policy
from ingestor.state.cache import Parses
from ingestor.state.editions import Requests
from ingestor.state.files import full_disk
from ingestor.state.journal import Journal, sources_of
from ingestor.state.sources import SourceRows
from ingestor.units import quantity

log = logging.getLogger("ingestor")

Renames = Mapping[SourceName, SourceName]  # the new name by the old one
# Name, origin and collection of a source that has documents. The origin is a fingerprint of its connector and
# options, without secrets and tuning; None if it was never stored.
Place = tuple[SourceName, str | None, CollectionName]


def origin(source: SourceConfig) -> Fingerprint:
    """Return the fingerprint of a source's connector and its options."""
    return plugin_fingerprint(source.connector.plugin, source.connector.options)


def find_renames(sources: Collection[SourceConfig], places: Sequence[Place]) -> Renames:
    """Find the sources of the config that had another name before. Return their new names by the old names.

    ``places``: the sources that have documents in the journal. If several have the same origin, the first one
    counts. A new name must be free: no source of this name may have documents, unless that source is renamed,
    too. So two sources can swap their names.
    """
    origins = {source.name: origin(source) for source in sources}
    left = [each for each in places if each[1] not in (None, origins.get(each[0]))]
    taken = {name for name, *_ in places} - {name for name, *_ in left}
    new_names: dict[SourceName, SourceName] = {}
    for source in sources:
        place = origins[source.name], source.collection
        olds = (old for old, *was in left if tuple(was) == place and old not in new_names)
        if source.name not in taken and (old := next(olds, None)) is not None:
            new_names[old] = source.name
    # a name may be free only because of another rename, which this loop may undo: repeat until none is taken
    stored = {name for name, *_ in places}
    while undone := [old for old, new in new_names.items() if new in stored and new not in new_names]:
        for old in undone:
            del new_names[old]
    return new_names


def in_choices(choices: Choices, renames: Renames) -> Choices:
    """Return the choices of a collection with the new names of its renamed sources.

    ``renames``: new names by old.
    """
    sources = choices["sources"].items()
    kept = {name: made for name, made in sources if name not in renames}
    return {**choices, "sources": kept | {renames[old]: made for old, made in sources if old in renames}}


def source_renames(config: Config, journal: Journal) -> Renames:
    """Return new source names by old ones, for sources whose documents still have the old name in the
    journal."""
    return find_renames(config.sources, SourceRows(journal).places())


def sources_not_in_config(config: Config, journal: Journal) -> list[SourceName]:
    """Return the sources that have documents but left the config. Renamed sources are not among them."""
    staying = {source.name for source in config.sources} | source_renames(config, journal).keys()
    return [name for name in sources_of(journal) if name not in staying]


def sources_to_remove(config: Config, journal: Journal) -> list[SourceName]:
    """Return the sources that left the config and whose documents are to be removed.

    They are removed if ``prune`` is set in the config, or if a person asked for it.
    """
    gone = sources_not_in_config(config, journal)
    return [name for name in gone if config.prune or Requests(journal).get("prune", name)]


def settle_names(
    config: Config, journal: Journal, parses: Parses, wanted: Callable[[CollectionName], Choices]
) -> None:
    """Give the documents of renamed sources to the new names, and store the origins of all sources.

    ``parses``: the cache of parsed documents. ``wanted``: returns the config's choices for a collection.
    """
    if renames := source_renames(config, journal):
        for serves in config.collections:  # before the sources lose their old names
            keep_approvals(journal, serves, wanted(serves), renames)
        hand_over(journal, renames, parses)
    SourceRows(journal).note_origins({source.name: origin(source) for source in config.sources})


def hand_over(journal: Journal, renames: Renames, parses: Parses) -> None:
    """Rename sources in all rows of the journal, in one durable transaction, and in the cache of parsed
    documents.

    ``renames``: new names by old ones.
    """
    _rename(journal, renames)
    for old, new in renames.items():
        keys = SourceRows(journal).keys(new)
        about = event("source_renamed", source=new, former=old, documents=len(keys))
        documents = quantity(len(keys), "document")
        log.info("source %s was renamed to %s and keeps its %s", old, new, documents, extra=about)
        parses.rename(old, new, keys)


def keep_approvals(journal: Journal, serves: CollectionName, wanted: Choices, renames: Renames) -> None:
    """Keep the approval or rollback of a collection's choices when its sources are renamed.

    It is stored as a fingerprint of the choices, which contain source names. So the fingerprint is stored
    anew.
    """
    before = policy.fingerprint_of(in_choices(wanted, {new: old for old, new in renames.items()}))
    requests = Requests(journal)
    for kind in ("approved", "refused"):
        if requests.get(kind, serves) == before:
            requests.put(kind, serves, policy.fingerprint_of(wanted))


@contextmanager
def rehearse(config: Config, journal: Journal) -> Iterator[Journal]:
    """Yield a temporary copy of the journal, in which renamed sources already have their new names.

    Commands that only estimate work use the copy. Raises NeedsHuman if the disk is full.
    """
    with TemporaryDirectory(prefix="ingestor-") as folder:
        try:
            with closing(journal.copy_to(Path(folder) / "journal.sqlite3")) as copy:
                if renames := source_renames(config, copy):
                    _rename(copy, renames)
                yield copy
        except sqlite3.OperationalError as error:
            if (full := full_disk(Path(folder))) is None:
                raise
            raise NeedsHuman(
                f"no room for a temporary copy of the journal: {full}, such as one that TMPDIR names"
            ) from error


def _rename(journal: Journal, renames: Renames) -> None:
    SourceRows(journal).rename(renames, lambda choices: in_choices(choices, renames))
