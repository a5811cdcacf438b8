"""Frozen values that the parts of the program exchange, from a source's item to a collection's record.

source -> item -> blob -> document -> chunk -> record. Offsets are code points of ``Document.text``;
spans are half open. Text never holds a lone surrogate (parsers strip them).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NewType

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vector = npt.NDArray[np.float32]  # shape (dimensions,)
    Vectors = npt.NDArray[np.float32]  # shape (n, dimensions)
    Sums = npt.NDArray[np.int64]  # shape (k,): additive integer state of a collection statistic

SourceName = NewType("SourceName", str)
CollectionName = NewType("CollectionName", str)
DocumentId = NewType("DocumentId", str)
RecordId = NewType("RecordId", str)
Fingerprint = NewType("Fingerprint", str)  # hex; of a recipe or a part of one
Digest = NewType("Digest", str)  # hex; of content

Scalar = str | int | float | bool | None
Value = Scalar | list[str]  # a list is never empty: Chroma refuses empty ones
Metadata = Mapping[str, Value]

INSIDE = "/!/"  # in an item's key: between the name of a container and that of its member


@dataclass(frozen=True, slots=True)
class Item:
    """A document as its source lists it, without its content."""

    key: str  # unique and stable within its source; "/" separated where the source is a tree
    version: str  # opaque; differs whenever the content may differ
    uri: str  # what people call it: a path or a URL
    size: int | None = None  # bytes
    modified: float | None = None  # POSIX seconds
    extra: tuple[tuple[str, Scalar | tuple[str, ...]], ...] = ()  # what else the source knows (author, ...)


@dataclass(frozen=True, slots=True)
class Blob:
    """The complete bytes of one item, which did not change while they were read."""

    data: bytes
    name: str  # file name, for the extension
    content_type: str | None = None  # as the source declares it, if it does
    configured_type: str | None = None  # set by the config for the name; overrides detection of text


@dataclass(frozen=True, slots=True)
class Block:
    """A span of a document with one role, such as a heading. Blocks are ordered and do not overlap.

    ``kind``: heading, paragraph, list, table, code, quote, front_matter, html, rule, ... A ``label`` (an
    anchor, or a directive that names the next block) and a ``comment`` belong to the block after them.
    ``header_rows``: number of a table's first lines that name its columns (years, units); None if its parser
    does not know. ``caption``: the title above a table.
    """

    kind: str
    start: int
    end: int
    level: int = 0  # headings: 1 is the outermost; 0 for all else
    title: str | None = None  # headings: their text without markup
    number: str | None = None  # headings: "2.1.3" where the document numbers them itself
    page: int | None = None  # 0-based
    page_label: str | None = None
    language: str | None = None  # code: its programming language
    symbol: str | None = None  # code: the function or class
    figure: str | None = None  # figures: the picture's name inside the document, or its address
    header_rows: int | None = None
    caption: str | None = None


HOLDER = "application/x-container"  # content type of an item that only holds other documents


@dataclass(frozen=True, slots=True)
class Document:
    """Extracted text and its structure.

    ``raw_words``: words in the raw content, as core/completeness.py counts them; None if the parser does not
    count. ``left_out``: numbers of words left out on purpose, by the parser's rule. ``lost``: unread parts
    and their remedy, in words for people.
    """

    text: str
    blocks: tuple[Block, ...] = ()
    content_type: str = "text/plain"
    title: str | None = None
    language: str | None = None  # of the prose, BCP 47
    extra: tuple[tuple[str, Scalar], ...] = ()  # author, date, ... where the format has them
    raw_words: int | None = None
    left_out: tuple[tuple[str, int], ...] = ()
    lost: tuple[str, ...] = ()
    inner_breaks: tuple[int, ...] = ()  # line breaks of the text that are none in the file


@dataclass(frozen=True, slots=True)
class Chunk:
    """A span of a document: ``document.text[start:end] == text`` unless ``rewritten``.

    ``spans``: set only by strategies whose chunks are not contiguous. ``start`` and ``end`` then enclose the
    spans, and ``text`` joins their texts by a newline.
    """

    start: int
    end: int
    text: str
    spans: tuple[tuple[int, int], ...] = ()
    rewritten: bool = False  # a language model wrote the text; the span is that of its passage
    extra: tuple[tuple[str, Scalar], ...] = ()  # parent id and span, chosen strategy, fallback, ...


@dataclass(frozen=True, slots=True, eq=False)
class Chunking:
    """The result of a chunker for one document.

    ``vectors``: a unit vector for each chunk if the chunker pooled them; None if the chunks' texts must still
    be embedded. ``neighbours``: weight of neighbouring chunks in embedded vectors, in place of the config's
    weight.

    Two fields belong to chunkers whose cuts depend on a statistic of the collection. ``sums``: the document's
    own contribution. ``interval``: the closed range of values within which these cuts stay exactly optimal.
    """

    chunks: tuple[Chunk, ...]
    vectors: Vectors | None = None
    sums: Sums | None = None
    interval: tuple[int, int] | None = None
    neighbours: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A row of a Chroma collection."""

    id: RecordId
    text: str
    metadata: Metadata
    vector: npt.NDArray[np.float32]  # shape (dimensions,)


@dataclass(frozen=True, slots=True)
class Known:
    """A record as the journal knows it. ``unsure``: the record in the index may be another one, or missing.

    ``vector_digest``: digest of the vector as written (see fingerprint.vector_digest); empty if none was
    stored, as for records from before the journal stored digests.
    """

    slot: int
    text_key: str  # digest of the record's text
    vector_key: str  # digest of all inputs of its vector
    meta_key: str  # digest of its metadata
    unsure: bool = False
    vector_digest: bytes = b""


@dataclass(frozen=True, slots=True)
class ReaderModel:
    """An embedding function of Chroma, which embeds the questions of readers.

    ``function``: Chroma's name for the function, such as "openai". ``config``: JSON values from which Chroma
    builds the function; no secrets, since every reader of the collection can see them.
    """

    function: str
    config: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Answered:
    """The result of an embedding server for some texts. ``vectors``: a vector or an error for each text.

    ``tokens``: number of tokens of all texts; None if the server did not count them.
    """

    vectors: Sequence[Vector | Exception]
    tokens: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedPart:
    """A part of an embedder's result: ``positions`` of some texts, and a row of ``vectors`` for each."""

    positions: Sequence[int]
    vectors: Vectors


@dataclass(frozen=True, slots=True)
class Hint:
    """A possible change at or below ``under`` ("" is everywhere). A hint only triggers a listing.

    ``source``: the source that has the key; None for the source whose connector yields the hint.
    """

    under: str = ""
    source: SourceName | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A record that a query found; ``score`` is the cosine similarity."""

    id: RecordId
    score: float
    text: str
    metadata: Metadata = field(default_factory=dict)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Build the array types at first use: commands such as ``status`` start faster without NumPy."""
        if name not in ("Vector", "Vectors", "Sums"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import numpy as np
        import numpy.typing as npt

        return npt.NDArray[np.int64 if name == "Sums" else np.float32]
