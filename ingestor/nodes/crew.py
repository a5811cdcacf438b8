"""Processes on nodes, hired when work waits for them and dismissed when none does.

A cluster with an autoscaler sees a hired process that finds no room as demand, and a dismissed one as room.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, Thread
from time import monotonic
from typing import Protocol

from ingestor.core.interruptions import Stopped
from ingestor.nodes.deaths import ProcessLost
from ingestor.ports import NeedsHuman, Transient

log = logging.getLogger("ingestor")

IDLE = 60.0  # seconds after which a process without work is dismissed
RETRY = 15.0  # seconds between attempts to hire after one that failed


class Hand(Protocol):
    """A process on a node. One caller at a time. Every method raises ProcessLost when the process is gone."""

    node: str

    def call(self, method: str, *arguments: object) -> bytes: ...
    def knows(self, setup: str) -> bool:
        """Whether it has the tools of that setup; from now on it counts as having them."""
        ...

    def dismiss(self) -> None:
        """End the process. Its caller, if there is one, gets Died. Any thread; never raises."""
        ...


class Crew:
    """At most ``most`` hands, made by ``hire``. Threads share it.

    ``hire`` may take long; it raises NeedsHuman or Transient when there is no hand to be had.
    """

    def __init__(self, hire: Callable[[], Hand], most: int, *, idle: float = IDLE) -> None:
        self.most = most
        self._hire, self._idle_for = hire, idle
        self._changed = Condition()
        self._free: list[tuple[float, Hand]] = []  # since when, monotonic seconds; the longest free first
        self._all: set[Hand] = set()
        self._coming, self._waiting, self._stopped = 0, 0, False
        self._trouble: tuple[float, Exception] | None = None  # of the last attempt to hire, and when
        Thread(target=self._dismiss_idle, name="crew", daemon=True).start()

    @property
    def size(self) -> int:
        return len(self._all)

    @contextmanager
    def hand(self, avoid: frozenset[str] = frozenset()) -> Iterator[Hand]:
        """A hand for one caller; one on a node not to be avoided, if such a one is free.

        Raises Stopped, or the error for which none can be hired. A hand that died is not used again.
        """
        hand = self._taken(avoid)
        try:
            yield hand
        except ProcessLost:
            self._discard(hand)
            raise
        except BaseException:  # it may be in the middle of a document
            hand.dismiss()
            self._discard(hand)
            raise
        with self._changed:
            self._free.append((monotonic(), hand))
            self._changed.notify_all()

    def stop(self) -> None:
        """Dismiss all hands. Who waits for one, or for its answer, gets Stopped or Died."""
        with self._changed:
            self._stopped = True
            hands = list(self._all)
            self._changed.notify_all()
        for hand in hands:
            hand.dismiss()

    def _taken(self, avoid: frozenset[str]) -> Hand:
        with self._changed:
            self._waiting += 1
            try:
                while not self._free:
                    self._go_on()
                    self._grow()
                    self._changed.wait(RETRY)
                self._go_on()
                best = next((at for at, (_, hand) in enumerate(self._free) if hand.node not in avoid), 0)
                return self._free.pop(best)[1]
            finally:
                self._waiting -= 1

    def _go_on(self) -> None:
        if self._stopped:
            raise Stopped
        if self._trouble is not None and not self._all and not self._coming:
            since, error = self._trouble
            self._trouble = None if monotonic() - since > RETRY else self._trouble
            if self._trouble is not None:
                raise error

    def _grow(self) -> None:
        """Under the lock: hire as many as wait for a hand, but not at once after an attempt that failed."""
        resting = self._trouble is not None and monotonic() - self._trouble[0] < RETRY
        while not resting and self._coming < self._waiting and len(self._all) + self._coming < self.most:
            self._coming += 1
            Thread(target=self._hire_one, name="hiring", daemon=True).start()

    def _hire_one(self) -> None:
        hand, trouble = None, None
        try:
            hand = self._hire()
        except (NeedsHuman, Transient, Stopped) as error:
            trouble = error
        except Exception as error:
            log.exception("no process can be started on a node")
            trouble = Transient(f"no process can be started on a node: {error}")
        with self._changed:
            self._coming -= 1
            if trouble is not None:
                self._trouble = monotonic(), trouble
            elif hand is not None and not self._stopped:
                self._trouble = None
                self._all.add(hand)
                self._free.append((monotonic(), hand))
            self._changed.notify_all()
            late = self._stopped
        if late and hand is not None:
            hand.dismiss()

    def _discard(self, hand: Hand) -> None:
        with self._changed:
            self._all.discard(hand)
            self._changed.notify_all()

    def _dismiss_idle(self) -> None:
        with self._changed:
            while not self._stopped:
                self._changed.wait(self._idle_for / 2)
                since = monotonic() - self._idle_for
                for at, hand in [pair for pair in self._free if pair[0] < since]:
                    self._free.remove((at, hand))
                    self._all.discard(hand)
                    hand.dismiss()
