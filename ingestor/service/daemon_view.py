"""View of the daemon for the service port. Every function may be called from any thread."""

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
    """View of a running daemon, for the service port. ``live``, ``stretch``: latest progress.

    ``idle``: seconds since the last turn of the engine's loop. ``intervals``: seconds between two listings,
    by source. ``chroma_answers``: whether Chroma answers within a number of seconds. ``chroma_loads``:
    whether Chroma still loads one of these collections (UUIDs), within a number of seconds.
    ``chroma_restarts``: restarts of our server since the start. ``collection``: opens a collection for
    reading, by the UUIDs of its shards. ``lexical``: readers of the lexical index. ``folders``: our folders
    by name. ``checks``: last results of ``evaluate --check``. ``counts``: counts since the start. ``stages``:
    seconds in each stage.
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
