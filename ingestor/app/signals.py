"""Signals: a handler only sets a flag, which the loop reads."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from types import FrameType

IMPATIENCE = 1.0  # seconds after which another Ctrl-C interrupts


@dataclass
class Signals:
    """``terminals``: standard streams that are a terminal, if the process started with a controlling one."""

    stop: bool = False
    reload: bool = False
    _stopped: float = 0.0  # monotonic seconds
    terminals: tuple[int, ...] = field(default_factory=lambda: _terminals() if _has_terminal() else ())

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Install the handlers until the context ends.

        SIGTERM and SIGINT stop; a second SIGINT (Ctrl-C) interrupts running work. SIGHUP stops if the
        terminal closed, else it reloads the config. A SIGHUP that is ignored, as after ``nohup``, stays
        ignored.
        """
        handlers = {signal.SIGTERM: self._stop, signal.SIGINT: self._stop, signal.SIGHUP: self._hang_up}
        if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
            del handlers[signal.SIGHUP]
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
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
