"""Work of a process on a node: prepare one document at a time, ask for vectors meanwhile, and embed.

The same function as everywhere prepares the document, on a thread of its own. So its records are the same,
bit for bit. When it needs vectors, the thread waits, and the question is the process's answer.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any

import numpy as np

from ingestor.core.document_json import Parsed
from ingestor.core.interruptions import Stopped
from ingestor.model import Blob, Fingerprint, Item, SourceName, Vectors
from ingestor.nodes.facts import MODEL, recipes_of, require_same
from ingestor.nodes.messages import (
    Done,
    FailedCall,
    Keep,
    LogLine,
    Task,
    TaskAnswer,
    WantedVectors,
    failed_call,
    pack,
    unpack,
)
from ingestor.pipeline.limits import StageTimes
from ingestor.pipeline.prepare import Tools, prepare
from ingestor.ports import Embedder

log = logging.getLogger("ingestor")

ToolsOf = Callable[[bytes], Tools]
EmbedderOf = Callable[[bytes], tuple[Embedder, Fingerprint]]  # and its recipe


class Workshop:
    """Prepares and embeds. Methods are called one after another; ``embed`` also while a document waits.

    ``tools_of``, ``embedder_of``: make what a packed setup describes.
    """

    def __init__(self, tools_of: ToolsOf, embedder_of: EmbedderOf) -> None:
        self._tools_of, self._embedder_of = tools_of, embedder_of
        self._tools: dict[str, Tools] = {}
        self._embedders: dict[str, Embedder] = {}
        self._document: _Document | None = None

    def learn(self, setup: str, packed: bytes, recipes: bytes) -> bytes:
        """Make the tools of a setup, or the embedder if the recipes name nothing but a model.

        What is made must have these recipes. Returns nothing, or a packed ``FailedCall``.
        """
        ours = unpack(recipes)
        try:
            if ours.keys() == {MODEL}:
                embedder, recipe = self._embedder_of(packed)
                require_same(ours, {MODEL: recipe}, "the model or the processor differs")
                self._embedders[setup] = embedder
            else:
                tools = self._tools_of(packed)
                require_same(ours, recipes_of(tools), "the config or a package differs")
                self._tools[setup] = tools
        except BaseException as error:  # noqa: BLE001 - who asked decides what it means
            return pack(failed_call(error))
        return b""

    def embed(self, setup: str, packed: bytes) -> bytes:
        """Return vectors of packed texts, or a ``FailedCall``, packed."""
        try:
            return pack(self._embedders[setup].embed(unpack(packed)))
        except BaseException as error:  # noqa: BLE001 - who asked decides what it means
            return pack(failed_call(error))

    def begin(self, packed: bytes) -> bytes:
        """Begin a packed task; one that was begun before and abandoned ends. Returns a packed TaskAnswer."""
        if self._document is not None:
            self._document.abandon()
        task: Task = unpack(packed)
        self._document = _Document(task, self._tools[task.setup])
        return self._next()

    def resume(self, packed: bytes) -> bytes:
        """Go on with a packed ``Reply``."""
        assert self._document is not None
        self._document.tell(unpack(packed))
        return self._next()

    def _next(self) -> bytes:
        assert self._document is not None
        answer = self._document.next()
        if not isinstance(answer, WantedVectors):
            self._document = None
        return pack(answer)


class _Document:
    """Document that is prepared on a thread of its own."""

    def __init__(self, task: Task, tools: Tools) -> None:
        self._answers: SimpleQueue[TaskAnswer] = SimpleQueue()
        self._replies: SimpleQueue[Any] = SimpleQueue()
        self._thread = Thread(target=self._prepare, args=(task, tools), name="document", daemon=True)
        self._thread.start()

    def next(self) -> TaskAnswer:
        return self._answers.get()

    def tell(self, reply: Any) -> None:
        self._replies.put(reply)

    def abandon(self) -> None:
        self.tell(failed_call(Stopped()))
        self._thread.join()

    def _prepare(self, task: Task, tools: Tools) -> None:
        times, kept, lines = StageTimes(), list[Keep](), _Lines()
        log.addHandler(lines)
        try:
            ours = replace(tools, embed=self._embed, times=times, reader=_reader(task, tools, kept))
            prepared = prepare(task.job, ours, lambda edition, content: task.predecessor)
            self._answers.put(Done(prepared, kept, tuple(times.seconds.items()), lines.seen))
        except BaseException as error:  # noqa: BLE001 - it is the answer
            self._answers.put(failed_call(error, lines.seen))
        finally:
            log.removeHandler(lines)

    def _embed(self, texts: Sequence[str]) -> Vectors:
        self._answers.put(WantedVectors(list(texts)))
        reply = self._replies.get()
        if isinstance(reply, FailedCall):
            raise reply.error("the head")
        vectors: Vectors = np.asarray(reply, np.float32)
        return vectors


class _Lines(logging.Handler):
    """Handler that keeps log lines for the daemon: other users may read the log of this process."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.seen: list[LogLine] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(LogLine(record.levelno, record.getMessage()))


class _Carried:
    """Parsed document that came with a task; documents to keep go back with the answer."""

    def __init__(self, parsed: Parsed | None, kept: list[Keep]) -> None:
        self._parsed, self._kept = parsed, kept

    def find(self, source: SourceName, key: str, stamp: str) -> Parsed | None:
        del source, key, stamp
        return self._parsed

    def keep(self, source: SourceName, key: str, stamp: str, parsed: Parsed) -> None:
        self._kept.append(Keep(source, key, stamp, parsed))


def _reader(task: Task, tools: Tools, kept: list[Keep]) -> Any:
    reader = replace(tools.reader, memory=_Carried(task.parsed, kept))
    return reader if task.blob is None else replace(reader, fetch=partial(_keep_blob, task.blob))


def _keep_blob(blob: Blob, item: Item) -> Blob:
    del item
    return blob
