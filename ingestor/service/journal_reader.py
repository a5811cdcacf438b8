"""The journal, read by another thread than its own: a connection that cannot write."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from ingestor.state.queries.browsing import natural_key


class JournalReader:
    """Threads may share it. A reader does not wait for the writer, nor the writer for it."""

    def __init__(self, path: Path) -> None:
        """Raises sqlite3.Error."""
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)
        self._db.execute("PRAGMA query_only=ON")
        self._db.create_function("natural_key", 1, natural_key, deterministic=True)
        self._lock = Lock()

    def select(self, query: str, values: Sequence[object] | dict[str, object] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._db.execute(query, values).fetchall()

    def close(self) -> None:
        """A query under way ends first: SQLite would crash."""
        with self._lock:
            self._db.close()
