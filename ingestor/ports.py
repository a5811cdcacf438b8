"""The protocols between the core and the world, and the errors that cross them.

An implementation raises ``Transient`` when trying again later may help, ``BadDocument`` when this
content cannot be used, ``NeedsHuman`` when a person must repair the whole source or collection. Any
other exception is a defect: the document keeps the records that it has, and is tried again, in the end once
an hour.
An index, besides, says ``Torn`` or ``Gone`` of a collection.
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
    """Error: a later try may succeed. ``shard``: as in Torn, for a request to a collection."""

    shard: int | None = None


class Later(Transient):
    """Try again after ``wait`` seconds: a server said so."""

    def __init__(self, message: str, wait: float) -> None:
        super().__init__(message)
        self.wait = wait


class Stale(Transient):
    """The item changed or vanished since it was listed: list it again, then try."""


class PartialScan(Transient):
    """A scan that listed all it could: of what lies under ``unknown`` nothing is known or removed.

    ``more``: the scan ended early, so that its documents need not wait. Another scan continues at once.
    """

    def __init__(self, message: str, unknown: Sequence[str], *, more: bool = False) -> None:
        super().__init__(message)
        self.unknown = tuple(unknown)
        self.more = more


class BadDocument(IngestorError):
    """This content can't be indexed: quarantine it until its version or its recipe changes."""


class Unsupported(BadDocument):
    """Error: no installed parser reads such content.

    The document is skipped and counted; it is no failure.
    """


class NeedsHuman(IngestorError):
    """Hold this source until someone acts; the message says what to do."""


class Foreign(NeedsHuman):
    """A collection of that name is there, and it is not ours: nothing of ours is in it."""


class Torn(IngestorError):
    """Error: this collection is damaged and must be written again.

    ``shard``: the damaged shard, if only one is damaged.
    """

    shard: int | None = None


class Gone(IngestorError):
    """Error: another program deleted the collection, or replaced it by another of its name.

    ``shard``: as in Torn.
    """

    shard: int | None = None


Embed = Callable[[Sequence[str]], "Vectors"]  # texts -> unit vectors, cached; order and length kept
Stop = Event


class Connector(Protocol):
    """A place that documents come from.

    An attribute ``near = True`` says that reading an item again costs next to nothing.
    """

    def scan(self) -> Iterator[Item]:
        """List every item, each key once. Complete, or it raises: then nothing is removed.

        PartialScan, raised at the end, withholds removal only below the keys it names.
        """
        ...

    def fetch(self, item: Item) -> Blob:
        """Read one item. Raises Stale when it changed or vanished since it was listed."""
        ...


@runtime_checkable
class Watchable(Protocol):
    """A connector that can say where to look again."""

    def watch(self, stop: Stop) -> Iterator[Hint]:
        """Yield hints until ``stop`` is set. The first hint follows arming, so scan after it."""
        ...


@runtime_checkable
class Scoped(Protocol):
    """A connector that can list a part of itself."""

    def scan_under(self, under: str) -> Iterator[Item]:
        """List every item whose key is ``under`` or starts with ``under/``; complete or it raises."""
        ...


@runtime_checkable
class Identified(Protocol):
    """A connector that can tell whether it still looks at the same place."""

    def identity(self) -> str:
        """Differs when something else is mounted where the documents were."""
        ...


@runtime_checkable
class Structured(Protocol):
    """A connector that can tell what is in an item without reading it."""

    def is_simple(self, item: Item) -> bool:
        """True: nothing is attached to the item or packed in it. False: only its content can tell."""
        ...


@runtime_checkable
class Trackable(Protocol):
    """A connector that can recognise an item that was moved."""

    def same(self, version: str, other: str) -> bool:
        """Whether items of these versions are one under two keys. False: nobody knows."""
        ...


class Parser(Protocol):
    """Turns bytes into text with structure. Deterministic."""

    def parse(self, blob: Blob) -> Document: ...


class Chunker(Protocol):
    """Cuts a document. Deterministic; a function of the document, the vectors and ``others``."""

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        """Cut a document into chunks. ``others``: sums over the collection's other documents, if any."""
        ...


@runtime_checkable
class Collective(Protocol):
    """A chunker whose cuts depend on a statistic of the whole collection (see cluster.py)."""

    statistic: str  # names what is summed; documents whose chunkers agree on it are summed together

    def value(self, total: Sums) -> int:
        """The statistic's value, in the units of ``Chunking.interval``."""
        ...


class Embedder(Protocol):
    """Texts to unit vectors; each vector a function of its text alone, never of its batch-mates.

    A changed option of an embedder means other vectors: every text is embedded again. Options that change no
    vector are declared by ``registry.tuning``.
    """

    @property
    def dimensions(self) -> int: ...

    @property
    def window(self) -> int:
        """Tokens of the model's own tokenizer that it reads; what is beyond is not seen."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return a row for each text, in the order of the texts.

        Raises BadDocument if the model cannot take a text: each document is then embedded alone.
        """
        ...

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text by the model's own tokenizer, special tokens included, not truncated."""
        ...


@runtime_checkable
class Vocabulary(Protocol):
    """An embedder whose tokenizer may replace words by a token for unknown text."""

    def count_unknown(self, texts: Sequence[str]) -> tuple[int, int]:
        """Return the number of unknown tokens and of all tokens of the texts, without special tokens."""
        ...


@runtime_checkable
class Pinned(Protocol):
    """An embedder that knows more than its options say of what decides its vectors."""

    @property
    def identity(self) -> Mapping[str, object]:
        """Return JSON values that identify the model, such as the digest of the weights.

        Other values mean other vectors.

        The identity counts beside the options, except options declared by ``registry.pinned``.
        """
        ...


@runtime_checkable
class Adaptive(Pinned, Protocol):
    """An embedder whose options leave a choice to the machine, such as the precision of its arithmetic."""

    def alternatives(self) -> Iterable[tuple[Embedder, bool]]:
        """Return every embedder that the same options select on some machine, the best first.

        False: this machine cannot run the embedder. A collection keeps the embedder that made it, if
        possible; otherwise re-embedding waits for approval.
        """
        ...


@runtime_checkable
class Asymmetric(Protocol):
    """An embedder whose model tells questions from documents."""

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed questions; otherwise like ``embed``."""
        ...


@runtime_checkable
class Gradual(Protocol):
    """An embedder that gives vectors while it works on others."""

    def embed_gradually(self, texts: Sequence[str]) -> Generator[EmbeddedPart]:
        """Yield rows like the rows of ``embed``, in parts, until every text has a row.

        The caller may embed other texts between two parts, and may close the generator.
        """
        ...


@runtime_checkable
class Loadable(Protocol):
    """An embedder whose model readers can load in their own processes."""

    def reader_model(self) -> ReaderModel | None:
        """Kept in the collection, for ``query(query_texts=...)``. None: readers are told nothing."""
        ...


@runtime_checkable
class Remote(Protocol):
    """An embedder that asks a server, which may refuse one text of many, be away, or become another one."""

    @property
    def at_once(self) -> int:
        """Number of texts that keep the server busy."""
        ...

    def embed_each(self, texts: Sequence[str], stop: Stop) -> Answered:
        """Embed texts like ``embed``, but lose only the texts that an error concerns.

        The call ends soon after ``stop`` is set. Vectors may differ in some bits from call to call: the first
        vectors are kept.
        """
        ...


class Index(Protocol):
    """A collection. Every method is idempotent, and may have taken effect even if the call raised."""

    def upsert(self, records: Sequence[Record]) -> None: ...

    def patch(self, metadata: Sequence[tuple[RecordId, Metadata]]) -> None:
        """Metadata only: texts and vectors stay, keys not named stay unless given as None."""
        ...

    def drop(self, ids: Sequence[RecordId]) -> None: ...

    def count(self) -> int: ...

    def read(self, ids: Sequence[RecordId], *, vectors: bool = False) -> list[Record]:
        """Return the records that exist, in no order; their vectors are empty without ``vectors``."""
        ...

    def ids(self) -> Iterator[RecordId]:
        """Every id in the collection."""
        ...

    def facts(self) -> Mapping[str, object]:
        """The collection's own metadata. Other programs may have replaced all of it."""
        ...

    def note(self, facts: Mapping[str, str]) -> None:
        """Add to the collection's own metadata; other keys stay."""
        ...

    def query(self, vectors: Vectors, n: int, where: dict[str, object] | None = None) -> list[list[Hit]]:
        """The nearest ``n`` of each vector, best first."""
        ...

    def nearest(
        self, vectors: Vectors | Sequence[Vector], n: int, where: dict[str, object] | None = None
    ) -> list[list[tuple[RecordId, float]]]:
        """Ids and scores as ``query`` has them: cheaper, for no record is read."""
        ...
