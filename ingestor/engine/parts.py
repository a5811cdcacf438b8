"""The parts that the engine's classes share, and what the shell gives to an engine."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ingestor.engine.edition_store import EditionStore
from ingestor.engine.flight import BATCH
from ingestor.engine.workers import Pool
from ingestor.model import SourceName
from ingestor.pipeline.limits import StageTimes
from ingestor.pipeline.prepare import Preparing, prepare
from ingestor.state.journal import Journal

AHEAD = BATCH  # small documents, of one record each often, begun before a worker is free for them
IN_FLIGHT_BYTES = 128 * 10**6  # of documents being prepared; a larger one is prepared alone


@dataclass(frozen=True, kw_only=True)
class EngineParts:
    """Everything that the engine works with.

    ``clock``: POSIX seconds. ``random``: evenly drawn from [0, 1). ``workers``: documents prepared at the
    same time. ``forget``: called with source and key of each document that is removed.
    ``times``: seconds by stage. ``preparing``: prepares a document, called on a worker.
    ``ahead``: most small documents that are begun before a worker is free.
    """

    journal: Journal
    collections: EditionStore
    pool: Pool
    clock: Callable[[], float]
    random: Callable[[], float]
    workers: int = 16
    forget: Callable[[SourceName, str], None] = lambda source, key: None
    times: StageTimes = field(default_factory=StageTimes)
    preparing: Preparing = prepare
    in_flight_bytes: int = IN_FLIGHT_BYTES
    ahead: int = AHEAD
