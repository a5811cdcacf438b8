"""Frozen values that the parts of the program exchange, from a source's item to a collection's record.

source -> item -> blob -> document -> chunk -> record. Offsets count the code points of ``Document.text``. A
span includes its start and excludes its end. Text never contains a lone surrogate, since parsers remove them.
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
    ``header_rows``: how many of a table's first lines name its columns; None if the parser does not know.
    ``caption``: the title above a table.
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
    """The text that a parser extracted from a blob, and its structure.

    ``raw_words``: number of words in the raw content, as core/completeness.py counts them; None if the parser
    does not count them. ``left_out``: pairs of a rule of the parser and the number of words that it left out
    on purpose. ``lost``: parts that could not be read, with their remedy, in words for people.
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

    ``spans``: set only by strategies whose chunks consist of several spans. Then ``start`` and ``end``
    enclose the spans, and ``text`` has their texts, joined by a newline.
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

    ``vectors``: a unit vector for each chunk, if the chunker computed them from the vectors of smaller
    pieces. None if the texts of the chunks must still be embedded. ``neighbours``: the weight with which
    vectors of neighbouring chunks are mixed into a chunk's vector; None for the config's weight.

    Two fields are for chunkers whose cuts depend on a statistic of the collection. ``sums``: what this
    document adds to the statistic. ``interval``: the closed range of the statistic's values for which these
    cuts are optimal.
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
    """A record as the journal knows it. ``unsure``: the index may have another record in its place, or none.

    ``vector_digest``: digest of the vector as it was written (see fingerprint.vector_digest). It is empty if
    none was stored, as for records of versions that stored no digests.
    """

    slot: int
    text_key: str  # digest of the record's text
    vector_key: str  # digest of all inputs of its vector
    meta_key: str  # digest of its metadata
    unsure: bool = False
    vector_digest: bytes = b""


@dataclass(frozen=True, slots=True)
class ReaderModel:
    """A function of Chroma that embeds the queries of readers to a collection.

    ``function``: Chroma's name for the function, such as "openai". ``config``: JSON values from which Chroma
    builds the function. They contain no secrets, since every reader of the collection can see them.
    """

    function: str
    config: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Answered:
    """The result of an embedding server for some texts. ``vectors``: for each text a vector or an error.

    ``tokens``: number of tokens of all texts together; None if the server did not count them.
    """

    vectors: Sequence[Vector | Exception]
    tokens: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedPart:
    """A part of an embedder's result, for the texts at some positions.

    ``vectors``: a row for each position.
    """

    positions: Sequence[int]
    vectors: Vectors


@dataclass(frozen=True, slots=True)
class Hint:
    """A notification that documents at or below the key ``under`` may have changed ("" is the whole source).

    A hint only makes ingestor list this part of the source soon. ``source``: the name of the source; None for
    the source whose connector sent the hint.
    """

    under: str = ""
    source: SourceName | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A record that a query found. ``score``: its cosine similarity to the query."""

    id: RecordId
    score: float
    text: str
    metadata: Metadata = field(default_factory=dict)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Build the array types at their first use, so that commands such as ``status`` need no NumPy."""
        if name not in ("Vector", "Vectors", "Sums"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import numpy as np
        import numpy.typing as npt

        return npt.NDArray[np.int64 if name == "Sums" else np.float32]
