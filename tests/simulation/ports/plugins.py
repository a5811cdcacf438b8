"""Parsers, chunkers, embedders and caches of the simulated world; each plugin finds its world by a number.

The number is an option that tunes, so it is in no recipe, and stored recipes are reproduced in today's world.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from threading import Event
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import numpy as np

from ingestor.core.document_json import Parsed
from ingestor.core.fingerprint import text_digest
from ingestor.engine.vectors import HARMLESS
from ingestor.model import (
    Answered,
    Blob,
    Chunk,
    Chunking,
    Digest,
    Document,
    Fingerprint,
    ReaderModel,
    SourceName,
    Sums,
    Vector,
    Vectors,
)
from ingestor.parsers.text import PLUGIN as TEXT
from ingestor.ports import BadDocument, Embed, NeedsHuman, Transient
from ingestor.registry import Options, Plugin, UnknownKind, tuning
from ingestor.state.cache import Parses, VectorCache
from tests.simulation.ports.chaos import Chaos
from tests.simulation.ports.files import Files

if TYPE_CHECKING:
    from tests.simulation.world import World


class Parsing:
    """The parser for text, which fails at times."""

    def __init__(self, world: "World") -> None:
        self._world = world

    def parse(self, blob: Blob) -> Document:
        self._world.chaos.fault("parse")
        if self._world.files.parser_broken:
            raise BadDocument("the parser takes nothing any more")
        document: Document = TEXT.build(TEXT.options()).parse(blob)
        return document


_WORD = text_digest(HARMLESS)


class Remembered(Parses):
    """The real memory of parsed documents, which forgets, and in which the process dies."""

    def __init__(self, cache: VectorCache, chaos: Chaos) -> None:
        super().__init__(cache)
        self.chaos = chaos

    def find(self, source: SourceName, key: str, stamp: str) -> Parsed | None:
        if self.chaos.random.random() < 0.2:
            self.forget(source, key)
        return super().find(source, key, stamp)

    def keep(self, source: SourceName, key: str, stamp: str, parsed: Parsed) -> None:
        self.chaos.point("keep")
        super().keep(source, key, stamp, parsed)


class Forgetful(VectorCache):
    """The real cache, in which half of the vectors are gone when they are asked for.

    It keeps the word by which a server's model is recognised: whoever deletes it as well is believed.
    """

    def __init__(self, path: Path, size: int, chaos: Chaos) -> None:
        super().__init__(path, size)
        self.chaos = chaos
        self._db.execute("PRAGMA synchronous = OFF")

    def get(self, embedder: Fingerprint, digests: Sequence[Digest]) -> dict[Digest, Vector]:
        kept = [each for each in digests if each == _WORD or self.chaos.remembers(each)]
        return super().get(embedder, kept)


class Lines:
    """One chunk a line; the smallest chunker there is."""

    def __init__(self, per_chunk: int = 1) -> None:
        self.per_chunk = per_chunk

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        spans = line_spans(document.text, self.per_chunk)
        return Chunking(tuple(Chunk(start, end, document.text[start:end]) for start, end in spans))


class Fickle(Lines):
    """Its cuts depend on the mean line length of the whole collection: one chunk a line, or two."""

    statistic = "mean line length"

    def value(self, total: Sums) -> int:
        return int(total[1] // max(1, total[0]))

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        lines = [line for line in document.text.split("\n") if line]
        sums = np.array([len(lines), sum(map(len, lines))], np.int64)
        pivot = 3 + len(lines) % 5  # documents differ in where they change
        small = self.value(sums if others is None else sums + others) < pivot
        spans = line_spans(document.text, 1 if small else 2)
        chunks = tuple(Chunk(start, end, document.text[start:end]) for start, end in spans)
        return Chunking(chunks, None, sums, (0, pivot - 1) if small else (pivot, 10**9))


def line_spans(text: str, per_chunk: int) -> list[tuple[int, int]]:
    spans, start = [], 0
    for line in text.split("\n"):
        if line:
            spans.append((start, start + len(line)))
        start += len(line) + 1
    groups = [spans[i : i + per_chunk] for i in range(0, len(spans), per_chunk)]
    return [(group[0][0], group[-1][1]) for group in groups]


@cache
def vector(text: str, recipe: str) -> np.ndarray:
    seed = int(text_digest(recipe + text)[:8], 16)
    found = np.random.default_rng(seed).standard_normal(4).astype(np.float32)
    found /= np.linalg.norm(found)
    found.flags.writeable = False
    return found


IDS = Random()  # of documents; each world seeds it
WORLDS: WeakValueDictionary[int, "World"] = WeakValueDictionary()


class InWorld(Options):
    world: int = tuning(0)


class Place(InWorld):
    root: str = "/root"


class LinesOptions(InWorld):
    per_chunk: int = 1


class Flavour(InWorld):
    flavour: str = "sweet"


class Address(Flavour):
    """Where a server embeds. ``revision``: another word has everything embedded again."""

    revision: int = 0
    key: str = tuning("secret")


class Flavoured:
    """An embedder that dies and fails at any text."""

    window = 2**31 - 1
    dimensions = 4

    def __init__(self, options: Flavour) -> None:
        self._flavour, self._world = options.flavour, WORLDS[options.world]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """What befalls a text befalls it again when the same document asks again."""
        self._require_key()
        for text in texts if texts != [HARMLESS] else ():
            self._world.embed(text)
        return np.array([vector(text, self._flavour) for text in texts], np.float32).reshape(-1, 4)

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text) for text in texts]

    def reader_model(self) -> ReaderModel:
        return ReaderModel("sentence_transformer", {"model_name": self._flavour})

    def _require_key(self) -> None:
        if self._flavour in self._world.refused:
            raise NeedsHuman(f"the key for {self._flavour} is refused")


class Served(Flavoured):
    """An embedder at a server, which is away at times, and whose model is another one at times."""

    at_once = 16

    def __init__(self, options: Address) -> None:
        super().__init__(options)

    def embed(self, texts: Sequence[str]) -> Vectors:
        answered = self.embed_each(texts, Event())
        for each in answered.vectors:
            if isinstance(each, Exception):
                raise each
        return np.array(answered.vectors, np.float32).reshape(-1, 4)

    def embed_each(self, texts: Sequence[str], stop: Event) -> Answered:
        self._require_key()
        if self._world.server_away:
            return Answered([Transient("the embedding server is away")] * len(texts), 0)
        return Answered([self._vector(text) for text in texts], sum(map(len, texts)))

    def _vector(self, text: str) -> Vector | Exception:
        try:
            if text != HARMLESS:
                self._world.embed(text)
        except Exception as error:  # noqa: BLE001 - whatever was injected befell this text alone
            return error
        return vector(text, self._world.server_model or self._flavour)


def connector(options: Place) -> Files:
    world = WORLDS[options.world]
    return next(each for each in (*world.places.values(), *world.apart) if each.root == options.root)


CONNECTOR = Plugin("simulated", 1, Place, connector)
EMBEDDER = Plugin("plain", 1, Flavour, Flavoured)
SERVED = Plugin("served", 1, Address, Served)
LINES = Plugin("lines", 1, LinesOptions, lambda options, tokens: Lines(options.per_chunk))
FICKLE = Plugin("fickle", 1, LinesOptions, lambda options, tokens: Fickle())


class ParsingInWorld:
    """Builds the parser of a world, which runs in the world's process: another one has no worlds."""

    isolated = False

    def __call__(self, options: InWorld) -> Parsing:
        return Parsing(WORLDS[options.world])


def parser(version: int) -> Plugin:
    return Plugin("text", version, InWorld, ParsingInWorld())


_KNOWN = {"connectors": [CONNECTOR], "parsers": [parser(0)], "chunkers": [LINES, FICKLE],
          "embedders": [EMBEDDER, SERVED]}  # fmt: skip


def find(group: str, kind: str) -> Plugin:
    """As registry.find. The parser is of no version that a world ever had: only its own one can be made."""
    for plugin in _KNOWN[group]:
        if plugin.kind == kind:
            return plugin
    raise UnknownKind(kind)


def token_hex(size: int) -> str:
    return IDS.randbytes(size).hex()


def kinds(group: str) -> tuple[str, ...]:
    return tuple(plugin.kind for plugin in _KNOWN[group])
