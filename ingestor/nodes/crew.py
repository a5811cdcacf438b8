"""Processes on nodes, hired when work waits for them and dismissed when none does.

A cluster with an autoscaler sees a hired process that finds no room as demand, and a dismissed one as room.
So what finds no room is withdrawn, too, when no work waits for it any more.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from threading import Condition, Thread
from time import monotonic
from typing import Protocol

from ingestor.core.interruptions import Stopped
from ingestor.nodes.deaths import ProcessLost
from ingestor.ports import NeedsHuman, Transient

log = logging.getLogger("ingestor")

IDLE = 60.0  # seconds after which a process without work is dismissed, or its hiring withdrawn
RETRY = 15.0  # seconds between attempts to hire after one that failed


class NoRoom(Transient):
    """No process came in time."""


class Withdrawn(Exception):
    """Nobody waits for the process that was to be hired."""


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

    ``hire`` may take long; it raises NeedsHuman or Transient when there is no hand to be had, and Withdrawn
    once ``wanted`` says no. ``kept``: while it says yes, one hand stays, though it be idle.
    """

    def __init__(
        self,
        hire: Callable[[], Hand],
        most: int,
        *,
        idle: float = IDLE,
        kept: Callable[[], bool] = lambda: False,
    ) -> None:
        self.most = most
        self._hire, self._idle_for, self._kept = hire, idle, kept
        self._changed = Condition()
        self._free: list[tuple[float, Hand]] = []  # since when, monotonic seconds; the longest free first
        self._all: set[Hand] = set()
        self._coming, self._waiting, self._stopped = 0, 0, False
        self._needed = monotonic()  # when all that come were last waited for
        self._empty = monotonic()  # since when none is here
        self._trouble: tuple[float, Exception] | None = None  # of the last attempt to hire, and when
        Thread(target=self._dismiss_idle, name="crew", daemon=True).start()

    @property
    def size(self) -> int:
        return len(self._all)

    @property
    def active(self) -> bool:
        """Whether it has hands, or hires some."""
        return bool(self._all or self._coming)

    @property
    def awaited(self) -> bool:
        """Whether somebody waits for a hand."""
        return self._waiting > 0

    def wanted(self) -> bool:
        """Whether one that hires is to go on; if not, it raises Withdrawn."""
        with self._changed:
            if self._coming <= self._waiting:
                self._needed = monotonic()
            if monotonic() - self._needed <= self._idle_for:
                return True
            self._coming -= 1
            return False

    @contextmanager
    def hand(self, avoid: frozenset[str] = frozenset(), patience: float = inf) -> Iterator[Hand]:
        """A hand for one caller; one on a node not to be avoided, if such a one is free.

        Raises Stopped, or the error for which none can be hired; NoRoom after ``patience`` seconds in which
        there was none. A hand that died is not used again.
        """
        hand = self._taken(avoid, patience)
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

    def _taken(self, avoid: frozenset[str], patience: float) -> Hand:
        with self._changed:
            self._waiting += 1
            begun = monotonic()
            try:
                while not self._free:
                    self._go_on()
                    if not self._all and monotonic() - max(begun, self._empty) > patience:
                        raise NoRoom(f"no process came within {patience:g} seconds")
                    self._grow()
                    self._changed.wait(min(RETRY, patience))
                self._go_on()
                best = next((at for at, (_, hand) in enumerate(self._free) if hand.node not in avoid), 0)
                return self._free.pop(best)[1]
            finally:
                if self._coming <= self._waiting:
                    self._needed = monotonic()
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
        """Under the lock: hire as many as wait for a hand, but not at once after an attempt that failed.

        Without any hand, those that come are awaited first, so that the error is told if all of them fail.
        """
        failed = self._trouble[0] if self._trouble else -inf
        resting = monotonic() - failed < RETRY or (self._trouble and self._coming and not self._all)
        while not resting and self._coming < self._waiting and len(self._all) + self._coming < self.most:
            self._coming += 1
            Thread(target=self._hire_one, name="hiring", daemon=True).start()

    def _hire_one(self) -> None:
        hand, trouble = None, None
        try:
            hand = self._hire()
        except Withdrawn:
            return
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
            self._empty = monotonic()
            self._changed.notify_all()

    def _dismiss_idle(self) -> None:
        with self._changed:
            while not self._stopped:
                self._changed.wait(self._idle_for / 2)
                since = monotonic() - self._idle_for
                spare = len(self._all) - self._kept()
                for at, hand in [pair for pair in self._free if pair[0] < since][:spare]:
                    self._free.remove((at, hand))
                    self._all.discard(hand)
                    hand.dismiss()
