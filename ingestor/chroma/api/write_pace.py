"""How many records a request writes: as many as Chroma adds in half a second. Pure.

Chroma answers no reader of a collection while it adds the records of a request to its graph. A record takes
6 ms among 100,000, and 30 ms where it replaces another; decision 0058 has the figures.
"""

SECONDS = 0.5
_FIRST = 100  # records, before anything is known


class WritePace:
    """``least``: records of a request, however long they take."""

    def __init__(self, least: int) -> None:
        self._least, self._each = least, SECONDS / _FIRST

    @property
    def records(self) -> int:
        return max(self._least, int(SECONDS / self._each))

    def wrote(self, records: int, seconds: float) -> None:
        """Slower records count at once, faster ones by halves. A small request says little of its records."""
        if records >= self._least:
            now = max(seconds / records, 1e-9)
            self._each = max(now, (self._each + now) / 2)
