"""Charts of the last day as SVG, and the figures for them, which start with the daemon."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from sqlite3 import Error
from threading import Event, Thread
from time import time

from markupsafe import Markup

from ingestor.page.shown.figures import number, span
from ingestor.service.situation import Situation

DAY = 86_400.0  # seconds
EVERY = 20.0  # seconds between two samples
MOST_BARS = 96
_HEIGHT = 36
_LEAST = {"lag": 10.0}  # what a whole bar stands for at least: a second is nothing
_SPANS = (600.0, 1800.0, 3600.0, 3 * 3600.0, 6 * 3600.0, 12 * 3600.0, DAY)  # seconds


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """``at``: POSIX seconds. ``lag``: seconds. ``documents``, ``records``: written since the start."""

    at: float
    lag: float
    documents: int
    records: int


@dataclass(frozen=True, slots=True)
class Chart:
    """``told``: the same in words. ``most``: what a whole bar stands for. ``since``: seconds ago.

    ``each``: seconds of a bar.
    """

    title: str
    drawn: Markup
    most: str
    told: str
    since: float
    each: float


def charts(samples: Sequence[ChartPoint], now: float) -> list[Chart]:
    """Lag, documents and records over the last day, or since the first sample."""
    begun = samples[0].at if samples else now
    width = next((each for each in _SPANS if each >= now - begun), DAY)
    bars = min(MOST_BARS, int(width / EVERY))  # so that a bar has a sample
    lags, documents, records = [0.0] * bars, [0.0] * bars, [0.0] * bars
    for one in samples:
        if (at := _bar(one.at, now, width, bars)) is not None:
            lags[at] = max(lags[at], one.lag)
    for before, one in pairwise(samples):
        if (at := _bar(one.at, now, width, bars)) is not None:
            documents[at] += max(0, one.documents - before.documents)
            records[at] += max(0, one.records - before.records)
    return [
        _chart("Lag", "lag", lags, span, f"at most {span(max(lags))}", width),
        _chart("Documents brought in step", "documents", documents, number, _sum(documents), width),
        _chart("Records written", "records", records, number, _sum(records), width),
    ]


def _bar(at: float, now: float, width: float, bars: int) -> int | None:
    place = int((at - (now - width)) / width * bars)
    return min(place, bars - 1) if 0 <= place <= bars else None


def _sum(values: Sequence[float]) -> str:
    return f"{number(sum(values))} in all"


def _chart(
    title: str, kind: str, values: Sequence[float], as_text: Callable[[float], str], told: str, width: float
) -> Chart:
    most = max(*values, _LEAST.get(kind, 1.0))
    path = "".join(
        f"M{at + 0.1:g} {_HEIGHT}v{-max(_HEIGHT * value / most, 1):.4g}h.8V{_HEIGHT}z"
        for at, value in enumerate(values)
        if value > 0
    )
    drawn = Markup(
        '<svg class="bars {}" viewBox="0 0 {} {}" role="img" preserveAspectRatio="none">'
        '<title>{}: {}</title><path d="{}"/></svg>'
    ).format(kind, len(values), _HEIGHT, title, told, path)
    return Chart(title, drawn, as_text(most) if any(values) else "", told, width, width / len(values))


PATIENCE = 3.0  # seconds for figures that are being gathered when the daemon ends


class History:
    """Samples of the figures that ``gather`` returns. Any thread may read them."""

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
