"""The lexical file, read by threads that ask often: connections are kept open between questions.

To open one and to read the tables' definitions takes as long as a question to a small collection.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from ingestor.lexical.file import opened_to_read, unreadable

_File = tuple[int, int]  # device and inode
_MAPPED = 2**31 - 1  # bytes of the file that SQLite reads without copying them into a cache of its own


class LexicalReaders:
    """Any thread. There are as many connections as were ever used at once."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, Lock()
        self._idle: list[tuple[_File, sqlite3.Connection]] = []
        self._closed = False

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for this thread alone. Raises Unusable, also later; it is then not used again."""
        file, db = self._taken()
        try:
            yield db
        except sqlite3.DatabaseError as error:
            db.close()
            raise unreadable(self._path, error) from error
        except BaseException:
            db.close()
            raise
        self._put_back(file, db)

    def close(self) -> None:
        """Connections in use are closed by those who use them."""
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.pop()[1].close()

    def _taken(self) -> tuple[_File, sqlite3.Connection]:
        """Take a connection to the present file, which may have replaced an earlier one."""
        file = _file(self._path)
        with self._lock:
            while self._idle:
                of, db = self._idle.pop()
                if of == file:
                    return of, db
                db.close()
        db = opened_to_read(self._path)
        db.execute(f"PRAGMA mmap_size = {_MAPPED}")
        return file, db

    def _put_back(self, file: _File, db: sqlite3.Connection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append((file, db))
                return
        db.close()


def _file(path: Path) -> _File:
    try:
        found = path.stat()
    except OSError as error:
        raise unreadable(path, error) from error
    return found.st_dev, found.st_ino
