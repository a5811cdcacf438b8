"""Prepares one document, top to bottom: read, chunk, compare with the journal, embed.

``prepare`` runs on a worker and changes neither journal nor index: it returns the writes to make. Only chunks
whose vectors are not in the index are embedded, and cached vectors are used.

An item with an unchanged version has unchanged content. So if only the chunker, the collection's statistic or
a record changed, the cached parse is used, and neither source nor parser is called. The work on a document
continues in engine/outcomes.py.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress
from typing import Protocol

import numpy as np

from ingestor.core import slots as core_slots
from ingestor.core.completeness import shortfall
from ingestor.core.document_json import Parsed
from ingestor.core.entries import Entry, Intent, Receipt
from ingestor.core.fingerprint import combine, digest, metadata_digest, text_digest, vector_digest
from ingestor.core.slots import Keys
from ingestor.model import (
    HOLDER,
    Blob,
    Chunk,
    Chunking,
    Digest,
    Document,
    DocumentId,
    Fingerprint,
    Item,
    Known,
    Metadata,
    Record,
    RecordId,
    SourceName,
    Sums,
    Value,
    Vectors,
)
from ingestor.parsers.shared import detect
from ingestor.pipeline import language, limits, metadata
from ingestor.pipeline.language import CountUnknown, sample_unknown
from ingestor.pipeline.limits import ExceedsWindow, StageTimes, embed_whole, never_exceeds
from ingestor.ports import BadDocument, Chunker, Collective, Embed, Parser
from ingestor.segmentation.pooling import mix
from ingestor.text import context as text_context
from ingestor.text.context import Context, Lines, contexts, in_front
from ingestor.units import quantity

_FEW = 1000  # chunks that a document of any size may give
_COMPARED = 10  # distinct texts that a strategy may embed for its decisions, for each chunk that it may give

Fetch = Callable[[Item], Blob]


class Memory(Protocol):
    """A cache of parsed documents, which may lose any entry at any time.

    ``stamp``: digest of the item's version and of all settings by which the type of its content is detected.
    """

    def find(self, source: SourceName, key: str, stamp: str) -> Parsed | None: ...
    def keep(self, source: SourceName, key: str, stamp: str, parsed: Parsed) -> None: ...


@dataclass(frozen=True, slots=True)
class Reading:
    """A fetched item. ``content``: digest of its bytes. ``parser``: name of the parser that reads it.

    ``document``: returns the parsed document, from the cache if it is there. It raises the errors of the
    parser.
    """

    content: Digest
    parser: str
    document: Callable[[], Document]


@dataclass(frozen=True, slots=True)
class Reader:
    """Fetches and parses the items of one source.

    ``recipes``: fingerprint of each parser by its name. ``memory``: cache of parsed documents. ``costly``:
    parsers whose documents are cached. ``types``: formats that the config sets for file names. ``origin``:
    fingerprint of the connector and its options, on which the content may depend.
    """

    source: SourceName
    fetch: Fetch
    parsers: Mapping[str, Parser]
    recipes: Mapping[str, Fingerprint]
    memory: Memory | None = None
    costly: Container[str] = ()
    types: detect.Types = ()
    origin: str = ""

    def read(self, item: Item) -> Reading:
        """Fetch an item, and choose its parser. Raises the errors of the connector."""
        known = self._recall(item)
        if known is not None and self.recipes.get(known.parser) == known.recipe:
            return Reading(known.content, known.parser, lambda: known.document)
        blob = detect.with_type(self.fetch(item), item.key, self.types)
        content, parser = digest(blob.data), detect.parser_of(blob)

        def parse() -> Document:
            if parser not in self.parsers:
                raise BadDocument(f"parser {parser!r} is not installed: reinstall this version of ingestor")
            document = self.parsers[parser].parse(blob)
            if blob.content_type == HOLDER:
                document = replace(document, content_type=HOLDER)
            self.remember(item, Parsed(content, parser, self.recipes[parser], document))
            return document

        return Reading(content, parser, parse)

    def remember(self, item: Item, parsed: Parsed) -> None:
        """Cache a parsed document, if documents of its parser are cached."""
        if self.memory is not None and parsed.parser in self.costly:
            self.memory.keep(self.source, item.key, self._stamp(item), parsed)

    def _recall(self, item: Item) -> Parsed | None:
        """Return the cached parse of an item, or None.

        The cache is not searched if the item's name shows that its parser is cheap: reading it again costs
        less.
        """
        promised = None if self.types else detect.parser_of_name(item.key)
        if self.memory is None or (promised is not None and promised not in self.costly):
            return None
        return self.memory.find(self.source, item.key, self._stamp(item))

    def _stamp(self, item: Item) -> str:
        return combine(detect.rules(), self.types, self.origin, item.version, item.uri)

    def recipe(self, parser: str) -> Fingerprint:
        """Return the recipe of documents that this parser reads.

        For an unknown parser the recipe combines all parsers, so that a change of any parser makes the
        document be tried again. The parser "" stands for documents that no parser could read.
        """
        recipe = self.recipes.get(parser) or Fingerprint(combine(*sorted(self.recipes.values())))
        if not self.types or detect.is_binary(parser):
            return recipe
        return Fingerprint(combine(recipe, self.types))


@dataclass(frozen=True)
class Tools:
    """Everything that turns the items of one source into records.

    ``context``, ``neighbours``: see chunkers/options. ``exceeds_window``: returns for each text whether it is
    longer than the embedding model reads. ``max_records``: the most records that a document may have.
    ``model``: the embedding model's name. ``count_unknown``: None if the model knows every token.
    ``expect``: called before a document that needs vectors is parsed, so that the model is loaded meanwhile.
    """

    reader: Reader
    chunker: Chunker
    chunker_recipe: Fingerprint
    describing: metadata.Describing
    embed: Embed
    embedder_recipe: Fingerprint
    count_tokens: Callable[[Sequence[str]], list[int]]
    context: Context = "none"
    neighbours: float = 0.0
    exceeds_window: ExceedsWindow = never_exceeds
    max_records: int = 100_000
    model: str = ""
    count_unknown: CountUnknown | None = None
    times: StageTimes = field(default_factory=StageTimes)
    expect: Callable[[], None] = lambda: None
    _recipes: dict[str, str] = field(init=False, repr=False, compare=False, default_factory=dict)

    @cached_property  # the question takes long
    def collective(self) -> Collective | None:
        """Return the chunker if its cuts depend on the whole collection, else None."""
        return self.chunker if isinstance(self.chunker, Collective) else None

    def recipe(self, parser: str) -> str:
        """Return the fingerprint of everything that decides the records of a document read by this parser.

        The parser "" stands for documents that no parser could read.
        """
        if parser not in self._recipes:
            described, reading = metadata.rules(self.describing), self.reader.recipe(parser)
            rules = detect.rules(), language.rules(), described, limits.REPEAT_RULES, text_context.VERSION
            recipes = limits.DIVISION, reading, self.chunker_recipe, self.embedder_recipe
            self._recipes[parser] = combine(*rules, *recipes)
        return self._recipes[parser]

    def embed_whole(self, texts: Sequence[str]) -> Vectors:
        return embed_whole(texts, self.embed, self.exceeds_window)

    @property
    def statistic(self) -> str | None:
        return None if self.collective is None else self.collective.statistic


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A document to prepare.

    Two fields are for strategies whose cuts depend on a statistic of the collection. ``others``: the sums
    over all other documents of the collection. ``exchange_sums``: publishes the document's own sums, and
    returns the sums over the other documents at that moment.
    """

    entry: Entry
    others: Sums | None = None
    exchange_sums: Callable[[Sums], Sums | None] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """The writes for one document, valid as long as its records in the journal equal ``compared_with``."""

    entry: Entry
    intent: Intent
    receipt: Receipt
    compared_with: tuple[Known, ...] = ()
    records: tuple[Record, ...] = ()  # to upsert, the new ones first
    patches: tuple[tuple[RecordId, Metadata], ...] = ()  # records with new metadata only
    deletes: tuple[RecordId, ...] = ()  # records to delete
    added: int = 0  # how many of ``records`` are new
    tokens: tuple[int, int] = (0, 0)  # in a sample of ``records``: unknown to the model, and all

    @property
    def empties(self) -> bool:
        """Return whether the write would delete all records of a document, although reading it caused no
        error."""
        return bool(self.compared_with) and not self.receipt.records and self.receipt.failure is None


Predecessor = Callable[[Entry, str], Entry | None]
Preparing = Callable[[Job, Tools, Predecessor], Prepared]  # ``prepare``, here or elsewhere


def prepare(job: Job, tools: Tools, predecessor: Predecessor) -> Prepared:
    """Read, chunk, compare and embed one document. Return the writes to make.

    ``predecessor``: called with a new document and the digest of its content. It returns the vanished
    document of the same content whose records the new one reuses, or None. Raises the errors of the
    connector, the parser and the embedder (see ports).
    """
    entry = job.entry
    assert entry.item is not None
    with tools.times.measure("read"):
        item, reading = entry.item, tools.reader.read(entry.item)
    if (same := renew_if_same(job, reading, tools)) is not None:
        return same
    content, recipe = reading.content, tools.recipe(reading.parser)
    owner = entry if entry.records or entry.digest else predecessor(entry, content) or entry
    if owner.digest != content:  # the model loads while the document is parsed
        tools.expect()
    with tools.times.measure("read"):
        document = reading.document()
    front, lost = metadata.by_front_matter(tools.describing.own, document)
    with limits.LARGE_TEXTS.take(len(document.text)), tools.times.measure("chunk"):
        whole = _chunk(job, document, tools)
        chunking = limits.without_repeats(whole)
    if repeated := len(whole.chunks) - len(chunking.chunks):
        words = quantity(repeated, "chunk")
        lost.append(f"{words} left out: {limits.MOST_REPEATS} before them have the same text")
    if lost:
        document = replace(document, lost=(*document.lost, *lost))
    receipt = Receipt(
        owner.row, item.version, recipe, _facts(item, content), content, reading.parser,
        statistic=tools.statistic if chunking.sums is not None else None,
        sums=chunking.sums, interval=chunking.interval, shortfall=shortfall(document),
    )  # fmt: skip
    return _compose(entry, owner, receipt, document, front, chunking, tools)


def renew_if_same(job: Job, reading: Reading, tools: Tools) -> Prepared | None:
    """Return a new receipt without writes if nothing changed on which the document's records depend.

    Return None if something changed, or if records are in doubt.
    """
    entry = job.entry
    assert entry.item is not None
    if entry.done_version is None or any(known.unsure for known in entry.records):
        return None
    facts, recipe = _facts(entry.item, reading.content), tools.recipe(reading.parser)
    if (entry.facts, entry.done_recipe) != (facts, recipe):
        return None
    if not _holds(entry.sums, entry.interval, job.others, tools):
        return None
    receipt = Receipt(
        entry.row, entry.item.version, recipe, facts, reading.content, reading.parser, entry.records,
        entry.statistic, entry.sums, entry.interval, shortfall=entry.shortfall,
    )  # fmt: skip
    return Prepared(entry, Intent(entry.row, ()), receipt, entry.records)


def _holds(sums: Sums | None, interval: tuple[int, int] | None, others: Sums | None, tools: Tools) -> bool:
    """Return whether a document's cuts are still optimal for the present value of the collection's statistic.

    ``interval``: the values for which the cuts are optimal. ``sums``, ``others``: the statistic's sums over
    this document and over all others.
    """
    if tools.collective is None or sums is None or interval is None:
        return True
    return interval[0] <= tools.collective.value(sums if others is None else sums + others) <= interval[1]


def _facts(item: Item, content: str) -> str:
    return combine(content, item.uri, item.size, item.modified, item.extra)


def _chunk(job: Job, document: Document, tools: Tools) -> Chunking:
    """Chunk a document. Raises BadDocument if there are too many chunks, or if one is too long for Chroma.

    Other documents may change the collection's statistic while this one waits for its vectors. Then it is
    chunked once more, with cached vectors.
    """
    compared, entry = dict[str, None](), job.entry

    def embed(texts: Sequence[str]) -> Vectors:
        compared.update(dict.fromkeys(texts))
        _require_few(len(compared) // _COMPARED, entry, tools)  # before the embedding costs time
        return tools.embed_whole(texts)

    whole = tools.chunker.chunk(document, embed, job.others)
    if job.exchange_sums is not None and whole.sums is not None:
        others = job.exchange_sums(whole.sums)
        if not _holds(whole.sums, whole.interval, others, tools):
            whole = tools.chunker.chunk(document, embed, others)
    _require_few(len(whole.chunks), entry, tools)
    metadata.require_short(whole.chunks, tools.describing.quotas)
    return whole


def _require_few(chunks: int, entry: Entry, tools: Tools) -> None:
    """Raise BadDocument if a document has more chunks than ``max_records``, or more chunks than bytes.

    A small file that expands to many chunks is hostile.
    """
    if entry.size and chunks > max(_FEW, entry.size):
        raise BadDocument(
            f"results in at least {quantity(chunks, 'chunk')} for only {entry.size:,} bytes; exclude it"
        )
    if chunks > tools.max_records:
        raise BadDocument(
            f"results in at least {quantity(chunks, 'chunk')}, but max_records is {tools.max_records:,}: "
            "raise `max_records` and run `ingestor retry --all`, use larger chunks, split the document, or "
            "exclude it"
        )


def withdraw(entry: Entry, receipt: Receipt) -> Prepared:
    """Return the writes that delete all records of a document, whose content cannot be read.

    ``receipt``: the new receipt, which has the failure.
    """
    slots = tuple(known.slot for known in entry.records)
    deletes = tuple(record_id(entry.document_id, slot) for slot in slots)
    return Prepared(entry, Intent(entry.row, slots), receipt, entry.records, deletes=deletes)


def record_id(document: DocumentId, slot: int) -> RecordId:
    return RecordId(f"{document}#{slot}")


def _compose(
    entry: Entry,
    owner: Entry,
    receipt: Receipt,
    document: Document,
    front: Mapping[str, Value],
    chunking: Chunking,
    tools: Tools,
) -> Prepared:
    """Compare chunks with the records of ``owner``, embed the new texts, and return the writes.

    ``owner``: the document itself, or the vanished document whose records it adopts.
    """
    assert entry.item is not None
    chunks, lines = chunking.chunks, contexts(document, chunking.chunks, tools.context)
    texts = texts_to_embed(chunks, lines, tools.exceeds_window) if chunking.vectors is None else []
    vector_keys = _vector_keys(texts, chunking, tools)
    keys = [Keys(text_digest(chunk.text), key) for chunk, key in zip(chunks, vector_keys, strict=True)]
    slots = core_slots.assign(owner.records, keys)
    ids = [record_id(owner.document_id, slot) for slot in slots]
    metas = metadata.build(
        language.identify(document), entry.item, owner.document_id, chunks, ids, lines,
        tokens=tools.count_tokens([chunk.text for chunk in chunks]),
        content_hashes=[key.text for key in keys], recipe=receipt.recipe, how=tools.describing, front=front,
    )  # fmt: skip
    rows = zip(slots, keys, metas, strict=True)
    wanted = tuple(Known(slot, key.text, key.vector, metadata_digest(meta)) for slot, key, meta in rows)
    change = core_slots.delta(owner.records, wanted)
    written = change.add + change.replace
    vectors = vectors_at(written, texts, chunking, tools)
    embedded = list(zip(written, vectors, strict=True))
    records = tuple(Record(ids[at], chunks[at].text, metas[at], vector) for at, vector in embedded)
    # a record that keeps its vector keeps its digest
    digests = {known.slot: known.vector_digest for known in owner.records}
    for at, vector in embedded if chunking.vectors is None else enumerate(chunking.vectors):
        digests[slots[at]] = vector_digest(vector)
    touched = (*(slots[at] for at in (*written, *change.patch)), *change.delete)
    return Prepared(
        entry,
        Intent(owner.row, touched, None if owner is entry else entry.row),
        replace(receipt, records=tuple(replace(k, vector_digest=digests[k.slot]) for k in wanted)),
        owner.records,
        records,
        patches=tuple((ids[at], metas[at]) for at in change.patch),
        deletes=tuple(record_id(owner.document_id, slot) for slot in change.delete),
        added=len(change.add),
        tokens=sample_unknown([each.text for each in records], tools.count_unknown),
    )


def texts_to_embed(
    chunks: Sequence[Chunk], lines: Sequence[Lines], exceeds: ExceedsWindow = never_exceeds
) -> list[str]:
    """Return the texts to embed: each chunk's text after its context lines.

    A text that exceeds the model's window loses context lines, the most general ones first.
    """
    left = dict(enumerate(lines))
    texts = [in_front(before, chunk.text) for before, chunk in zip(lines, chunks, strict=True)]
    while left := {at: before[1:] for at, before in left.items() if before}:
        places = list(left)
        left = {at: left[at] for at in compress(places, exceeds([texts[at] for at in places]))}
        for at, before in left.items():
            texts[at] = in_front(before, chunks[at].text)
    return texts


def _vector_keys(texts: Sequence[str], chunking: Chunking, tools: Tools) -> Sequence[str]:
    """Return for each chunk a digest of everything on which its vector depends: equal keys mean equal
    vectors."""
    if chunking.vectors is not None:
        return [combine(tools.embedder_recipe, digest(vector.tobytes())) for vector in chunking.vectors]
    divided = tools.exceeds_window(texts)
    pairs = zip(map(text_digest, texts), divided, strict=True)
    division = {True: (limits.DIVISION,), False: ()}
    own = [combine(tools.embedder_recipe, text, *division[is_long]) for text, is_long in pairs]
    if not (share := _neighbours(chunking, tools)):
        return own
    return [combine(share, min(i, 2), *own[max(0, i - 2) : i + 3]) for i in range(len(own))]


def vectors_at(positions: Sequence[int], texts: Sequence[str], chunking: Chunking, tools: Tools) -> Vectors:
    """Return the vectors of the chunks at these positions, one row each.

    ``texts``: the texts of all chunks of the document. If a chunk's vector is mixed with those of its
    neighbours, two chunks on either side are embedded, too.
    """
    if chunking.vectors is not None:
        return chunking.vectors[list(positions)]
    share = _neighbours(chunking, tools)
    if not positions or not share:
        return tools.embed_whole([texts[position] for position in positions])
    near = sorted({p for at in positions for p in range(max(0, at - 2), min(len(texts), at + 3))})
    embedded = tools.embed_whole([texts[position] for position in near])
    base = np.zeros((len(texts), embedded.shape[1]), np.float32)
    base[near] = embedded
    mixed: Vectors = mix(base, share)[list(positions)]
    return mixed


def _neighbours(chunking: Chunking, tools: Tools) -> float:
    """Return the weight, from 0 to 1, with which the vectors of neighbouring chunks are mixed into a chunk's
    vector."""
    return tools.neighbours if chunking.neighbours is None else chunking.neighbours
