"""Tools that a process on a node can make by itself, and processes that are threads of the test."""

import logging
import os
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import numpy as np

from ingestor.core.entries import EditionName, Entry
from ingestor.core.errors import Stopped
from ingestor.model import Blob, Document, DocumentId, Fingerprint, Item, SourceName, Vectors
from ingestor.nodes.deaths import Cause, ProcessLost
from ingestor.nodes.messages import Mismatch, Started, pack
from ingestor.nodes.setup import Setup, recipes_of
from ingestor.nodes.work import prepare_document
from ingestor.pipeline.metadata import Describing
from ingestor.pipeline.prepare import Reader, Tools
from ingestor.ports import BadDocument, Embedder, Later, NeedsHuman, Parser, Stale, Transient
from ingestor.registry import find
from ingestor.text.tokens import Tokens

SOURCE, EDITION = SourceName("notes"), EditionName("docs")
DIMENSIONS = 16
TOKENS = Tokens()
TEXT = "\n\n".join(
    f"# Part {part}\n\n"
    + " ".join(
        f"Sentence {number} of part {part} speaks of {('rain', 'sun')[part % 2]}." for number in range(9)
    )
    for part in range(4)
)
ERRORS: dict[str, Callable[[], Exception]] = {
    "bad": lambda: BadDocument("cannot be read: it is empty"),
    "away": lambda: Transient("the server is away"),
    "later": lambda: Later("the server said so", 7.5),
    "stale": lambda: Stale("changed since"),
    "person": lambda: NeedsHuman("log in again"),
    "defect": lambda: ValueError("not so", 3),
    "odd": lambda: Odd(lambda: None),
}


class Odd(Exception):
    """An error that cannot be packed."""

    def __str__(self) -> str:
        return "an odd one"


@dataclass(frozen=True)
class Marked:
    """A parser that does to its process what a document says."""

    parser: Parser

    def parse(self, blob: Blob) -> Document:
        word = blob.data.decode().split(":")
        if word[0] == "raise":
            raise ERRORS[word[1]]()
        if word[0] == "huge":
            return self.parser.parse(Blob(TEXT.encode(), blob.name))
        if word[0] == "say":
            logging.getLogger("ingestor").info("a word of the parser")
        if word[0] == "exit":
            os._exit(3)
        if word[0] == "once" and not Path(word[1]).exists():
            Path(word[1]).touch()
            os._exit(4)
        return self.parser.parse(blob)


@dataclass
class Texts:
    """Documents by key."""

    texts: dict[str, str] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)

    def fetch(self, item: Item) -> Blob:
        self.fetched.append(item.key)
        text = self.texts[item.key]
        if text.startswith("fetch:"):
            raise ERRORS[text.split(":")[1]]()
        return Blob(text.encode(), item.key)


def embed(texts: Sequence[str]) -> Vectors:
    for text in texts:
        if "unembeddable" in text:
            raise BadDocument("the model cannot take it")
    return embedder_of(b"")[0].embed(texts)


def never(texts: Sequence[str]) -> Vectors:
    raise AssertionError("a process has no model")


def packed(strategy: str) -> bytes:
    return pickle.dumps(strategy)


def tools_of(setup: bytes) -> Tools:
    """As a process makes them: without documents and vectors."""
    return tools(pickle.loads(setup), Texts(), never)


def tools(strategy: str, texts: Texts, vectors: Callable[[Sequence[str]], Vectors] = embed) -> Tools:
    parser, chunker = find("parsers", "text"), find("chunkers", strategy)
    reader = Reader(
        SOURCE, texts.fetch, {"text": Marked(parser.build(parser.options()))}, {"text": Fingerprint("text")}
    )
    return Tools(
        reader, chunker.build(chunker.options(), TOKENS), Fingerprint(strategy),
        Describing(SOURCE, strategy),
        vectors, Fingerprint("hashing"), TOKENS.counts,
    )  # fmt: skip


def embedder_of(setup: bytes) -> tuple[Embedder, Fingerprint]:
    """As a process makes it."""
    embedder = find("embedders", "hashing")
    options = embedder.options.model_validate({"dimensions": DIMENSIONS})
    return embedder.build(options), Fingerprint("hashing")


def setup(strategy: str) -> Setup:
    return Setup(strategy, packed(strategy), recipes_of(tools(strategy, Texts())))


def entry(key: str, row: int = 1) -> Entry:
    item = Item(key, "1", f"/{key}", None)
    return Entry(row, DocumentId(f"d{row}"), SOURCE, EDITION, key, item, None, None, None, None, None, 0)


_END = b"end"


class LocalDocument:
    """A document on a thread of the test. A text that would end its process ends the talk with it."""

    node = ""

    def __init__(self, run: Callable[[Callable[[bytes], bytes]], bytes], death: ProcessLost | None) -> None:
        self._messages, self._replies = SimpleQueue[bytes](), SimpleQueue[bytes]()
        self._death = death

        def ask(question: bytes) -> bytes:
            self._messages.put(question)
            if (reply := self._replies.get()) == _END:
                raise Stopped
            return reply

        if death is None:
            Thread(target=lambda: self._messages.put(run(ask)), daemon=True).start()

    def next(self) -> bytes:
        if self._death is not None:
            raise self._death
        return self._messages.get()

    def start(self, started: Started) -> None:
        self.node = started.node
        self.reply(b"")

    def reply(self, packed: bytes) -> None:
        self._replies.put(packed)

    def close(self) -> None:
        self.reply(_END)


class LocalNodes:
    """See documents.Nodes. ``refusals``: nodes that refuse before one fits."""

    def __init__(self, node: str = "here", cause: Cause = "crash", refusals: int = 0) -> None:
        self._here, self._cause, self._refusals = Started(node, node), cause, refusals
        self.again: list[bool] = []  # by document

    def work(self, setup: Setup, task: bytes, *, again: bool) -> LocalDocument:
        self.again.append(again)
        if self._refusals:
            refused = pack(Mismatch(self._here.node_id, self._here.node, "no plugin `wiki`"))
            return LocalDocument(lambda ask: refused, None)
        death = ProcessLost(self._cause, "exit status 3", self._here.node) if b"exit:" in task else None
        return LocalDocument(partial(prepare_document, tools_of, setup, task, here=self._here), death)

    def refuse(self, refused: Mismatch) -> NeedsHuman | None:
        self._refusals -= 1
        return None if self._refusals else NeedsHuman(f"node {refused.node}: {refused.problem}")


def plain(value: object) -> object:
    """Values that can be compared bit for bit."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value
