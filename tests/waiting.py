"""Wait for what happens in another thread or process, without a bound that a busy machine could miss."""

import time
from collections.abc import Callable
from typing import Any

LONG = 60.0  # seconds; the bound of other waits, which only a defect reaches


def wait(condition: Callable[[], Any], seconds: float = 240.0, every: float = 0.01) -> Any:
    """Return the first true value of ``condition``; fail after ``seconds``.

    The pauses grow with the time waited and with the cost of asking, which slows what is waited for.
    """
    begun = asked = time.monotonic()
    while not (value := condition()):
        now = time.monotonic()
        if now - begun > seconds:
            raise AssertionError(f"not within {seconds:.0f} s: {condition}")
        time.sleep(max(every, 2 * (now - asked), min((now - begun) / 10, 0.4)))
        asked = time.monotonic()
    return value
