"""Work of processes on nodes, without Ray: preparing a document, and embedding texts.

Documents are prepared by the same function as in the daemon, so that their records are equal, bit for bit.
Vectors are requested from the daemon.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ingestor.core.document_json import Parsed
from ingestor.model import SourceName, Vectors
from ingestor.nodes.messages import (
    Done,
    LogLine,
    Mismatch,
    Started,
    Task,
    WantedVectors,
    failure_of,
    pack,
    unpack,
)
from ingestor.nodes.setup import EmbedderOf, Setup, ToolsOf, make_embedder, make_tools
from ingestor.pipeline.limits import StageTimes
from ingestor.pipeline.prepare import Tools, prepare
from ingestor.ports import Embedder, NeedsHuman

log = logging.getLogger("ingestor")

_tools: dict[str, Tools] = {}  # tools of this process, by key of their setup


def prepare_document(
    tools_of: ToolsOf, setup: Setup, task: bytes, ask: Callable[[bytes], bytes], here: Started
) -> bytes:
    """Prepare the document of a packed task. Return a packed Done, FailedCall or Mismatch.

    ``ask``: sends a message to the daemon and returns the reply. ``here``: report that names this node.
    """
    lines = _Lines()
    log.addHandler(lines)
    try:
        if setup.key not in _tools:
            try:
                _tools[setup.key] = make_tools(tools_of, setup)
            except NeedsHuman as error:
                return pack(Mismatch(here.node_id, here.node, str(error)))
        ask(pack(here))
        return pack(_prepare(unpack(task), _tools[setup.key], ask, lines.seen))
    except BaseException as error:  # noqa: BLE001 - the daemon decides what it means
        return pack(failure_of(error, lines.seen))
    finally:
        log.removeHandler(lines)


def _prepare(task: Task, tools: Tools, ask: Callable[[bytes], bytes], lines: Sequence[LogLine]) -> Done:
    times, memory = StageTimes(), _TaskMemory(task.parsed)

    def embed(texts: Sequence[str]) -> Vectors:
        vectors: Vectors = np.asarray(unpack(ask(pack(WantedVectors(list(texts))))), np.float32)
        return vectors

    reader = replace(tools.reader, memory=memory)
    if (blob := task.blob) is not None:
        reader = replace(reader, fetch=lambda item: blob)
    tools = replace(tools, embed=embed, times=times, reader=reader)
    prepared = prepare(task.job, tools, lambda edition, content: task.predecessor)
    return Done(prepared, memory.fresh if task.keeps else None, tuple(times.seconds.items()), lines)


def check_setups(tools_of: ToolsOf, setups: Sequence[Setup]) -> str | None:
    """Build the tools of all setups in this process. Return the reason if that fails, else None."""
    try:
        for setup in setups:
            _tools[setup.key] = make_tools(tools_of, setup)
    except Exception as error:  # noqa: BLE001 - a message for people
        return str(error)
    return None


class EmbeddingProcess:
    """Actor of Ray: a process on a node that embeds texts with one model.

    ``here``: a function that describes the node and the process (Started).
    """

    def __init__(self, embedder_of: EmbedderOf, setup: Setup, here: Callable[[], Started]) -> None:
        self._embedder_of, self._setup, self._here = embedder_of, setup, here
        self._embedder: Embedder

    def start(self) -> bytes:
        """Load the model. Return a packed Started, Mismatch or FailedCall; raise nothing."""
        here = self._here()
        try:
            self._embedder = make_embedder(self._embedder_of, self._setup)
        except NeedsHuman as error:
            return pack(Mismatch(here.node_id, here.node, str(error)))
        except BaseException as error:  # noqa: BLE001 - the daemon decides what it means
            return pack(failure_of(error))
        return pack(here)

    def embed(self, texts: bytes) -> bytes:
        """Embed packed texts. Return packed vectors, or a packed FailedCall; raise nothing."""
        try:
            return pack(self._embedder.embed(unpack(texts)))
        except BaseException as error:  # noqa: BLE001 - the daemon decides what it means
            return pack(failure_of(error))


class _Lines(logging.Handler):
    """Log handler that collects messages, so that the daemon logs them instead of this process.

    The log of the node may be read by other people.
    """

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.seen: list[LogLine] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(LogLine(record.levelno, record.getMessage()))


class _TaskMemory:
    """Stands for the daemon's cache of parsed documents during one task.

    Reading returns the document of the task, if the daemon sent it parsed. ``fresh``: the document, if this
    process parsed it.
    """

    def __init__(self, parsed: Parsed | None) -> None:
        self._parsed = parsed
        self.fresh: Parsed | None = None

    def find(self, source: SourceName, key: str, stamp: str) -> Parsed | None:
        del source, key, stamp
        return self._parsed

    def keep(self, source: SourceName, key: str, stamp: str, parsed: Parsed) -> None:
        del source, key, stamp
        self.fresh = parsed
