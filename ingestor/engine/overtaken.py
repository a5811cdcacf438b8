"""Documents that are removed or changed while they are prepared: what was begun for them is abandoned.

Of a document that changes all the time every other version is carried through, so that readers get one now
and then. If version after version fails, because it changes while it is read, attempts become rarer.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ingestor.core.backoff import ceiling, has_passed
from ingestor.core.entries import Entry
from ingestor.state.columns import marks
from ingestor.state.journal import Journal

EVERY = 1.0  # seconds; a pause is seen no later
_AT_ONCE = 3  # versions of a document that are tried as they come, though each fails
_RAREST = 30.0  # seconds between two attempts at a document that always changes
_QUIET = 60.0  # seconds between two lines of the log about it
_KNOWN = 10_000  # documents


class Overtaken:
    """``look`` and ``landed`` belong to the engine's thread."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._spared = set[int]()  # rows of which a version was abandoned
        self._looked = -EVERY

    def due(self, now: float) -> bool:
        """Return whether the next look is due. ``now``: POSIX seconds."""
        return has_passed(self._looked, EVERY, now)

    def look(self, begun: Collection[Entry], now: float) -> set[int]:
        """Rows of those whose work is abandoned."""
        self._looked = now
        found = {row: (version, paused) for row, version, paused in self._now(begun)}
        overtaken = set[int]()
        for entry in begun:
            version, paused = found.get(entry.row, (None, False))
            changed = entry.item is None or version != entry.item.version
            if version is None or paused:
                overtaken.add(entry.row)
            elif changed and entry.row not in self._spared:
                self._spared.add(entry.row)
                overtaken.add(entry.row)
        return overtaken

    def carried_through(self, row: int) -> None:
        """A version of it was prepared to its end."""
        self._spared.discard(row)

    def unwanted(self, entry: Entry) -> bool:
        """Whether it must not be written: it was removed, or its source is paused."""
        return any(version is None or paused for _, version, paused in self._now([entry]))

    def _now(self, entries: Collection[Entry]) -> Iterator[tuple[int, str | None, bool]]:
        rows = [entry.row for entry in entries]
        query = f"""SELECT documents.id, wanted_version, paused IS NOT NULL
                    FROM documents LEFT JOIN sources ON sources.name = documents.source
                    WHERE documents.id IN ({marks(rows)})"""  # noqa: S608 - placeholders
        yield from self._journal.select(query, rows)


@dataclass(slots=True)
class _Failed:
    """Failures of one document in a row. ``versions``: their number. ``logged``: POSIX seconds."""

    version: str
    versions: int
    until: float
    logged: float


class Restless:
    """Documents whose versions fail one after the other. Belongs to the engine's thread."""

    def __init__(self) -> None:
        self._failed: dict[int, _Failed] = {}  # by row

    def failed(self, entry: Entry, now: float) -> bool:
        """Note that a version failed. Returns whether to log it: the first failure, others once a minute."""
        version, known = entry.item.version if entry.item else "", self._failed.get(entry.row)
        if known is None:
            if len(self._failed) >= _KNOWN:
                self._failed.clear()
            self._failed[entry.row] = _Failed(version, 1, 0.0, now)
            return not entry.attempts
        other, known.version = known.version != version, version
        known.versions += other
        if known.versions > _AT_ONCE:
            known.until = now + ceiling(known.versions - _AT_ONCE, _RAREST)
        logs = other and has_passed(known.logged, _QUIET, now)
        known.logged = now if logs else known.logged
        return logs

    def until(self, row: int, now: float) -> float | None:
        """When the document is tried again, in POSIX seconds; None if it may be tried now."""
        known = self._failed.get(row)
        waits = known is not None and now < known.until <= now + _RAREST
        return known.until if known is not None and waits else None

    def forget(self, row: int) -> None:
        """A version of it was prepared to its end."""
        self._failed.pop(row, None)
