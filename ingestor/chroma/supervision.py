"""Supervision of our Chroma server: its states, the moves between them, and when it must be restarted. Pure.

A server that does not answer either loads a collection or hangs; its processor time tells which. Loading may
take minutes, and a restart would begin it again. After a full disk Chroma answers nothing but heartbeats, and
uses almost no processor time. The daemon examines all collections after each start, which ``starts`` counts.
Only the thread that writes may change the state.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from ingestor.core.entries import ChromaName

LONGEST = 600.0  # seconds without an answer after which the server hangs, although it works
DEATHS = 4  # crashes over one collection after which its files are suspected
FORGIVEN = 600.0  # seconds since the last start after which earlier crashes no longer count
# Part of one processor. A server that loads has more, even on a busy machine; one that only waits has less.
_WORKING = 0.02


class State(Enum):
    """State of our Chroma server."""

    DOWN = auto()  # no process runs, or it is ending
    STARTING = auto()  # the process has not answered yet
    UP = auto()
    LOADING = auto()  # the server does not answer, and works
    HANGING = auto()  # the server does not answer, and does not work: only a restart helps
    SUSPECT = auto()  # stopped, while a private server tests whether a collection crashes Chroma


class ServerEvent(Enum):
    """Event that may change the state of our Chroma server."""

    START = auto()  # a process is started
    READY = auto()  # the process answers for the first time
    ANSWER = auto()  # the server answers a heartbeat, or a request for a collection
    SILENCE = auto()  # the server does not answer, but works
    STUCK = auto()  # the server does not answer and does not work; or met a full disk, which leads to this
    END = auto()  # the process ended, or its folder is gone
    SUSPICION = auto()  # the server crashed too often over the same collection
    STOP = auto()  # we stop the server, or a start failed


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
    """Error: an event happened that cannot happen in this state. That is a defect of this program."""


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
    the server hangs. ``loaded``: UUIDs of collections that the server has loaded since its start; any thread
    adds to this set. ``fatal``: collections that crashed the server in a test. A collection leaves this set
    when it is deleted.
    """

    hanging_after: float = 60.0
    state: State = State.DOWN
    starts: int = 0
    loaded: set[str] = field(default_factory=set)
    fatal: set[ChromaName] = field(default_factory=set)
    _why: str = "not started"  # why the server is down or hangs
    _started: float = 0.0  # monotonic seconds
    _answered: float = 0.0  # monotonic seconds of the last answer to a heartbeat
    _last: Observation = field(default_factory=lambda: Observation(0.0))
    # By collection: monotonic seconds of the first and of the last request without an answer.
    _silences: dict[ChromaName, tuple[float, float]] = field(default_factory=dict)
    _deaths: Counter[ChromaName] = field(default_factory=Counter)

    def move(self, event: ServerEvent) -> None:
        """Change the state after an event.

        Raises BrokenMove if the event cannot happen in the present state.
        """
        if event not in MOVES[self.state]:
            raise BrokenMove(f"Chroma's server cannot meet {event} when it is {self.state}")
        self.state = MOVES[self.state][event]
        if event is ServerEvent.STOP:
            self._why = "not started"

    def ready(self, now: Observation) -> None:
        """Note that a new server process answers for the first time. It has loaded no collection yet."""
        self.move(ServerEvent.READY)
        self.starts += 1
        self.loaded, self._silences = set(), {}
        self._last, self._answered, self._started = now, now.at, now.at

    def judge(self, now: Observation) -> str | None:
        """Return why the server needs a restart; None if it answers or is working."""
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
        """Note that the server must be restarted, for this reason. Return the reason."""
        self._why = reason
        self.move(ServerEvent.STUCK)
        return reason

    def note_silence(self, name: ChromaName, before: Observation, now: Observation) -> str | None:
        """Note that a request for a collection got no answer.

        ``before``, ``now``: observations before and after the request. Return why the server needs a restart,
        or None. The time without an answer counts from the first such request, unless the last one was long
        ago.
        """
        first, last = self._silences.get(name, (before.at, before.at))
        first = before.at if before.at - last > LONGEST else first
        self._silences[name] = first, now.at
        if is_stuck(first, before, now):
            return self.stuck("no answer")
        self.move(ServerEvent.SILENCE)
        return None

    def note_answer(self, name: ChromaName) -> None:
        """Note that a request for a collection was answered.

        Earlier requests without an answer no longer count.
        """
        self.move(ServerEvent.ANSWER)
        self._silences.pop(name, None)

    def note_death(self, name: ChromaName) -> None:
        """Note that the server crashed during a request for this collection."""
        self._deaths[name] += 1

    def suspects(self, name: ChromaName) -> bool:
        """Return whether a collection must be tested before it is opened, because it may crash the server.

        That is so after several crashes during requests for it. Then its crashes are counted from zero again.
        """
        if self._deaths[name] < DEATHS:
            return False
        self._deaths[name] = 0
        self.move(ServerEvent.SUSPICION)
        return True

    def forget(self, name: ChromaName) -> None:
        """Forget what is known of a collection, because it was deleted."""
        self.fatal.discard(name)
        self._deaths[name] = 0
