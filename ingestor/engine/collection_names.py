"""Chroma's names made to follow the journal's roles: whatever crashed between the two is mended here.

A collection is known by its UUID, which a rename keeps. A swap is two renames, and for some milliseconds
nothing answers to the readers' name; a client that asks for it with ``get_or_create_collection`` just then
makes an empty collection in its place. Such a one is removed if it is empty, and put aside if it is not.
"""

import logging
from collections.abc import Sequence

from ingestor.core.backend import Registrar
from ingestor.model import CollectionName
from ingestor.ports import Transient
from ingestor.state.rows import Edition

log = logging.getLogger("ingestor")

ATTEMPTS = 5  # against clients that make the same impostor again and again


def rename_to_roles(registrar: Registrar, editions: Sequence[Edition]) -> int:
    """Give every edition the name of its role; returns how many were renamed. Raises Transient."""
    here, renamed = registrar.names(), 0
    for edition in sorted(editions, key=lambda edition: edition.role == "live"):  # names are freed first
        uuid = edition.uuid or ""
        if here.get(uuid, edition.shown) != edition.shown:
            _rename(registrar, uuid, edition.shown)
            renamed += 1
    return renamed


def _rename(registrar: Registrar, uuid: str, name: CollectionName) -> None:
    for _ in range(ATTEMPTS):
        if registrar.rename(uuid, name):
            return
        log.warning("another collection took the name %s meanwhile: it is %s", name, registrar.evict(name))
    raise Transient(
        f"some client makes a collection {name!r} again and again; stop it while names are swapped"
    )
