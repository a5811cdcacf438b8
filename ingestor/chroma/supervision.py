"""Decides when our Chroma server must be restarted, from observations of it. Pure.

A server that does not answer either loads a collection or hangs; its processor time tells which. Loading may
take minutes, and a restart would begin it again. After a full disk Chroma answers nothing but heartbeats, and
uses almost no processor time. The daemon examines all collections after each start, which ``starts`` counts.
Only the thread that writes may change the state.
"""

from collections import Counter
from dataclasses import dataclass, field

from ingestor.core.entries import ChromaName

LONGEST = 600.0  # seconds without an answer after which the server hangs, although it works
# Part of one processor. A server that loads has more, even on a busy machine; one that only waits has less.
_WORKING = 0.02


@dataclass(frozen=True, slots=True)
class Observation:
    """The facts about the server at one moment.

    ``at``: monotonic seconds. ``spent``: processor seconds that the server has used so far; None if unknown.
    ``answers``: whether it answers a heartbeat. ``fault``: a reason to restart it in any case, or "".
    """

    at: float
    spent: float | None = None
    answers: bool = False
    fault: str = ""


def is_stuck(since: float, before: Observation, now: Observation) -> bool:
    """Return whether a server that does not answer must be restarted, since it uses hardly any processor
    time.

    A server that has not answered for LONGEST seconds must be restarted in any case. ``since``: monotonic
    seconds of the first request without an answer. ``before``, ``now``: two observations, between which
    nothing was answered.
    """
    if now.at - since > LONGEST or before.spent is None or now.spent is None:
        return True
    return now.spent - before.spent < _WORKING * (now.at - before.at)


@dataclass(slots=True)
class Supervision:
    """The state of our server, and by collection its crashes and the requests that got no answer.

    ``hanging_after``: if heartbeats get no answer for this many seconds, the processor time decides whether
    the server hangs. ``why``: why the server must be started; None while it runs. ``loaded``: UUIDs of
    collections that the server has loaded since its start; any thread adds to this set. ``deaths``: crashes
    during requests for each collection, since its last test. ``fatal``: collections that crashed the server
    in a test, until they are deleted.
    """

    hanging_after: float = 60.0
    why: str | None = "not started"
    starts: int = 0
    loaded: set[str] = field(default_factory=set)
    fatal: set[ChromaName] = field(default_factory=set)
    _answered: float = 0.0  # monotonic seconds of the last answer to a heartbeat
    _last: Observation = field(default_factory=lambda: Observation(0.0))
    # By collection: monotonic seconds of the first and of the last request without an answer.
    silences: dict[ChromaName, tuple[float, float]] = field(default_factory=dict)
    deaths: Counter[ChromaName] = field(default_factory=Counter)

    def ready(self, now: Observation) -> None:
        """Note that a new server process answers for the first time. It has loaded no collection yet."""
        self.why, self.starts = None, self.starts + 1
        self.loaded, self.silences = set(), {}
        self._last, self._answered = now, now.at

    def judge(self, now: Observation) -> str | None:
        """Return why the server needs a restart; None if it answers or is working."""
        if self.why:
            return self.why
        before, self._last = self._last, now
        if now.answers:
            self._answered = now.at
            return None
        silence = now.at - self._answered
        if now.fault:
            self.why = now.fault
        elif silence > self.hanging_after and is_stuck(self._answered, before, now):
            self.why = f"no answer for {silence:.0f} s"
        return self.why

    def note_silence(self, name: ChromaName, before: Observation, now: Observation) -> str | None:
        """Note that a request for a collection got no answer.

        ``before``, ``now``: observations before and after the request. Return why the server needs a restart,
        or None. The time without an answer counts from the first such request, unless the last one was long
        ago.
        """
        first, last = self.silences.get(name, (before.at, before.at))
        first = before.at if before.at - last > LONGEST else first
        self.silences[name] = first, now.at
        if is_stuck(first, before, now):
            self.why = "no answer"
        return self.why

    def forget(self, name: ChromaName) -> None:
        """Forget what is known of a collection, because it was deleted."""
        self.fatal.discard(name)
        self.deaths[name] = 0
