"""Whether a server that does not answer works or hangs, by the processor time that it spends. Pure.

A collection may take minutes to load, and a restart would begin with that again. Chroma hangs, too: after a
full disk it answers nothing but heartbeats, and spends next to nothing.
"""

from dataclasses import dataclass, field

from ingestor.core.entries import ChromaName

LONGEST = 600.0  # seconds without an answer, after which no work is an excuse
_WORKING = 0.02  # of one processor: a busy server on a crowded machine has more, one that only waits has less


@dataclass(frozen=True, slots=True)
class Look:
    """``at``: monotonic seconds; ``spent``: the processor time of the server so far, None where unknown."""

    at: float
    spent: float | None


def hangs(since: float, before: Look, now: Look) -> bool:
    """Whether a restart is called for. ``since``: the first request without an answer.

    Between both looks nothing was answered.
    """
    if now.at - since > LONGEST or before.spent is None or now.spent is None:
        return True
    return now.spent - before.spent < _WORKING * (now.at - before.at)


@dataclass(slots=True)
class Silences:
    """Since when collections are not answered for; the first and the last time that was noticed."""

    _noted: dict[ChromaName, tuple[float, float]] = field(default_factory=dict)

    def since(self, name: ChromaName, before: float, now: float) -> float:
        """Note that there was no answer from ``before`` to ``now``. Long after the last silence, another one
        begins.
        """
        first, last = self._noted.get(name, (before, before))
        self._noted[name] = (before if before - last > LONGEST else first), now
        return self._noted[name][0]

    def ended(self, name: ChromaName) -> None:
        self._noted.pop(name, None)

    def clear(self) -> None:
        self._noted.clear()
