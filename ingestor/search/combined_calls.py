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

    A thread that finds nobody at work on its kind asks at once. Those that come meanwhile wait, and the first
    of them then asks for all, ``most`` of them at once. Kinds do not wait for each other: one may be slow.
    """

    def __init__(self, work: Callable[[Sequence[Q]], Sequence[A]], most: int) -> None:
        self._work, self._most = work, most
        self._lock = Lock()
        self._waiting: dict[Hashable, list[_Call[Q, A]]] = {}  # by the kind that somebody is at work on

    def ask(self, kind: Hashable, asked: Q) -> A:
        """Raises what the work raises, for all that it was done for."""
        call = _Call[Q, A](kind, asked)
        with self._lock:
            waits = kind in self._waiting
            self._waiting.setdefault(kind, []).extend([call] * waits)
        if waits:
            call.turn.wait()
        if not call.answer and call.error is None:
            self._lead(call)
        if call.error is not None:
            raise call.error
        return call.answer[0]

    def _lead(self, call: _Call[Q, A]) -> None:
        with self._lock:
            waiting = self._waiting[call.kind]
            mates, waiting[:] = waiting[: self._most - 1], waiting[self._most - 1 :]
        together = [call, *mates]
        try:
            answers = self._work([each.asked for each in together])
            for each, answer in zip(together, answers, strict=True):
                each.answer.append(answer)
        except BaseException as error:  # noqa: BLE001 - everyone gets it
            for each in together:
                each.error = error
        self._hand_over(call.kind)
        for mate in mates:
            mate.turn.set()

    def _hand_over(self, kind: Hashable) -> None:
        with self._lock:
            following = self._waiting[kind].pop(0) if self._waiting[kind] else None
            if following is None:
                del self._waiting[kind]
        if following is not None:
            following.turn.set()
