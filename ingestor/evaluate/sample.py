"""Reads a sample of a collection's documents for an evaluation, in the way that a sync reads documents."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import PurePosixPath
from time import monotonic

from ingestor.core.decisions import Scope
from ingestor.core.errors import describe
from ingestor.core.fingerprint import text_digest
from ingestor.model import Document, Item, SourceName
from ingestor.pipeline import limits, listing
from ingestor.pipeline.limits import until_readable
from ingestor.pipeline.listing import Source
from ingestor.ports import BadDocument, NeedsHuman, Transient
from ingestor.state.journal import Journal
from ingestor.state.sources import LastListing

Listed = tuple[SourceName, Item]
Progress = Callable[[str], None]  # called with the progress in words


@dataclass(frozen=True, slots=True)
class SampledDocument:
    """A document that was read for an evaluation. ``item``: its entry in the listing of its source."""

    source: SourceName
    item: Item
    document: Document


@dataclass(frozen=True, slots=True)
class Sample:
    """Documents that were read from the sources of a collection.

    ``listed``: number of documents in the listings of the sources. ``unread``: names of documents and sources
    that could not be read, with reasons.
    """

    documents: tuple[SampledDocument, ...]
    listed: int
    unread: tuple[tuple[str, str], ...] = ()

    @property
    def texts(self) -> list[str]:
        return [each.document.text for each in self.documents]

    @property
    def share(self) -> float:
        """Return the share of the collection's documents that the sample tried to read, from 0 to 1."""
        return min(1.0, (len(self.documents) + len(self.unread)) / max(1, self.listed))

    @property
    def is_whole(self) -> bool:
        """Return whether the sample tried to read all documents of the collection."""
        return len(self.documents) + len(self.unread) >= self.listed

    @property
    def numbers(self) -> Mapping[str, int]:
        """Return the number of each document by each of its names: key, address, and ``source:key``.

        A name that several documents share is left out.
        """
        names = [{each.item.uri, each.item.key, f"{each.source}:{each.item.key}"} for each in self.documents]
        uses = Counter(name for each in names for name in each)
        return {name: number for number, each in enumerate(names) for name in each if uses[name] == 1}

    @property
    def names(self) -> list[str]:
        """Return a name for each document: its key, preceded by the source if several share the key."""
        named = [(each.source, each.item.key) for each in self.documents]
        keys = Counter(key for _, key in named)
        return [key if keys[key] == 1 else f"{source}:{key}" for source, key in named]


def take_sample(
    sources: Sequence[Source], count: int, named: set[str], progress: Progress, seed: int
) -> Sample:
    """Read a sample of ``count`` documents with text, or all documents if there are fewer.

    Unreadable documents are replaced by others. ``named``: names of documents that the sample must contain:
    keys, addresses, or ``source:key``. Another ``seed`` gives a sample of other documents.
    """
    unread: list[tuple[str, str]] = []
    by_name = {source.name: source for source in sources}
    listed = sort_by_digest(_list_sources(sources, unread), seed)
    is_named = [bool(named & {item.key, item.uri, f"{name}:{item.key}"}) for name, item in listed]
    first = [*compress(listed, is_named), *compress(listed, (not each for each in is_named))]
    taken: list[SampledDocument] = []
    until = monotonic() + limits.PATIENCE
    for name, item in first:
        if len(taken) >= max(count, sum(is_named)):
            break
        progress(item.key)
        document = _read(by_name[name], item, unread, until)
        if document is not None:
            taken.append(SampledDocument(name, item, document))
    return Sample(tuple(taken), len(listed), tuple(unread))


def read_again(sample: Sample, sources: Sequence[Source], progress: Progress) -> Sample:
    """Read the documents of a sample again, through sources with other settings of parsers.

    A document that cannot be read now has an empty text.
    """
    unread: list[tuple[str, str]] = []
    by_name = {source.name: source for source in sources}
    until = monotonic() + limits.PATIENCE
    taken: list[SampledDocument] = []
    for each in sample.documents:
        progress(each.item.key)
        document = _read(by_name[each.source], each.item, unread, until)
        taken.append(replace(each, document=document or Document("")))
    return Sample(tuple(taken), sample.listed, tuple(unread))


def _list_sources(sources: Sequence[Source], unread: list[tuple[str, str]]) -> Iterator[Listed]:
    """Yield the documents of all sources.

    Append sources that cannot be listed, with reasons, to ``unread``.
    """
    for source in sources:
        try:
            with closing(Journal.blank()) as journal:
                scan = listing.take(source, Scope(), [LastListing(journal, source.feed)])
        except (NeedsHuman, Transient, OSError) as error:
            unread.append((source.name, describe(error)))
            continue
        if scan.trouble is not None:
            unread.append((source.name, scan.trouble))
        yield from ((source.name, item) for item in scan.changes[0].differences())


def _read(source: Source, item: Item, unread: list[tuple[str, str]], until: float) -> Document | None:
    """Read a document. Transient errors are retried until ``until`` (monotonic seconds).

    If the document has no text or cannot be read, append its name and the reason to ``unread``, and return
    None.
    """
    try:
        document = until_readable(lambda: source.tools.reader.read(item).document(), until)
    except (BadDocument, Transient, OSError) as error:
        unread.append((item.key, describe(error)))
        return None
    if not document.text.strip():
        unread.append((item.key, "the document has no text"))
        return None
    return document


def sort_by_digest(listed: Iterable[Listed], seed: int = 0) -> list[Listed]:
    """Sort documents so that the first n of them are a fair sample, for any n.

    Each source and each file extension has about the same share in the sample as in all documents. The order
    is pseudo-random: it follows digests of names, so a new document does not reorder the others. Another
    ``seed`` gives another order.
    """
    strata: defaultdict[tuple[str, str], list[Listed]] = defaultdict(list)
    for source, item in listed:
        strata[source, PurePosixPath(item.key).suffix.lower()].append((source, item))

    def rank(each: Listed) -> str:
        source, item = each
        return text_digest(f"{source}\n{item.key}" + (f"\n{seed}" if seed else ""))

    places = [
        (number / len(members), rank(each), each)
        for members in strata.values()
        for number, each in enumerate(sorted(members, key=rank))
    ]
    return [each for _, _, each in sorted(places, key=lambda place: place[:2])]
