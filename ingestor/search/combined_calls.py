"""Calls of several threads that are made as one, where one call for all costs less than one for each."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")


@dataclass(slots=True, eq=False)
class _Call(Generic[Q, A]):
    """``turn``: it was answered, or it is to make the next call."""

    kind: Hashable
    asked: Q
    turn: Event = field(default_factory=Event)
    answer: list[A] = field(default_factory=list)  # one, when it is there
    error: BaseException | None = None


class CombinedCalls(Generic[Q, A]):
    """``work``: the answers to questions of one kind, in their order.

    A thread that finds nobody at work asks at once. Those that come meanwhile wait, and the first of them
    then asks for all of its kind, ``most`` of them at once.
    """

    def __init__(self, work: Callable[[Sequence[Q]], Sequence[A]], most: int) -> None:
        self._work, self._most = work, most
        self._lock = Lock()
        self._waiting: list[_Call[Q, A]] = []
        self._at_work = False

    def ask(self, kind: Hashable, asked: Q) -> A:
        """Raises what the work raises, for all that it was done for."""
        call = _Call[Q, A](kind, asked)
        with self._lock:
            waits = self._at_work
            self._at_work = True
            if waits:
                self._waiting.append(call)
        if waits:
            call.turn.wait()
        if not call.answer and call.error is None:
            self._lead(call)
        if call.error is not None:
            raise call.error
        return call.answer[0]

    def _lead(self, call: _Call[Q, A]) -> None:
        with self._lock:
            mates = [other for other in self._waiting if other.kind == call.kind][: self._most - 1]
            self._waiting = [other for other in self._waiting if other not in mates]
        together = [call, *mates]
        try:
            answers = self._work([each.asked for each in together])
            for each, answer in zip(together, answers, strict=True):
                each.answer.append(answer)
        except BaseException as error:  # noqa: BLE001 - everyone gets it
            for each in together:
                each.error = error
        self._hand_over()
        for mate in mates:
            mate.turn.set()

    def _hand_over(self) -> None:
        with self._lock:
            following = self._waiting.pop(0) if self._waiting else None
            self._at_work = following is not None
        if following is not None:
            following.turn.set()
