"""Deeds of people who lose journal or Chroma, or restore a backup; and of strangers who replace metadata."""

import sqlite3
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from ingestor.state.editions import Requests
from tests.memory_index import MemoryIndex
from tests.simulation.ports.collections import CrashingIndex

if TYPE_CHECKING:
    from tests.simulation.world import World

DEEDS = ("back up", "older journal", "older Chroma", "stranger", "lose journal", "lose Chroma", "adopt")
Collections = dict[str, tuple[CrashingIndex, str]]


@dataclass
class Backups:
    """Kept copies of both stores, each of any moment."""

    world: "World"
    journal: Path | None = None
    gone_since: dict[int, float] = field(default_factory=dict)
    collections: Collections | None = None

    def do(self, deed: str, random: Random) -> None:
        if deed == "back up":
            if random.random() < 0.5:
                self.keep_journal()
            else:
                self.keep_collections()
        elif deed == "stranger":
            self._replace_metadata(random)
        elif deed == "adopt":
            self.adopt()
        elif deed == "older journal" and self.journal is not None:
            self._remove_journal()
            self.world.folder.joinpath("journal.sqlite3").write_bytes(self.journal.read_bytes())
            self.world.gone_since.update(self.gone_since)
            self._restart()
        elif deed == "older Chroma" and self.collections is not None:
            self.world.end()
            self.world.shelves.collections = _copied(self.collections)
            self._restart()
        elif deed in ("lose journal", "lose Chroma"):
            self._lose(deed, random)

    def adopt(self) -> None:
        """The collections of a lost state are given up."""
        if self.world.shelves.adopt():
            Requests(self.world.journal).arrange()

    def _lose(self, deed: str, random: Random) -> None:
        if deed == "lose journal":
            self._remove_journal()
            if random.random() < 0.5:
                self.world.words.unlink(missing_ok=True)
        else:
            self.world.end()
            self.world.shelves.collections.clear()
        self._restart()

    def _remove_journal(self) -> None:
        self.world.end()
        for suffix in ("", "-wal", "-shm"):
            self.world.folder.joinpath(f"journal.sqlite3{suffix}").unlink(missing_ok=True)
        self.world.gone_since.clear()

    def keep_collections(self) -> None:
        self.collections = _copied(self.world.shelves.collections)

    def keep_journal(self) -> None:
        self.journal = self.world.folder / "journal-kept.sqlite3"
        self.journal.unlink(missing_ok=True)
        database = self.world.folder / "journal.sqlite3"
        with closing(sqlite3.connect(database)) as now, closing(sqlite3.connect(self.journal)) as kept:
            now.backup(kept)
        self.gone_since = dict(self.world.gone_since)

    def _replace_metadata(self, random: Random) -> None:
        """An app replaces what the collection's metadata holds, under the running program."""
        self.world.shelves.restored = True
        for name in self.world.readers.names():
            noted = self.world.shelves.collections[name][0].inner.noted
            noted.clear()
            noted |= random.choice([{}, {"team": "library"}])

    def _restart(self) -> None:
        """Nobody promises what readers had before the restore."""
        self.world.shelves.restored = True
        self.world.disturbed = True
        self.world.start()
        self.world.readers.forget()
        for files in self.world.places.values():
            files.withdrawn, files.had, files.accepted, files.most = set(), set(), False, 0


def _copied(collections: Collections) -> Collections:
    return {
        name: (
            CrashingIndex(
                MemoryIndex(dict(index.inner.records), dict(index.inner.noted)),
                index.chaos,
                index.copies,
                deepcopy(index.settings),
            ),
            uuid,
        )
        for name, (index, uuid) in collections.items()
    }
