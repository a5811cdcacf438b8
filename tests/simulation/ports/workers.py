"""Pools of workers in which chance decides what goes on beside what."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from random import Random
from threading import Semaphore, Thread, current_thread

from ingestor.engine.flight import InFlight, Phase
from ingestor.engine.scanner import Watch
from ingestor.engine.workers import ANY, Lane, Outcome, WorkItem, WorkQueue
from ingestor.model import SourceName
from tests.simulation.ports.chaos import Chaos, Crash
from tests.simulation.ports.files import Files

Work = Callable[[], object]

BEING_WRITTEN = Phase.PREPARED, Phase.WRITING


class Inline:
    """A pool without threads: work is done when it is handed in.

    Nothing strikes where no ``chaos`` is given.
    """

    def __init__(self, chaos: Chaos | None = None) -> None:
        self.chaos, self.outcomes = chaos or Chaos(Random(0)), list[Outcome]()
        self.worked = set[object]()  # tags of the work that was done

    def submit(self, tag: object, work: Work, *, scan: bool = False, lane: Lane = ANY) -> None:
        self.chaos.take_turn()
        self._work(tag, work)
        self.chaos.die()

    def _work(self, tag: object, work: Work) -> None:
        self.outcomes.append(done(tag, work))
        self.worked.add(tag)

    def post(self, tag: object) -> None:
        self.outcomes.append(Outcome(tag))

    def listen(self, tag: object, hints: object) -> Callable[[], None]:
        return lambda: None

    def next(self, timeout: float) -> Outcome | None:
        return self.outcomes.pop(0) if self.outcomes else None

    def release_permit(self) -> AbstractContextManager[None]:
        """Nobody has anything else to do meanwhile."""
        return nullcontext()

    def is_background(self) -> bool:
        return False

    def close(self) -> None:
        """The process ends."""


class AtOnce(Inline):
    """A pool whose listings take no time. It tells the files which listing is taken over."""

    def __init__(self, chaos: Chaos, places: Mapping[SourceName, Files]) -> None:
        super().__init__(chaos)
        self._places = places
        self._begun: dict[Watch, tuple[Files, int]] = {}  # by listing: what is listed, and its moment then

    def submit(self, tag: object, work: Work, *, scan: bool = False, lane: Lane = ANY) -> None:
        if isinstance(tag, Watch):
            files = self._places[tag.source.name]
            self._begun[tag] = files, files.moment
        super().submit(tag, work)

    def next(self, timeout: float) -> Outcome | None:
        outcome = super().next(timeout)
        if outcome is not None and outcome.tag in self._begun:
            files, moment = self._begun.pop(outcome.tag)
            if self._places.get(outcome.tag.source.name) is files:  # under that name still
                files.listed_at = moment
        return outcome


def done(tag: object, work: Work) -> Outcome:
    try:
        if isinstance(tag, InFlight):
            tag.require_wanted()
        return Outcome(tag, work())
    except Exception as error:  # noqa: BLE001 - as the real pool does
        return Outcome(tag, error=error)


class Steps(Thread):
    """A listing that goes on in steps. Of it and of the program's own thread, one runs at a time."""

    def __init__(self, tag: object, work: Work, moment: int, pace: int) -> None:
        super().__init__(daemon=True)
        self.tag, self.work, self.moment, self.pace = tag, work, moment, pace
        self.outcome: Outcome | None = None
        self._died: BaseException | None = None
        self._abandoned = False
        self._go, self._paused = Semaphore(0), Semaphore(0)
        self.start()

    def run(self) -> None:
        try:
            self._wait()
            self.outcome = done(self.tag, self.work)
        except BaseException as error:  # noqa: BLE001 - it strikes the whole process
            self._died = error
        self._paused.release()

    def pause(self) -> None:
        """In this thread."""
        self._paused.release()
        self._wait()

    def _wait(self) -> None:
        self._go.acquire()
        if self._abandoned:
            raise Crash("listing")

    def advance(self) -> None:
        """In the program's thread: one step."""
        self._go.release()
        self._paused.acquire()
        if self._died is not None:
            raise self._died

    def abandon(self) -> None:
        """The process died."""
        self._abandoned = True
        self._go.release()
        self.join()


class Stepwise(Inline):
    """A pool whose listings go on while documents, the journal and the config change."""

    def __init__(self, random: Random, chaos: Chaos, files: Files) -> None:
        super().__init__(chaos)
        self._random, self._files = random, files
        self._listings: list[Steps] = []
        chaos.beside = self._beside

    def submit(self, tag: object, work: Work, *, scan: bool = False, lane: Lane = ANY) -> None:
        if not scan:
            super().submit(tag, work)
            return
        pace = self._random.choice([1, 3, 10, 100])  # steps in a round of the program
        self._listings.append(Steps(tag, work, self._files.moment, pace))

    def next(self, timeout: float) -> Outcome | None:
        for listing in self._listings:
            for _ in range(self._random.randrange(listing.pace + 1)):
                if listing.outcome is None:
                    listing.advance()
        ended = next((listing for listing in self._listings if listing.outcome), None)
        if ended is None or self.outcomes:
            return super().next(timeout)
        self._listings.remove(ended)
        self._files.listed_at = max(self._files.listed_at, ended.moment)
        return ended.outcome

    def close(self) -> None:
        for listing in self._listings:
            if listing.is_alive():
                listing.abandon()
        self._listings.clear()

    def _beside(self, name: str) -> None:
        """A listing stands still here, or dies with the process; and it fails at any of its items."""
        listing = current_thread()
        if isinstance(listing, Steps):
            for _ in range(8 if name == "identity" else 1):  # before the first item, long enough for others
                listing.pause()
            self.chaos.point("within listing", 0.2)
            if name == "scan":
                self.chaos.fault("within listing", 0.2)


class Paced(AtOnce):
    """A pool that prepares ``pace`` documents a round, in the order of the real one."""

    def __init__(self, chaos: Chaos, places: Mapping[SourceName, Files], workers: int, pace: int) -> None:
        super().__init__(chaos, places)
        self._turns, self._pace, self._left = WorkQueue(workers), pace, 0
        self._done: WorkItem | None = None

    def begin_round(self) -> None:
        self._left = self._pace

    def submit(self, tag: object, work: Work, *, scan: bool = False, lane: Lane = ANY) -> None:
        if scan:
            super().submit(tag, work, scan=True)
        else:
            self._turns.put(WorkItem(tag, work, lane))

    def next(self, timeout: float) -> Outcome | None:
        if not self.outcomes and self._left and any(self._turns._waiting.values()):
            self._left -= 1
            self._done = task = self._turns.get(self._done)
            assert task is not None
            self.chaos.take_turn()
            self._work(task.tag, task.work)
            self.chaos.die()
        return super().next(timeout)
