"""View of the daemon for the service port. Every function may be called from any thread."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ingestor.engine.vectors.embedding import Embeddings
from ingestor.lexical.file import LexicalReaders
from ingestor.pipeline.actions import WorkCounts
from ingestor.search.passages import Count
from ingestor.search.rerankers import Reranker
from ingestor.search.search import Store
from ingestor.state.journal import JournalReader
from ingestor.state.run_status import CheckResult, Live, SyncProgress


@dataclass(frozen=True, slots=True)
class DaemonView:
    """``live``, ``stretch``: the progress as last noted.

    ``idle``: seconds since the engine's loop last turned. ``intervals``: by source, seconds between two
    listings. ``chroma_answers``: whether it does within so many seconds. ``chroma_loads``: whether it still
    loads one of these collections, by their UUIDs, which is asked for so many seconds. ``chroma_restarts``:
    of our server, since the start. ``collection``: by the UUIDs of its shards, for reading. ``lexical``: the
    file of the lexical index. ``folders``: what we keep, by its name. ``checks``: the last results of
    ``evaluate --check``. ``counts``: since the start. ``stages``: seconds spent in each.
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
        """Close the readers that were opened for this view alone."""
        self.journal.close()
        self.lexical.close()
