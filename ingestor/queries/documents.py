"""Documents by name, their records and their history."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ingestor.config.models import Config
from ingestor.core.entries import EditionName, Entry
from ingestor.core.escape import raw
from ingestor.model import INSIDE, Record, SourceName
from ingestor.queries.access import BadRequest, collections_of, journal_of
from ingestor.queries.search import UNDECODED
from ingestor.rechunk.recipes import changes, metadata_change
from ingestor.state.editions import Editions
from ingestor.state.journal import Journal, sources_of
from ingestor.state.reports import Event, Listed, Reports, all_keys, find_named, id_of, last_events
from ingestor.units import quantity

if TYPE_CHECKING:
    from ingestor.chroma.backend import Collections

T = TypeVar("T")


_SUGGESTING = 50_000  # documents; names of more are not compared with a misspelt one
_MEMBER = re.compile("(?<!/)!/")  # between container and member in metadata and addresses; a key has INSIDE


@dataclass(frozen=True, slots=True)
class Shown:
    """A document and its records, in document order. ``others``: further documents that its name fits."""

    document: Listed
    records: list[Record]
    others: tuple[Listed, ...] = ()


def show_document(config: Config, document: str) -> Shown:
    from ingestor.pipeline.prepare import record_id

    with journal_of(config) as journal:
        entry, *others = find_documents(journal, document)
        document_row, *fitting = (Reports(journal).document(each.row) for each in (entry, *others))
        ids = [record_id(entry.document_id, known.slot) for known in entry.known]

        def read(collections: Collections) -> list[Record]:
            index = collections.edition(Editions(journal).of_name(entry.collection))
            return index.read(ids) if index is not None and ids else []

        records = _answer(config, journal, read)
        in_order = sorted(records, key=lambda record: int(str(record.metadata.get("chunk_index") or 0)))
        return Shown(document_row, in_order, tuple(fitting))


def _answer(config: Config, journal: Journal, ask: Callable[[Collections], T]) -> T:
    """Ask Chroma, once more if it went away: the daemon may just have ended."""
    from ingestor.chroma.client import Unreachable

    with suppress(Unreachable), collections_of(config, journal) as collections:
        return ask(collections)
    with collections_of(config, journal) as collections:
        return ask(collections)


def history(journal: Journal, source: str | None, document: str | None, n: int) -> list[Event]:
    """Return the last events, newest first. Raises BadRequest if there is no such document or source.

    ``source``, ``document``: only theirs. A removed document is known by its last key and its id.
    """
    id_ = None
    if document is not None:
        id_ = id_of(journal, document) or find_documents(journal, document)[0].document_id
    events = [explain(one) for one in last_events(journal, source, id_, n)]
    known = sources_of(journal)
    if source is not None and source not in known and not events:
        raise BadRequest(f"no source {source!r} has a history; known: {', '.join(known) or 'none yet'}")
    return events


def explain(one: Event) -> Event:
    """Return an event of a collection with what changed in its config as the reason."""
    if one.after is None:
        return one
    old, new = one.before, one.after
    differences = [] if old is None or new is None else [*changes(old, new)]
    described = None if old is None or new is None else metadata_change(old, new)
    reasons = [str(each) for each in (one.why, *differences, described) if each is not None]
    return replace(one, why="; ".join(reasons) or "other sources or recipes", before=None, after=None)


def find_documents(journal: Journal, wanted: str) -> list[Entry]:
    """Return documents with this key, path or id, or the one whose file has this name.

    Raises BadRequest, with the names that are nearest, if there is none or if several files have the name.
    """
    wanted = UNDECODED.sub(lambda byte: f"\\x{ord(byte[0]) - 0xDC00:02X}", wanted)  # as keys spell such bytes
    entry = next(filter(None, (find_named(journal, each) for each in _spellings(wanted))), None)
    if entry is not None:
        return entry
    keys = all_keys(journal)
    others = [key for key in keys if key.endswith(f"/{wanted}")]
    if len(others) == 1:
        return find_named(journal, others[0])
    if others:
        some = " or ".join(map(repr, others[:3]))
        number = quantity(len(others), "document")
        raise BadRequest(f"{wanted!r} names {number}: choose one by its key, such as {some}")
    names = {key.rpartition("/")[2].casefold(): key for key in keys[:_SUGGESTING]}
    near = [repr(names[name]) for name in get_close_matches(wanted.casefold(), names, n=2)]
    advice = f"did you mean {' or '.join(near)}?" if near else "`ingestor ls` lists them by key"
    raise BadRequest(f"no document {wanted!r}; {advice}")


def _spellings(wanted: str) -> Iterator[str]:
    """Yield spellings of a name: as given, as a path, as `ls` escapes keys, as members are written."""
    for text in dict.fromkeys((wanted, raw(wanted))):
        yield text
        yield str(Path(text).absolute())
        yield _MEMBER.sub(INSIDE, text)
        yield str(Path(text.replace(INSIDE, "!/")).absolute())


@dataclass(frozen=True, slots=True)
class Wanted:
    """Selection of documents by source, collection, state and key. None selects all.

    ``pattern``: a shell pattern of the whole key, or without ``*``, ``?`` and ``[`` a part of it.
    """

    source: str | None = None
    collection: str | None = None
    state: str | None = None
    pattern: str | None = None

    def takes(self, one: Listed) -> bool:
        if self.collection not in (None, one.collection) or self.state not in (None, one.state):
            return False
        pattern = self.pattern or ""
        whole = any(mark in pattern for mark in "*?[")
        return fnmatchcase(one.document, pattern) if whole else pattern in one.document


def select_documents(journal: Journal, wanted: Wanted) -> tuple[Sequence[SourceName], Iterator[Listed]]:
    """Return the selected sources, and their documents.

    Raises BadRequest if the source or the collection has none.
    """
    source = wanted.source
    serves = {each.name: each.serves for each in Editions(journal).all()}
    if wanted.collection is not None and wanted.collection not in serves.values():
        known = ", ".join(sorted({*serves.values()})) or "none yet"
        raise BadRequest(f"no collection {wanted.collection!r}; known: {known}")
    names = sources_of(journal)
    if source is not None and source not in names:
        raise BadRequest(f"no source {source!r} has documents; known: {', '.join(names) or 'none yet'}")
    every = Reports(journal).documents(source)
    named = (
        replace(one, collection=str(serves.get(EditionName(one.collection), one.collection))) for one in every
    )
    return names if source is None else [SourceName(source)], filter(wanted.takes, named)
