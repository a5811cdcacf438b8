"""Decisions of people about a source: accept a loss of documents, pause or resume it.

Decisions are written to the journal, where a running daemon or the next sync reads them. These commands must
not import what makes up the program, which takes a third of a second.
"""

import time

from ingestor.config.models import Config
from ingestor.model import SourceName
from ingestor.queries.access import BadRequest, journal_of, require_known
from ingestor.state.journal import sources_of
from ingestor.state.sources import SourceRows, Withdrawals


def accept_loss(config: Config, source: str) -> None:
    """Accept that documents which vanished from a held source are removed.

    Raises BadRequest if the source is not held for a loss.
    """
    name = SourceName(source)
    with journal_of(config) as journal:
        require_known("source", name, {*sources_of(journal), *(each.name for each in config.sources)})
        if not SourceRows(journal).accept(name) | Withdrawals(journal).accept(name):
            raise BadRequest(f"source {source!r} is not held for a loss of documents; see: ingestor status")


def pause_sources(config: Config, source: str | None) -> list[str]:
    """Pause the named source, or all sources of the config if ``source`` is None. Return their names.

    Raises BadRequest for an unknown source.
    """
    names = _names(config, source)
    with journal_of(config) as journal:
        for name in names:
            SourceRows(journal).pause(name, time.time())
    return [*names]


def resume_sources(config: Config, source: str | None) -> list[str]:
    """Resume the named source, or all sources if ``source`` is None. Return the names of those that were
    paused.

    Raises BadRequest for an unknown source.
    """
    names = _names(config, source)
    with journal_of(config) as journal:
        return [name for name in names if SourceRows(journal).resume(name)]


def _names(config: Config, wanted: str | None) -> list[SourceName]:
    """Return the named source, or all sources of the config if None. Raises BadRequest if it is unknown."""
    names = [source.name for source in config.sources]
    if wanted is None:
        return names
    require_known("source", wanted, names)
    return [SourceName(wanted)]
