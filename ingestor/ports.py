"""The protocols that plugins and stores implement, and the errors that they raise.

An implementation raises ``Transient`` if a retry may help, and ``BadDocument`` if a document's content cannot
be used. It raises ``NeedsHuman`` if a person must repair the whole source or collection. An index also raises
``Torn`` or ``Gone``. Any other exception is a defect: the document keeps its records and is retried.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
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
    """Base of every error that the program explains; the message says what to do."""


class Transient(IngestorError):
    """Error: a retry may succeed. ``shard``: the shard that failed, if only one did."""

    shard: int | None = None


class Later(Transient):
    """Error: a server asks to retry after ``wait`` seconds."""

    def __init__(self, message: str, wait: float) -> None:
        super().__init__(message)
        self.wait = wait


class Stale(Transient):
    """Error: the item changed or vanished since it was listed. List it again before the retry."""


class PartialScan(Transient):
    """Error: a scan could not list the keys under ``unknown``. Their documents are kept as they are.

    ``more``: the scan ended early so that its documents need not wait; another scan continues at once.
    """

    def __init__(self, message: str, unknown: Sequence[str], *, more: bool = False) -> None:
        super().__init__(message)
        self.unknown = tuple(unknown)
        self.more = more


class BadDocument(IngestorError):
    """Error: this content can't be indexed. It is quarantined until its version or its recipe changes."""


class Unsupported(BadDocument):
    """Error: no installed parser reads such content.

    The document is skipped and counted; it is no failure.
    """


class NeedsHuman(IngestorError):
    """Error: a person must act; the message says how. Until then the source is held."""


class Foreign(NeedsHuman):
    """Error: another program made the collection of that name; it holds no record of ours."""


class Torn(IngestorError):
    """Error: this collection is damaged and must be written again.

    ``shard``: the damaged shard, if only one is damaged.
    """

    shard: int | None = None


class Gone(IngestorError):
    """Error: another program deleted the collection, or replaced it by another one of the same name.

    ``shard``: as in Torn.
    """

    shard: int | None = None


Embed = Callable[[Sequence[str]], "Vectors"]  # texts -> unit vectors, cached; order and length kept
Stop = Event


class Connector(Protocol):
    """A source of documents: lists items and fetches them.

    An attribute ``near = True`` declares that fetching an item again costs next to nothing.
    """

    def scan(self) -> Iterator[Item]:
        """Yield every item, each key once. Raise if the listing is incomplete: then no document is removed.

        PartialScan, raised at the end, withholds removal only below the keys it names.
        """
        ...

    def fetch(self, item: Item) -> Blob:
        """Read one item. Raises Stale when it changed or vanished since it was listed."""
        ...


@runtime_checkable
class Watchable(Protocol):
    """A connector that reports where documents may have changed."""

    def watch(self, stop: Stop) -> Iterator[Hint]:
        """Yield hints until ``stop`` is set. The first hint follows arming, so scan after it."""
        ...


@runtime_checkable
class Scoped(Protocol):
    """A connector that can list a part of itself."""

    def scan_under(self, under: str) -> Iterator[Item]:
        """Yield every item whose key is ``under`` or starts with ``under/``. Raise if incomplete."""
        ...


@runtime_checkable
class Identified(Protocol):
    """A connector that notices if another disk or file system took the place of its documents."""

    def identity(self) -> str:
        """Return a value that differs when another file system is mounted where the documents were."""
        ...


@runtime_checkable
class Structured(Protocol):
    """A connector that knows without reading an item whether the item holds other documents."""

    def is_simple(self, item: Item) -> bool:
        """Return whether the item surely holds no attachment or packed file.

        False if only reading can tell.
        """
        ...


@runtime_checkable
class Trackable(Protocol):
    """A connector that can recognise an item that was moved."""

    def same(self, version: str, other: str) -> bool:
        """Return whether two versions are of one item under two keys. False if unknown."""
        ...


class Parser(Protocol):
    """Turns bytes into text with structure. Deterministic."""

    def parse(self, blob: Blob) -> Document: ...


class Chunker(Protocol):
    """Cuts a document into chunks. The result depends only on the document, the vectors and ``others``."""

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        """Cut a document. ``others``: for a Collective, the sums over all other documents; None if there are
        none."""
        ...


@runtime_checkable
class Collective(Protocol):
    """A chunker whose cuts depend on a statistic of the whole collection (see chunkers/cluster.py)."""

    statistic: str  # name of the sums; documents of all chunkers with this name are summed together

    def value(self, total: Sums) -> int:
        """Return the statistic's value, in the units of ``Chunking.interval``."""
        ...


class Embedder(Protocol):
    """Turns texts into unit vectors; each vector depends on its text alone, never on the rest of the batch.

    If an option changes, every text is embedded again. ``registry.tuning`` declares options that change no
    vector.
    """

    @property
    def dimensions(self) -> int: ...

    @property
    def window(self) -> int:
        """Return the number of tokens that the model reads; it ignores the rest of a longer text."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return a row for each text, in the order of the texts.

        Raises BadDocument if the model cannot take a text: each document is then embedded alone.
        """
        ...

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each untruncated text by the model's own tokenizer, with special tokens."""
        ...


@runtime_checkable
class Vocabulary(Protocol):
    """An embedder whose tokenizer may replace words by a token for unknown text."""

    def count_unknown(self, texts: Sequence[str]) -> tuple[int, int]:
        """Return the number of unknown tokens and of all tokens of the texts, without special tokens."""
        ...


@runtime_checkable
class Pinned(Protocol):
    """An embedder whose vectors depend on more than its options, such as on files that may change."""

    @property
    def identity(self) -> Mapping[str, object]:
        """Return JSON values that identify the model, such as the digest of the weights.

        Other values mean other vectors.

        The identity counts beside the options, except options declared by ``registry.pinned``.
        """
        ...


@runtime_checkable
class Adaptive(Pinned, Protocol):
    """An embedder that chooses an option by the machine, such as the precision of its arithmetic."""

    def alternatives(self) -> Iterable[tuple[Embedder, bool]]:
        """Return every embedder that the same options select on some machine, the best first.

        False: this machine cannot run the embedder. A collection keeps the embedder that made it, if
        possible; otherwise re-embedding waits for approval.
        """
        ...


@runtime_checkable
class Asymmetric(Protocol):
    """An embedder whose model embeds questions and documents differently."""

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed questions; otherwise like ``embed``."""
        ...


@runtime_checkable
class Gradual(Protocol):
    """An embedder that returns its first vectors while it computes the others."""

    def embed_gradually(self, texts: Sequence[str]) -> Generator[EmbeddedPart]:
        """Yield rows like the rows of ``embed``, in parts, until every text has a row.

        The caller may embed other texts between two parts, and may close the generator.
        """
        ...


@runtime_checkable
class Loadable(Protocol):
    """An embedder whose model readers can load in their own processes."""

    def reader_model(self) -> ReaderModel | None:
        """Return the function that the collection names for ``query(query_texts=...)``; None to name none."""
        ...


@runtime_checkable
class Remote(Protocol):
    """An embedder that calls a server, which may refuse one of many texts, be down, or change its model."""

    @property
    def at_once(self) -> int:
        """Return how many texts the server should get at a time."""
        ...

    def embed_each(self, texts: Sequence[str], stop: Stop) -> Answered:
        """Embed texts like ``embed``, but return an error for each text that it concerns.

        The call ends soon after ``stop`` is set. Vectors may differ in some bits from call to call: the first
        ones are cached.
        """
        ...


class Index(Protocol):
    """A collection in Chroma. Every method is idempotent, and may have taken effect even if it raised."""

    def upsert(self, records: Sequence[Record]) -> None: ...

    def patch(self, metadata: Sequence[tuple[RecordId, Metadata]]) -> None:
        """Change metadata only. Keys that are not named stay; a key given as None is removed."""
        ...

    def drop(self, ids: Sequence[RecordId]) -> None: ...

    def count(self) -> int: ...

    def read(self, ids: Sequence[RecordId], *, vectors: bool = False) -> list[Record]:
        """Return the records with these ids that exist, in any order; without ``vectors`` theirs are
        empty."""
        ...

    def ids(self) -> Iterator[RecordId]:
        """Yield every id in the collection."""
        ...

    def facts(self) -> Mapping[str, object]:
        """Return the collection's own metadata. Other programs may have replaced all of it."""
        ...

    def note(self, facts: Mapping[str, str]) -> None:
        """Add to the collection's own metadata; other keys stay."""
        ...

    def query(self, vectors: Vectors, n: int, where: dict[str, object] | None = None) -> list[list[Hit]]:
        """Return the nearest ``n`` records for each vector, best first."""
        ...

    def nearest(
        self, vectors: Vectors | Sequence[Vector], n: int, where: dict[str, object] | None = None
    ) -> list[list[tuple[RecordId, float]]]:
        """Return ids and scores as ``query`` does, but read no record, which is cheaper."""
        ...
