"""Documents that are removed or changed while they are prepared: what was begun for them is abandoned.

Of a document that changes all the time every other version is carried through, so that readers get one now
and then.
"""

from collections.abc import Collection, Iterator

from ingestor.core.backoff import has_passed
from ingestor.core.entries import Entry
from ingestor.state.columns import marks
from ingestor.state.journal import Journal

EVERY = 1.0  # seconds; a pause is seen no later


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
