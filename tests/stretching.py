"""A machine that is busier than it is, for runs that look for tests which depend on its speed.

With ``INGESTOR_TEST_STRETCH=3`` in the environment every sleep of the tests' process takes thrice as long.
Each thread begins late, and is late to notice that what it waited for has come.
"""

import threading
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

LATE = 0.03  # seconds


def stretch(factor: float) -> None:
    """Stretch the sleeps of this process, and delay the beginning and the awaking of its threads."""
    sleep, run, wait, event = (
        time.sleep,
        threading.Thread.start,
        threading.Condition.wait,
        threading.Event.wait,
    )

    def late(begin: Callable[[], Any]) -> Callable[[], Any]:
        @wraps(begin)
        def delayed() -> Any:
            sleep(LATE * (factor - 1))
            return begin()

        return delayed

    def start(self: threading.Thread) -> None:
        self.run = late(self.run)  # type: ignore[method-assign]
        run(self)

    def notice(self: threading.Condition, timeout: float | None = None) -> bool:
        came = wait(self, timeout)
        if came and threading.current_thread() is not threading.main_thread():
            self.release()
            sleep(LATE * (factor - 1) / 4)
            self.acquire()
        return came

    def pause(self: threading.Event, timeout: float | None = None) -> bool:
        return event(self, timeout and factor * timeout)

    time.sleep = lambda seconds: sleep(factor * seconds)
    threading.Thread.start = start  # type: ignore[method-assign]
    threading.Condition.wait = notice  # type: ignore[method-assign]
    threading.Event.wait = pause  # type: ignore[method-assign]
