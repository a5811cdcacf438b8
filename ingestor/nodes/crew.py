"""Processes on nodes, hired when work waits for them and dismissed when none does.

A cluster with an autoscaler sees a hired process that finds no room as demand, and a dismissed one as room.
So what finds no room is withdrawn, too, when no work waits for it any more.

Every process can prepare and embed. A crew without a process borrows one of another crew, so a cluster with
room for a single process makes progress.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from threading import Condition, Lock, Thread
from time import monotonic
from typing import Protocol

from ingestor.core.events import event
from ingestor.core.interruptions import Stopped
from ingestor.nodes.deaths import ProcessLost
from ingestor.ports import NeedsHuman, Transient

log = logging.getLogger("ingestor")

IDLE = 60.0  # seconds after which a process without work is dismissed, or its hiring withdrawn
RETRY = 15.0  # seconds between attempts to hire after one that failed
BORROW = 10.0  # seconds without a process, after which a crew borrows one


class NoRoom(Transient):
    """Error: no process came in time."""


class Withdrawn(Exception):
    """Nobody waits for the process that was to be hired."""


class Hand(Protocol):
    """A process on a node. One caller at a time. Every method raises ProcessLost when the process is gone."""

    node: str

    def call(self, method: str, *arguments: object) -> bytes: ...
    def knows(self, setup: str) -> bool:
        """Return whether the hand has the tools of a setup, and note that it has them from now on."""
        ...

    def dismiss(self) -> None:
        """End the process. Its caller, if there is one, gets Died. Any thread; never raises."""
        ...


class Crew:
    """Crew of at most ``most`` hands, made by ``hire``. Threads share a crew.

    ``hire`` may take long; it raises NeedsHuman or Transient when there is no hand to be had, and Withdrawn
    once ``wanted`` says no. ``kept``: while it says yes, one hand stays, though it be idle. ``lenders``:
    crews whose hands do the work while this crew has none.
    """

    def __init__(
        self,
        hire: Callable[[], Hand],
        most: int,
        *,
        idle: float = IDLE,
        kept: Callable[[], bool] = lambda: False,
        lenders: Callable[[], Sequence["Crew"]] = tuple,
    ) -> None:
        self.most = most
        self._hire, self._idle_for, self._kept, self._lenders = hire, idle, kept, lenders
        self._changed = Condition()
        self._free: list[tuple[float, Hand]] = []  # since when, monotonic seconds; the longest free first
        self._all: set[Hand] = set()
        self._lending, self._lent = Lock(), set[tuple[Crew, Hand]]()  # a leaf lock; borrower and hand
        self._lacking: float | None = None  # since when a caller lacks any hand
        self._coming, self._waiting, self._stopped = 0, 0, False
        self._ahead = 0  # of those that wait: they are not behind
        self._needed = monotonic()  # when all that come were last waited for
        self._empty = monotonic()  # since when none is here
        self._trouble: tuple[float, Exception] | None = None  # of the last attempt to hire, and when
        Thread(target=self._dismiss_idle, name="crew", daemon=True).start()

    @property
    def size(self) -> int:
        return len(self._all)

    @property
    def active(self) -> bool:
        """Whether any process is running or starting."""
        return bool(self._all or self._coming)

    @property
    def is_awaited(self) -> bool:
        """Whether a thread waits for a hand."""
        return self._waiting > 0

    def wanted(self) -> bool:
        """Raise Withdrawn if nobody needs the hand that is being hired."""
        with self._changed:
            if self._coming <= self._waiting:
                self._needed = monotonic()
            if monotonic() - self._needed <= self._idle_for:
                return True
            self._coming -= 1
            return False

    @contextmanager
    def hand(
        self,
        avoid: frozenset[str] = frozenset(),
        patience: float = inf,
        *,
        own: bool = False,
        behind: bool = False,
    ) -> Iterator[Hand]:
        """A hand for one caller; one on a node not to be avoided, if such a one is free.

        Raises Stopped, or the error for which none can be hired; NoRoom after ``patience`` seconds in which
        there was none. A hand that died is not used again. ``own``: never a borrowed hand. ``behind``: the
        caller waits until no other does.
        """
        hand, lender = self._take(avoid, patience, own, behind)
        if lender is not None:
            try:
                yield hand
            except ProcessLost:
                lender._discard(hand)
                raise
            finally:
                with lender._lending:
                    lender._lent.discard((self, hand))
                with self._changed:
                    self._changed.notify_all()
            return
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
            if hand in self._all:  # a borrower may have found it dead
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

    def _lend(self, borrower: "Crew", avoid: frozenset[str]) -> Hand | None:
        """Return a hand that this crew keeps using: a process answers calls of several crews in turn."""
        with self._lending:
            spare = [hand for hand in [*self._all] if (borrower, hand) not in self._lent]
            hand = min(spare, key=lambda each: each.node in avoid, default=None)
            if hand is not None:
                self._lent.add((borrower, hand))
            return hand

    def _borrow(self, avoid: frozenset[str]) -> tuple[Hand, "Crew"] | None:
        """Return a hand of another crew, if this one has lacked any for ``BORROW`` seconds."""
        now = monotonic()
        if self._all:
            return None
        if self._lacking is None:
            self._lacking = now
        if now - self._lacking < BORROW:
            return None
        return next(((hand, each) for each in self._lenders() if (hand := each._lend(self, avoid))), None)

    def _take(
        self, avoid: frozenset[str], patience: float, own: bool, behind: bool
    ) -> tuple[Hand, "Crew | None"]:
        with self._changed:
            self._waiting += 1
            self._ahead += not behind
            begun = monotonic()
            try:
                while not self._free or (behind and self._ahead):
                    if not own and not self._stopped and (borrowed := self._borrow(avoid)):
                        return borrowed
                    self._go_on()
                    if not self._all and monotonic() - max(begun, self._empty) > patience:
                        raise NoRoom(f"no process started within {patience:g} seconds")
                    self._grow()
                    self._changed.wait(min(RETRY, BORROW, patience))
                self._go_on()
                best = next((at for at, (_, hand) in enumerate(self._free) if hand.node not in avoid), 0)
                return self._free.pop(best)[1], None
            finally:
                if self._coming <= self._waiting:
                    self._needed = monotonic()
                self._waiting -= 1
                self._ahead -= not behind
                self._changed.notify_all()

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
            log.exception("no process can be started on a node", extra=event("node"))
            trouble = Transient(f"no process can be started on a node: {error}")
        with self._changed:
            self._coming -= 1
            if trouble is not None:
                self._trouble = monotonic(), trouble
            elif hand is not None and not self._stopped:
                self._trouble, self._lacking = None, None
                self._all.add(hand)
                self._free.append((monotonic(), hand))
            self._changed.notify_all()
            late = self._stopped
        if late and hand is not None:
            hand.dismiss()

    def _discard(self, hand: Hand) -> None:
        with self._changed:
            self._all.discard(hand)
            self._free = [pair for pair in self._free if pair[1] is not hand]
            self._empty = monotonic()
            self._changed.notify_all()

    def _dismiss_idle(self) -> None:
        with self._changed:
            while not self._stopped:
                self._changed.wait(self._idle_for / 2)
                since = monotonic() - self._idle_for
                spare = len(self._all) - self._kept()
                with self._lending:
                    lent = {hand for _, hand in self._lent}
                    idle = [(at, hand) for at, hand in self._free if at < since and hand not in lent]
                    for at, hand in idle[:spare]:
                        self._free.remove((at, hand))
                        self._all.discard(hand)
                        hand.dismiss()
