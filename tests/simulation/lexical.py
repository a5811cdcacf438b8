"""The lexical index in the simulated world: a real file that people harm, and writes that die."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from ingestor.core.entries import join
from ingestor.lexical.file import LexicalFile, Unusable, open_for_reading
from ingestor.lexical.index import read_rows, row_of
from ingestor.model import Record
from ingestor.ports import Transient
from tests.lexical.worlds import kept
from tests.lexical.worlds import wanted as terms_of_records
from tests.simulation.ports.chaos import Chaos

_Rows = dict[str, tuple[bytes, str, str]]


class CrashingFile(LexicalFile):
    """Dies before and after a commit, and meets a full disk."""

    def __init__(self, path: Path, chaos: Chaos) -> None:
        super().__init__(path, synchronous="OFF")
        self.chaos = chaos

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        with super().transaction() as db:
            before = db.total_changes
            yield db
            written = db.total_changes > before
            if written:
                self.chaos.point("before lexical commit")
                if self.chaos.random.random() < self.chaos.error_rate / 4:
                    raise Transient("the disk of the lexical index is full")
        if written:
            self.chaos.point("after lexical commit")


def ticking() -> Callable[[], float]:
    """A clock that only grows, whatever happens to the other one."""
    ticks = count()
    return lambda: float(next(ticks))


def harm(path: Path, deed: str) -> None:
    """Somebody deletes the file, or writes over its beginning."""
    if deed == "unlink":
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    else:
        path.write_bytes(b"damage" * 1000)


def records_of(path: Path, uuids: tuple[str, ...]) -> _Rows:
    """The rows of a collection, whether it is complete or not; none if the file cannot be read."""
    with suppress(Unusable), open_for_reading(path) as db:
        for (number,) in db.execute("SELECT number FROM collections WHERE uuid = ?", (join(uuids),)):
            return read_rows(db, number, [row[0] for row in db.execute(f"SELECT id FROM records_{number}")])
    return {}


def difference(
    path: Path, uuids: tuple[str, ...], records: Sequence[Record], *, required: bool
) -> set[tuple[object, ...]]:
    """Rows, id first, that a complete lexical index lacks or has too many. ``required``: it is complete."""
    with suppress(Unusable), open_for_reading(path) as db:
        found = db.execute(
            "SELECT complete, number FROM collections WHERE uuid = ?", (join(uuids),)
        ).fetchone()
        complete, number = found or (0, 0)
        if complete:
            assert kept(db, number) == terms_of_records(db, number)
            wanted = {record.id: row_of(record) for record in records}
            return {*(records_of(path, uuids).items() ^ wanted.items())}
    return {("it is not complete",)} if required and records else set()
