"""Decisions of people about sources: accept a loss of documents, pause, resume.

Decisions are written to the journal, where a running daemon reads them.
"""

import time

from ingestor.config.models import Config
from ingestor.model import SourceName
from ingestor.queries.access import BadRequest, journal_of
from ingestor.state.journal import sources_of
from ingestor.state.sources import SourceRows, Withdrawals


def accept(config: Config, source: str) -> None:
    """Confirm a held source's loss of documents. Raises BadRequest if the source is not held for a loss."""
    name = SourceName(source)
    with journal_of(config) as journal:
        known = {*sources_of(journal), *(each.name for each in config.sources)}
        if name not in known:
            raise BadRequest(f"there is no source {source!r}; known: {', '.join(sorted(known))}")
        if not SourceRows(journal).accept(name) | Withdrawals(journal).accept(name):
            raise BadRequest(f"source {source!r} is not held for a loss of documents; see: ingestor status")


def pause(config: Config, source: str | None) -> list[str]:
    """Pause a source, or all if None. Returns the names. Raises BadRequest for an unknown source."""
    names = _names(config, source)
    with journal_of(config) as journal:
        for name in names:
            SourceRows(journal).pause(name, time.time())
    return [*names]


def resume(config: Config, source: str | None) -> list[str]:
    """Resume a source, or all if None. Returns the names of paused ones. Raises BadRequest as ``pause``."""
    names = _names(config, source)
    with journal_of(config) as journal:
        return [name for name in names if SourceRows(journal).resume(name)]


def _names(config: Config, wanted: str | None) -> list[SourceName]:
    names = [source.name for source in config.sources]
    if wanted is not None and wanted not in names:
        raise BadRequest(f"there is no source {wanted!r} in the config; known: {', '.join(names)}")
    return names if wanted is None else [SourceName(wanted)]
