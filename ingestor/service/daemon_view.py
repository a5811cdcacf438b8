"""View of the daemon for the service port: what the port may read. Any thread may call every function."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ingestor.engine.embedding import Embeddings
from ingestor.lexical.file import LexicalReaders
from ingestor.pipeline.actions import WorkCounts
from ingestor.search.passages import Count
from ingestor.search.rerankers import Reranker
from ingestor.search.search import Store
from ingestor.state.journal import JournalReader
from ingestor.state.run_status import CheckResult, Live, SyncProgress


@dataclass(frozen=True, slots=True)
class DaemonView:
    """Readers and figures of a running daemon.

    ``live``: state of the run. ``stretch``: progress of the work since the last rest. ``idle``: seconds since
    the last step of the engine's loop. ``intervals``: seconds between two listings, by source.

    ``chroma_answers``: returns whether Chroma answers within a number of seconds. ``chroma_loads``: returns
    whether Chroma still loads one of these collections (UUIDs); takes a number of seconds, too.
    ``chroma_restarts``: restarts of our Chroma server since the daemon's start. ``collection``: opens a
    collection for reading, by the UUIDs of its shards.

    ``lexical``: opens the lexical index for reading. ``counts``: writes and failures since the start.
    ``stages``: seconds that threads spent in each stage. ``folders``: our folders by name. ``checks``: last
    results of ``evaluate --check``.
    """

    journal: JournalReader
    embeddings: Embeddings
    live: Callable[[], Live]
    stretch: Callable[[], SyncProgress]
    idle: Callable[[], float]
    intervals: Callable[[], Mapping[str, float]]
    chroma_answers: Callable[[float], bool]
    chroma_loads: Callable[[Iterable[str], float], bool]
    chroma_restarts: Callable[[], int]
    collection: Callable[[Sequence[str]], Store]
    lexical: LexicalReaders
    count_tokens: Count
    counts: Callable[[], WorkCounts]
    stages: Callable[[], Mapping[str, float]]
    folders: Mapping[str, Path]
    reranker: Callable[[], Reranker | None]
    checks: Callable[[], list[CheckResult]]

    def close(self) -> None:
        """Close the readers that this view opened."""
        self.journal.close()
        self.lexical.close()
