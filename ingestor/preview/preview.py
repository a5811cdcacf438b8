"""Cuts a file by strategies to show the chunks, without a source, a journal or Chroma.

Nothing is stored, except answers of language models in an existing cache, so that no request is sent twice.

A document is cut as if it were the only one of its collection. Chunks have the metadata that their records
would have, except the recipe, ids, and keys that contain ids.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from os.path import normpath
from pathlib import Path
from time import perf_counter

import numpy as np
import numpy.typing as npt

from ingestor.app.parts import build, parser
from ingestor.chunkers.by_type import Looking, build_chunker
from ingestor.chunkers.parts import Seen
from ingestor.config.check import Filtered
from ingestor.config.models import DEFAULT_EMBEDDER, DEFAULT_STRATEGY, Choice, Config
from ingestor.core.fingerprint import text_digest
from ingestor.llm.answers import CachedAnswers
from ingestor.llm.client import Answers, Asking, DirectAnswers
from ingestor.model import Blob, Chunk, Document, DocumentId, Item, Metadata, RecordId, SourceName, Vectors
from ingestor.parsers.shared import detect
from ingestor.pipeline import metadata
from ingestor.pipeline.language import identify
from ingestor.ports import BadDocument, Chunker, Embedder
from ingestor.registry import Group, find
from ingestor.sandbox.pool import Isolation
from ingestor.sandbox.process import Limits
from ingestor.state.cache import VectorCache
from ingestor.state.files import cache_path
from ingestor.text.context import contexts
from ingestor.text.tokens import Tokens

Vector = npt.NDArray[np.float32]  # shape (dimensions,)
_LANGUAGE_SECONDS = 10  # processor time for a file whose language is identified

NAMED_BY_THE_INDEX = (
    "source_name", "document_id", "doc_id", "ref_doc_id", "relationships", "_node_content", "recipe",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Setting:
    """Settings with which a file is parsed, cut and embedded."""

    embedding: Choice
    chunking: Choice
    parsing: tuple[Choice, ...] = ()
    types: detect.Types = ()


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """Chunks into which a strategy cuts a document, and the time that this takes.

    The time is measured as if no other strategy had embedded the same texts before. ``seen``: the units and
    vectors that the strategy compared; None if not requested.
    """

    choice: Choice
    chunks: tuple[Chunk, ...]
    metadata: Sequence[Metadata]
    tokens: Sequence[int]
    seconds: float  # with embedding, without loading the model
    embedding: float  # seconds
    seen: Seen | None = None

    @property
    def strategy(self) -> str:
        return self.choice.plugin.kind


def setting(file: Path, config: Config | None) -> Setting:
    """Return the settings for a file.

    These are the settings of the source that would index the file. Without such a source they are those of
    the config's top level, and without a config the defaults.
    """
    if config is None:
        return Setting(_default("embedders", DEFAULT_EMBEDDER), _default("chunkers", DEFAULT_STRATEGY))
    for source in config.sources:
        options = source.connector.options
        if isinstance(options, Filtered) and options.takes(_absolute(file)):
            return Setting(config.embedding, source.chunking, source.parsing, source.types)
    return Setting(config.embedding, config.chunking, types=tuple(config.parsing.types.items()))


def read(
    file: Path, parsing: Iterable[Choice], config: Config | None = None, types: detect.Types = ()
) -> Document:
    """Parse a file as a sync would, within the limits of the config. Raises BadDocument, and OSError."""
    limits = Limits(processes=1)
    if config is not None:
        limits = replace(limits, memory=config.parsing.memory, seconds=config.parsing.seconds)
    with closing(Isolation(limits)) as isolation:
        try:
            return _parse(file, parsing, types, isolation)
        except BadDocument as error:
            no_config = config is None and "raise parsing." in str(error)
            where = " (in a config, named with --config: there is none here)" if no_config else ""
            raise BadDocument(f"{file}: {error}{where}") from error


def languages(files: Iterable[Path]) -> Counter[str]:
    """Count the files by the language of their prose.

    Files that cannot be parsed, and files whose language is unclear, are not counted.
    """
    counts = Counter[str]()
    with closing(Isolation(Limits(seconds=_LANGUAGE_SECONDS, processes=1))) as isolation:
        for file in files:
            with suppress(BadDocument, OSError):
                if language := identify(_parse(file, (), (), isolation)).language:
                    counts[language.partition("-")[0].lower()] += 1
    return counts


def _parse(file: Path, parsing: Iterable[Choice], types: detect.Types, isolation: Isolation) -> Document:
    blob = detect.with_type(Blob(file.read_bytes(), file.name), file.as_posix(), types)
    kind = detect.parser_of(blob)
    chosen = {choice.plugin.kind: choice for choice in parsing}
    return parser(chosen.get(kind) or _default("parsers", kind), isolation).parse(blob)


def cut(file: Path, document: Document, choice: Choice, reading: "CountedEmbedding", look: bool) -> Cut:
    """Cut a document by a strategy, and measure the time.

    ``look``: whether to return also the units and vectors that the strategy compares. The time for that is
    not measured.
    """
    tokens = reading.tokens
    chunker: Chunker = build_chunker(choice.plugin, choice.options, tokens)
    if isinstance(chunker, Asking):
        chunker = chunker.through(reading.answers)
    reading.begin()
    begun = perf_counter()
    chunks = chunker.chunk(document, reading.embed, None).chunks
    cutting = perf_counter() - begun - reading.waited
    embedding = reading.alone
    counts = tokens.counts([chunk.text for chunk in chunks])
    return Cut(
        choice,
        chunks,
        _metadata(file, document, chunks, counts, choice),
        counts,
        cutting + embedding,
        embedding,
        chunker.look(document, reading.embed) if look and chunks and isinstance(chunker, Looking) else None,
    )


@contextmanager
def answers(config: Config | None) -> Iterator[Answers]:
    """Open the cache with answers of language models.

    If there is no such cache, none is created, and every request is sent.
    """
    if config is None or not cache_path(config).exists():
        yield DirectAnswers()
        return
    with closing(VectorCache(cache_path(config), config.cache_size)) as cache:
        yield CachedAnswers(cache)


class CountedEmbedding:
    """Embedder that embeds each text only once, although several strategies use it.

    The time of each strategy is measured as if it had embedded its texts alone. ``answers``: answers requests
    of strategies to language models.
    """

    def __init__(self, embedding: Choice, answers: Answers) -> None:
        self.answers = answers
        self.tokens = Tokens()
        self.tokens.count(".")  # loads the encoding
        self.waited = 0.0  # seconds since ``begin``
        self._embedding = embedding
        self._vectors: dict[str, Vector] = {}
        self._took: dict[str, float] = {}
        self._asked: set[str] = set()

    def begin(self) -> None:
        """Start to measure another strategy."""
        self.waited = 0.0
        self._asked = set()

    @property
    def alone(self) -> float:
        """Return the seconds in which all texts since ``begin`` were embedded.

        If a text was embedded for an earlier strategy, the seconds that it took then are counted.
        """
        return sum(self._took[text] for text in self._asked)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed texts, and measure the time. Texts that were embedded before are not embedded again."""
        begun = perf_counter()
        if new := [text for text in dict.fromkeys(texts) if text not in self._vectors]:
            model, started = self._embedder, perf_counter()
            self._vectors |= zip(new, model.embed(new), strict=True)
            each = (perf_counter() - started) / sum(map(len, new))
            self._took |= {text: each * len(text) for text in new}
        self._asked.update(texts)
        rows = [self._vectors[text] for text in texts]
        self.waited += perf_counter() - begun
        return np.array(rows, np.float32).reshape(-1, self._embedder.dimensions)

    @cached_property
    def _embedder(self) -> Embedder:
        embedder: Embedder = build(self._embedding)
        embedder.embed(["."])  # loads the model
        return embedder


def _absolute(file: Path) -> Path:
    return Path(normpath(file.absolute()))


def _default(group: Group, kind: str) -> Choice:
    plugin = find(group, kind)
    return Choice(plugin, plugin.options())


def _metadata(
    file: Path, document: Document, chunks: Sequence[Chunk], counts: Sequence[int], choice: Choice
) -> list[Metadata]:
    about = file.stat()
    item = Item(file.name, "", str(_absolute(file)), about.st_size, about.st_mtime)
    nobody = DocumentId("")
    rows = metadata.build(
        identify(document), item, nobody, chunks, [RecordId("")] * len(chunks),
        contexts(document, chunks, getattr(choice.options, "context", "none")),
        tokens=counts, content_hashes=[text_digest(chunk.text) for chunk in chunks], recipe="",
        how=metadata.Describing(SourceName(""), choice.plugin.kind),
    )  # fmt: skip
    return [{key: row[key] for key in row if key not in NAMED_BY_THE_INDEX} for row in rows]
