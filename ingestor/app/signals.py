"""What signals ask of the program. A handler only sets a flag; the loop looks at it."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from types import FrameType

IMPATIENCE = 1.0  # seconds after which another Ctrl-C is one


@dataclass
class Wishes:
    """``terminals``: the standard streams that are one, if this process began with a terminal of its own."""

    stop: bool = False
    reload: bool = False
    _stopped: float = 0.0  # monotonic seconds
    terminals: tuple[int, ...] = field(default_factory=lambda: _terminals() if _has_terminal() else ())

    @contextmanager
    def heard(self) -> Iterator[None]:
        """SIGTERM and SIGINT stop; a second SIGINT (Ctrl-C) interrupts what still goes on.

        The SIGHUP of a terminal that closes stops, too; any other one reloads. A SIGHUP that is ignored, as
        after ``nohup``, stays ignored.
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
        """Nothing is lost by an interruption, but a supervisor may send one signal twice by mistake."""
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
    """Whether the process has a controlling terminal; the kernel takes it away before it says SIGHUP."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _terminals() -> tuple[int, ...]:
    return tuple(stream for stream in (0, 1, 2) if os.isatty(stream))


def _mute(streams: tuple[int, ...]) -> None:
    """What is still said goes nowhere, where a closed terminal would make it an error."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in streams:
        os.dup2(nowhere, stream)
    os.close(nowhere)
