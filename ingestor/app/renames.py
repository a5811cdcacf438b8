"""Finds renamed sources by the place that they list. Pure.

The place of a source is its origin, a fingerprint of its connector and the connector's options (secrets and
tuning are not in it), together with the collection that it feeds.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ingestor.config.models import SourceConfig
from ingestor.core.fingerprint import plugin_fingerprint
from ingestor.model import CollectionName, Fingerprint, SourceName
from ingestor.rechunk.recipes import Choices

Renames = Mapping[SourceName, SourceName]  # the new name by the old one


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """``origin`` is None if it was never stored."""

    origin: str | None
    collections: frozenset[CollectionName]


def origin(source: SourceConfig) -> Fingerprint:
    return plugin_fingerprint(source.connector.plugin, source.connector.options)


def find_renames(sources: Collection[SourceConfig], noted: Mapping[SourceName, SourcePlace]) -> Renames:
    """New source names by old ones.

    ``noted``: sources that have documents; of several at one place the first counts. A new name is free if no
    documents are under it, or if these are handed over themselves: two sources can swap names.
    """
    origins = {source.name: origin(source) for source in sources}
    left = {old: place for old, place in noted.items() if place.origin not in (None, origins.get(old))}
    found: dict[SourceName, SourceName] = {}
    for source in sources:
        new, place = source.name, origins[source.name]
        if new in noted and new not in left:
            continue
        olds = (
            old for old, was in left.items() if was.origin == place and source.collection in was.collections
        )
        if (old := next((old for old in olds if old not in found), None)) is not None:
            found[old] = new
    while taken := [old for old, new in found.items() if new in noted and new not in found]:
        for old in taken:
            del found[old]
    return found


def in_choices(choices: Choices, renames: Renames) -> Choices:
    """The choices of a collection with the new names of its sources."""
    sources = choices["sources"]
    kept = {name: made for name, made in sources.items() if name not in renames}
    return {
        **choices,
        "sources": {**kept, **{new: sources[old] for old, new in renames.items() if old in sources}},
    }
