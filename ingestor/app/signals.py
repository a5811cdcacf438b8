"""Signals: a handler only sets a flag, which the loop reads."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType

from ingestor.ports import Stop

IMPATIENCE = 1.0  # seconds after which another Ctrl-C interrupts


class Signals:
    """Requests to stop or to reload. ``until``: an event that also stops.

    ``terminals``: standard streams that are a terminal, if the process started with a controlling one.
    """

    def __init__(self, until: Stop | None = None) -> None:
        self.reload = False
        self._until, self._stop, self._stopped = until, False, 0.0  # monotonic seconds
        self.terminals = _terminals() if _has_terminal() else ()

    @property
    def stop(self) -> bool:
        return self._stop or (self._until is not None and self._until.is_set())

    @stop.setter
    def stop(self, wanted: bool) -> None:
        self._stop = wanted

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Install the handlers until the context ends.

        SIGTERM and SIGINT stop; a second SIGINT (Ctrl-C) interrupts running work. SIGHUP stops if the
        terminal closed, else it reloads the config. A SIGHUP that is ignored, as after ``nohup``, stays
        ignored.
        """
        handlers = {signal.SIGTERM: self._end, signal.SIGINT: self._end, signal.SIGHUP: self._hang_up}
        if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
            del handlers[signal.SIGHUP]
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _end(self, number: int, frame: FrameType | None) -> None:
        """An early second signal is ignored: a supervisor may send one twice."""
        if self.stop and number == signal.SIGINT and monotonic() - self._stopped > IMPATIENCE:
            raise KeyboardInterrupt
        if not self.stop:
            self.stop, self._stopped = True, monotonic()

    def _hang_up(self, number: int, frame: FrameType | None) -> None:
        if self.terminals and not _has_terminal():
            _mute(self.terminals)
            self.stop = True
        else:
            self.reload = True


def _has_terminal() -> bool:
    """Whether the process has a controlling terminal; the kernel removes it before it sends SIGHUP."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _terminals() -> tuple[int, ...]:
    return tuple(stream for stream in (0, 1, 2) if os.isatty(stream))


def _mute(streams: tuple[int, ...]) -> None:
    """Redirect output to nowhere: writing to a closed terminal would be an error."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in streams:
        os.dup2(nowhere, stream)
    os.close(nowhere)
