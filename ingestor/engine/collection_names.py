"""Renames collections in Chroma to follow their roles in the journal, also after a crash between the two.

A collection is known by its UUID, which a rename keeps. A switch is two renames. Between them the readers'
name is missing for some milliseconds, and a client that calls ``get_or_create_collection`` then creates a
collection under it. That collection is deleted if it is empty, else renamed.

Of a collection in shards all old names are freed before the first new one is given: a reader that finds all
shards in one listing of Chroma has those of one edition.
"""

import logging
from collections.abc import Sequence

from ingestor.core.backend import Registrar
from ingestor.core.entries import ChromaName, Edition
from ingestor.core.events import event
from ingestor.ports import Transient

log = logging.getLogger("ingestor")

ATTEMPTS = 5  # against clients that keep creating a collection of that name


def rename_to_roles(registrar: Registrar, editions: Sequence[Edition]) -> int:
    """Give every edition the names of its role. Returns how many collections were renamed.

    Raises Transient when Chroma is away, or when a client keeps taking a name.
    """
    here, renamed = registrar.names(), 0
    for edition in sorted(editions, key=lambda edition: edition.role == "live"):  # names are freed first
        for uuid, name in edition.places:
            if here.get(uuid, name) != name:
                _rename(registrar, uuid, name)
                renamed += 1
    return renamed


def _rename(registrar: Registrar, uuid: str, name: ChromaName) -> None:
    for _ in range(ATTEMPTS):
        if registrar.rename(uuid, name):
            return
        log.warning(
            "name %s was taken by another program's collection, now renamed to %s",
            name,
            registrar.evict(name),
            extra=event("collection_renamed", collection=str(name)),
        )
    raise Transient(
        f"some client makes a collection {name!r} again and again; stop it while names are swapped"
    )
