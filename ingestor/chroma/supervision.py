"""Supervision of our Chroma server: its states, the table of their moves, the judgement of a look. Pure.

A server that does not answer is loading or hanging, and its processor time tells which. A collection may take
minutes to load, and a restart would begin with that again. After a full disk Chroma answers nothing but
heartbeats, and spends next to nothing. The daemon examines all collections after each start (``starts``).
The thread that writes owns the machine.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from ingestor.core.entries import ChromaName

LONGEST = 600.0  # seconds without an answer, after which no work is an excuse
DEATHS = 4  # crashes over one collection, after which its files are suspected
FORGIVEN = 600.0  # seconds since the last start, after which crashes no longer count
_WORKING = 0.02  # of one processor: a busy server on a crowded machine has more, one that only waits has less


class State(Enum):
    DOWN = auto()  # no process, or one that is ending
    STARTING = auto()  # it has not answered yet
    UP = auto()
    LOADING = auto()  # it does not answer, and works
    HANGING = auto()  # it does not answer, and does not work: only a restart helps
    SUSPECT = auto()  # stopped: a private server tests whether a collection crashes it


class ServerEvent(Enum):
    START = auto()  # a process is started
    READY = auto()  # it answers for the first time
    ANSWER = auto()  # to a heartbeat, or to a request for a collection
    SILENCE = auto()  # no answer yet, which its work explains
    STUCK = auto()  # no answer, which nothing explains; or the full disk that leads to this
    END = auto()  # it ended, or its folder is gone
    SUSPICION = auto()  # it crashed too often over the same collection
    STOP = auto()  # we stop it, or a start failed


_ALIVE: Mapping[ServerEvent, State] = {
    ServerEvent.ANSWER: State.UP,
    ServerEvent.SILENCE: State.LOADING,
    ServerEvent.STUCK: State.HANGING,
    ServerEvent.END: State.DOWN,
    ServerEvent.SUSPICION: State.SUSPECT,
    ServerEvent.STOP: State.DOWN,
}
MOVES: Mapping[State, Mapping[ServerEvent, State]] = {
    State.DOWN: {
        ServerEvent.START: State.STARTING,
        ServerEvent.SUSPICION: State.SUSPECT,
        ServerEvent.STOP: State.DOWN,
    },
    State.STARTING: {ServerEvent.READY: State.UP, ServerEvent.STOP: State.DOWN},
    State.UP: _ALIVE,
    State.LOADING: _ALIVE,
    State.HANGING: {ServerEvent.STOP: State.DOWN},
    State.SUSPECT: {ServerEvent.START: State.STARTING, ServerEvent.STOP: State.SUSPECT},
}


class BrokenMove(RuntimeError):
    """Error: an event that cannot happen in this state, a defect of this program."""


@dataclass(frozen=True, slots=True)
class Look:
    """Observation of the server. ``at``: monotonic seconds.

    ``spent``: processor seconds of the server; None if unknown. ``fault``: reason why the server must be
    restarted, or "".
    """

    at: float
    spent: float | None = None
    answers: bool = False
    fault: str = ""


def is_stuck(since: float, before: Look, now: Look) -> bool:
    """Return whether a silence calls for a restart.

    ``since``: the first request without an answer. Between both looks nothing was answered.
    """
    if now.at - since > LONGEST or before.spent is None or now.spent is None:
        return True
    return now.spent - before.spent < _WORKING * (now.at - before.at)


@dataclass(slots=True)
class Supervision:
    """The state of our server, and its record with each collection since it started.

    ``hanging_after``: seconds without a heartbeat after which it is judged. ``loaded``: UUIDs of collections
    for which it has answered; any thread adds to it. ``fatal``: collections that crashed it in a test, until
    they are deleted.
    """

    hanging_after: float = 60.0
    state: State = State.DOWN
    starts: int = 0
    loaded: set[str] = field(default_factory=set)
    fatal: set[ChromaName] = field(default_factory=set)
    _why: str = "not started"  # it is down or hangs
    _started: float = 0.0
    _answered: float = 0.0
    _last: Look = field(default_factory=lambda: Look(0.0))
    _silences: dict[ChromaName, tuple[float, float]] = field(default_factory=dict)  # the first, and the last
    _deaths: Counter[ChromaName] = field(default_factory=Counter)

    def move(self, event: ServerEvent) -> None:
        if event not in MOVES[self.state]:
            raise BrokenMove(f"Chroma's server cannot meet {event} when it is {self.state}")
        self.state = MOVES[self.state][event]
        if event is ServerEvent.STOP:
            self._why = "not started"

    def ready(self, now: Look) -> None:
        """Note that a new process answers, which has loaded nothing yet."""
        self.move(ServerEvent.READY)
        self.starts += 1
        self.loaded, self._silences = set(), {}
        self._last, self._answered, self._started = now, now.at, now.at

    def judge(self, now: Look) -> str | None:
        """Return why the server needs a restart; None while it answers or works."""
        if self.state not in (State.UP, State.LOADING):
            return self._why
        before, self._last = self._last, now
        if now.fault:
            self._why = now.fault
            self.move(ServerEvent.END)
            return now.fault
        if now.answers:
            self.move(ServerEvent.ANSWER)
            self._answered = now.at
            if now.at - self._started > FORGIVEN:
                self._deaths.clear()
            return None
        silence = now.at - self._answered
        if silence <= self.hanging_after or not is_stuck(self._answered, before, now):
            self.move(ServerEvent.SILENCE)
            return None
        return self.stuck(f"no answer for {silence:.0f} s")

    def stuck(self, reason: str) -> str:
        self._why = reason
        self.move(ServerEvent.STUCK)
        return reason

    def note_silence(self, name: ChromaName, before: Look, now: Look) -> str | None:
        """Note a collection without an answer between two looks. Return why a restart is needed, if it is.

        Long after the last silence, another one begins.
        """
        first, last = self._silences.get(name, (before.at, before.at))
        first = before.at if before.at - last > LONGEST else first
        self._silences[name] = first, now.at
        if is_stuck(first, before, now):
            return self.stuck("no answer")
        self.move(ServerEvent.SILENCE)
        return None

    def note_answer(self, name: ChromaName) -> None:
        self.move(ServerEvent.ANSWER)
        self._silences.pop(name, None)

    def note_death(self, name: ChromaName) -> None:
        """Note a crash over a request for this collection."""
        self._deaths[name] += 1

    def suspects(self, name: ChromaName) -> bool:
        """Return whether a collection must be tested before it is opened; its crashes then count anew."""
        if self._deaths[name] < DEATHS:
            return False
        self._deaths[name] = 0
        self.move(ServerEvent.SUSPICION)
        return True

    def forget(self, name: ChromaName) -> None:
        """Note that a collection was deleted."""
        self.fatal.discard(name)
        self._deaths[name] = 0
