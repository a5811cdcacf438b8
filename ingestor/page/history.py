"""Figures of the last day, kept in memory: they begin anew with each start of the daemon."""

from collections import deque
from collections.abc import Callable
from sqlite3 import Error
from threading import Event, Thread
from time import time

from ingestor.page.shown.charts import DAY, EVERY, ChartPoint
from ingestor.service.situation import Situation

PATIENCE = 3.0  # seconds for figures that are being gathered when the daemon ends


class History:
    """``gather``: the figures now. Samples may be read by any thread."""

    def __init__(self, gather: Callable[[], Situation]) -> None:
        self._gather, self._ended, self.since = gather, Event(), time()
        self._samples: deque[ChartPoint] = deque(maxlen=int(DAY / EVERY) + 1)
        self._thread = Thread(target=self._run, name="history", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join(PATIENCE)

    def samples(self) -> list[ChartPoint]:
        return list(self._samples)

    def add(self, found: Situation) -> None:
        self._samples.append(sample_of(found))

    def _run(self) -> None:
        while not self._ended.wait(EVERY if self._samples else 0):
            try:
                self.add(self._gather())
            except Error:
                continue


def sample_of(found: Situation) -> ChartPoint:
    lags = [found.at - one.oldest for one in found.sources.values() if one.oldest is not None]
    documents = sum(found.tally.get(kind, 0) for kind in ("added", "changed", "moved", "removed", "rebuilt"))
    kinds = ("records_added", "records_replaced", "records_patched", "records_dropped")
    records = sum(found.tally.get(kind, 0) for kind in kinds)
    return ChartPoint(found.at, max(0.0, max(lags, default=0.0)), documents, records)
