"""View of the daemon for the service port: what the port may read. Any thread may call every function."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ingestor.chroma.backend import ChromaConnection
from ingestor.engine.embedding import Embeddings
from ingestor.engine.outcomes import WorkCounts
from ingestor.lexical.file import LexicalReaders
from ingestor.search.passages import Count
from ingestor.search.rerankers import Reranker
from ingestor.search.search import Store
from ingestor.state.journal import JournalReader
from ingestor.state.run_status import CheckResult, Live, SyncProgress


@dataclass(frozen=True, slots=True)
class DaemonView:
    """Everything of a running daemon that the service port may read. Numbers are current at each call.

    ``live``: state of the current run. ``stretch``: progress of the current work, counted since the daemon
    last had nothing to do. ``idle``: seconds since the last step of the engine's loop. ``intervals``: seconds
    between two listings, by source.

    ``chroma``: whether Chroma answers and loads, and how often it was restarted. ``collection``: opens a
    collection for reading; its arguments are the UUIDs of the collection's shards.

    ``lexical``: opens the lexical index for reading. ``counts``: numbers of writes and failures since the
    daemon's start. ``stages``: seconds that threads spent in each stage of preparing documents. ``folders``:
    paths of our folders, by name. ``checks``: last results of ``evaluate --check``.
    """

    journal: JournalReader
    embeddings: Embeddings
    live: Callable[[], Live]
    stretch: Callable[[], SyncProgress]
    idle: Callable[[], float]
    intervals: Callable[[], Mapping[str, float]]
    chroma: ChromaConnection
    collection: Callable[[Sequence[str]], Store]
    lexical: LexicalReaders
    count_tokens: Count
    counts: WorkCounts
    stages: Mapping[str, float]
    folders: Mapping[str, Path]
    reranker: Callable[[], Reranker | None]
    checks: Callable[[], list[CheckResult]]

    def close(self) -> None:
        """Close the database connections that this view opened."""
        self.journal.close()
        self.lexical.close()
