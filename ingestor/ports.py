"""The protocols that plugins and stores implement, and the errors that they raise.

An implementation raises ``Transient`` if a retry may succeed, and ``BadDocument`` if the content of a
document cannot be used. It raises ``NeedsHuman`` if a person must repair a whole source or collection. An
index also raises ``Torn`` and ``Gone``. Any other exception is a defect: the document keeps its records and
is retried.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from threading import Event
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ingestor.model import (
    Answered,
    Blob,
    Chunking,
    Document,
    EmbeddedPart,
    Hint,
    Hit,
    Item,
    Metadata,
    ReaderModel,
    Record,
    RecordId,
)

if TYPE_CHECKING:
    from ingestor.model import Sums, Vector, Vectors


class IngestorError(Exception):
    """Base of every error that the program can explain. The message says what to do."""


class Transient(IngestorError):
    """Error: a retry may succeed. ``shard``: number of the shard that failed; None if all did."""

    shard: int | None = None


class Later(Transient):
    """Error: a server asks for a retry after ``wait`` seconds."""

    def __init__(self, message: str, wait: float) -> None:
        super().__init__(message)
        self.wait = wait


class Stale(Transient):
    """Error: the item changed or vanished since it was listed. It must be listed again before a retry."""


class PartialScan(Transient):
    """Error: a scan could not list the keys at and below those in ``unknown``. Their documents are kept.

    ``more``: whether the scan ended early, so that its documents need not wait. Then another scan continues
    at once.
    """

    def __init__(self, message: str, unknown: Sequence[str], *, more: bool = False) -> None:
        super().__init__(message)
        self.unknown = tuple(unknown)
        self.more = more


class BadDocument(IngestorError):
    """Error: this content cannot be indexed.

    The document is quarantined until its version or its recipe changes.
    """


class Unsupported(BadDocument):
    """Error: no installed parser reads this content.

    The document is skipped and counted, but is no failure.
    """


class NeedsHuman(IngestorError):
    """Error: a person must act, and the message says how. Until then the source or the collection is held."""


class Foreign(NeedsHuman):
    """Error: another program created the collection of that name, so that it has no records of ours."""


class Torn(IngestorError):
    """Error: this collection is damaged and must be written again.

    ``shard``: the damaged shard, if only one is damaged.
    """

    shard: int | None = None


class Gone(IngestorError):
    """Error: another program deleted the collection, or replaced it by another one of the same name.

    ``shard``: the shard that is gone, if only one is.
    """

    shard: int | None = None


Embed = Callable[[Sequence[str]], "Vectors"]  # texts -> unit vectors, cached; order and length kept
Stop = Event


class Connector(Protocol):
    """Lists the documents of a source and fetches them.

    An attribute ``near = True`` declares that fetching an item again costs next to nothing.
    """

    def scan(self) -> Iterator[Item]:
        """Yield every item of the source, each key once.

        Raise an error if the listing is incomplete: then no document is removed. If only some keys could not
        be listed, raise PartialScan at the end. Then only documents at and below these keys are kept.
        """
        ...

    def fetch(self, item: Item) -> Blob:
        """Return the content of an item. Raises Stale if it changed or vanished since it was listed."""
        ...


@runtime_checkable
class Watchable(Protocol):
    """A connector that reports at once that documents may have changed."""

    def watch(self, stop: Stop) -> Iterator[Hint]:
        """Yield a hint whenever documents may have changed, until ``stop`` is set.

        Also yield a hint as soon as the watch begins to notice changes. The listing that it causes finds the
        changes made before.
        """
        ...


@runtime_checkable
class Dispatching(Protocol):
    """A connector whose hints may name other sources.

    ``sources``: the names of the config's sources. ingestor sets them before ``watch``, and after each change
    of the config.
    """

    sources: Collection[str]


@runtime_checkable
class Scoped(Protocol):
    """A connector that can list a part of its source."""

    def scan_under(self, under: str) -> Iterator[Item]:
        """Yield every item whose key is ``under`` or starts with ``under/``.

        Raise an error if that is incomplete.
        """
        ...


@runtime_checkable
class Identified(Protocol):
    """A connector that notices that another disk or file system is mounted in place of its documents."""

    def identity(self) -> str:
        """Return a text that identifies the file system on which the documents are."""
        ...


@runtime_checkable
class Structured(Protocol):
    """A connector that knows of some items, without reading them, that they contain no other documents."""

    def is_simple(self, item: Item) -> bool:
        """Return whether an item certainly has no attachments or packed files.

        Return False if only reading the item can tell.
        """
        ...


@runtime_checkable
class Trackable(Protocol):
    """A connector that recognises an item that was moved to another key."""

    def same(self, version: str, other: str) -> bool:
        """Return whether two versions belong to one item that was moved from one key to another; False if
        unknown."""
        ...


class Parser(Protocol):
    """Extracts text and its structure from the bytes of a document.

    The same bytes must always give the same result.
    """

    def parse(self, blob: Blob) -> Document: ...


class Chunker(Protocol):
    """Cuts a document into chunks. The result depends only on the document, the vectors and ``others``."""

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        """Cut a document into chunks.

        ``embed``: returns the vectors of texts. ``others``: for a Collective, the sums over all other
        documents of the collection, or None if there are none.
        """
        ...


@runtime_checkable
class Collective(Protocol):
    """A chunker whose cuts depend on a statistic of the whole collection (see chunkers/cluster.py)."""

    statistic: str  # name of the sums; documents of all chunkers with this name are summed together

    def value(self, total: Sums) -> int:
        """Return the statistic's value from the sums over all documents, in the units of
        ``Chunking.interval``."""
        ...


class Embedder(Protocol):
    """Turns texts into unit vectors. Each vector depends on its text alone, never on the other texts of a
    batch.

    If an option changes, every text is embedded again. Declare options that change no vector by
    ``registry.tuning``.
    """

    @property
    def dimensions(self) -> int: ...

    @property
    def window(self) -> int:
        """Return how many tokens of a text the model reads. It ignores the rest of a longer text."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return a row for each text, in the order of the texts.

        Raise BadDocument if the model cannot embed one of the texts. Then the texts of each document are
        embedded alone.
        """
        ...

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens each text has, by the model's own tokenizer, with special tokens and without
        truncation."""
        ...


@runtime_checkable
class Vocabulary(Protocol):
    """An embedder whose tokenizer replaces words that it does not know by a token for unknown text."""

    def count_unknown(self, texts: Sequence[str]) -> tuple[int, int]:
        """Return how many tokens of the texts are unknown, and how many there are, without special tokens."""
        ...


@runtime_checkable
class Pinned(Protocol):
    """An embedder whose vectors depend on more than its options, for example on files that may change."""

    @property
    def identity(self) -> Mapping[str, object]:
        """Return JSON values that identify the model, such as the digest of its weights.

        If they change, every text is embedded again. The options count, too, except those declared by
        ``registry.pinned``.
        """
        ...


@runtime_checkable
class Adaptive(Pinned, Protocol):
    """An embedder that chooses an option for the machine, such as the precision of its arithmetic."""

    def alternatives(self) -> Iterable[tuple[Embedder, bool]]:
        """Return every embedder that the same options select on some machine, the best first.

        With each comes whether this machine can run it. A collection keeps the embedder that made it, if
        possible. Otherwise its documents are embedded again, after approval.
        """
        ...


@runtime_checkable
class Asymmetric(Protocol):
    """An embedder whose model embeds queries differently from documents."""

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed queries. In all other respects like ``embed``."""
        ...


@runtime_checkable
class Gradual(Protocol):
    """An embedder that returns its first vectors while it still computes the others."""

    def embed_gradually(self, texts: Sequence[str]) -> Generator[EmbeddedPart]:
        """Yield the vectors of the texts in parts, until every text has one. They are equal to those of
        ``embed``.

        Between two parts the caller may embed other texts. It may also close the generator.
        """
        ...


@runtime_checkable
class Loadable(Protocol):
    """An embedder whose model can also be loaded by readers, in their own processes."""

    def reader_model(self) -> ReaderModel | None:
        """Return the function that the collection stores for readers' ``query(query_texts=...)``; None for
        none."""
        ...


@runtime_checkable
class Remote(Protocol):
    """An embedder that calls a server.

    The server may refuse one of many texts, be down, or change its model.
    """

    @property
    def at_once(self) -> int:
        """Return how many texts should be sent to the server in one call."""
        ...

    def embed_each(self, texts: Sequence[str], stop: Stop) -> Answered:
        """Embed texts like ``embed``, but return an error in place of the vector for each text that fails.

        The call ends soon after ``stop`` is set. A server may return slightly different vectors each time, so
        the first vector of a text is cached and used again.
        """
        ...


class Index(Protocol):
    """A collection in Chroma.

    Every method can be repeated, and may have taken effect even if it raised an error.
    """

    def upsert(self, records: Sequence[Record]) -> None: ...

    def patch(self, metadata: Sequence[tuple[RecordId, Metadata]]) -> None:
        """Change the metadata of records, but neither text nor vector.

        Keys that are not named are kept, and keys whose value is None are removed.
        """
        ...

    def drop(self, ids: Sequence[RecordId]) -> None: ...

    def count(self) -> int: ...

    def read(self, ids: Sequence[RecordId], *, vectors: bool = False) -> list[Record]:
        """Return the records with these ids that exist, in any order.

        ``vectors``: whether to read the vectors, too; otherwise they are empty.
        """
        ...

    def ids(self) -> Iterator[RecordId]:
        """Yield the id of every record in the collection."""
        ...

    def facts(self) -> Mapping[str, object]:
        """Return the metadata of the collection itself. Other programs may have replaced all of it."""
        ...

    def note(self, facts: Mapping[str, str]) -> None:
        """Add facts to the metadata of the collection itself. Its other keys are kept."""
        ...

    def query(self, vectors: Vectors, n: int, where: dict[str, object] | None = None) -> list[list[Hit]]:
        """Return for each vector the ``n`` nearest records that match the filter ``where``, best first."""
        ...

    def nearest(
        self, vectors: Vectors | Sequence[Vector], n: int, where: dict[str, object] | None = None
    ) -> list[list[tuple[RecordId, float]]]:
        """Return ids and scores of the hits that ``query`` returns.

        That costs less, because no record is read.
        """
        ...
