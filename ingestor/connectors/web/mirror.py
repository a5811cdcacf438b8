"""Stores pages that were read, in an SQLite file, so that unchanged pages need not be sent again.

Each page is stored in a transaction of its own. So after a crash the file holds the pages read until then.
"""

import json
import sqlite3
import zlib
from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path

from ingestor.connectors.http.answers import Page
from ingestor.connectors.shared.locks import hold_lock
from ingestor.connectors.web.content import blob_name
from ingestor.model import Blob, Item
from ingestor.ports import BadDocument, NeedsHuman, Stale, Transient

_SCHEMA = """
CREATE TABLE IF NOT EXISTS page (url TEXT PRIMARY KEY, facts TEXT NOT NULL, body BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS note (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


class Mirror:
    """Store of the pages and notes of one source, in ``file``, which the first scan creates.

    A note is a text stored under a name, such as the validators of a feed. Methods raise Transient if the
    file is unusable.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the file during a scan, against all programs that share it. Raises NeedsHuman."""
        with ExitStack() as held:
            try:
                self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._file.touch(0o600)  # an existing file keeps its permissions
                held.enter_context(hold_lock(f"{self._file}.lock"))
            except OSError as error:
                reason = f"{error.strerror}: choose another folder with `cache`"
                raise NeedsHuman(f"the page cache {self._file} can't be written: {reason}") from error
            # One connection stays open: SQLite writes to the disk at the last close, too slow for each page.
            held.enter_context(self._open())
            yield

    def page(self, url: str) -> Page | None:
        with self._open() as database:
            row = database.execute("SELECT facts FROM page WHERE url = ?", (url,)).fetchone()
        return _page(row[0]) if row else None

    def pages(self) -> list[Page]:
        with self._open() as database:
            return [_page(facts) for (facts,) in database.execute("SELECT facts FROM page ORDER BY url")]

    def keep(self, page: Page, body: bytes | None = None) -> None:
        """Store a page with its content, in place of the page that was stored for the same address."""
        packed = None if body is None else zlib.compress(body, 1)
        with self._open() as database:
            database.execute(
                "REPLACE INTO page VALUES (?, ?, ?)", (page.url, json.dumps(asdict(page)), packed)
            )

    def fetch(self, item: Item) -> Blob:
        """Return the content of a page as it was listed.

        Raises Stale if the page was read again since, and BadDocument if its content cannot be indexed.
        """
        body = self.body(item.key, item.version)
        if body is None:
            raise Stale(f"{item.uri} is not stored in this version: the next scan lists it again")
        page, data = body
        if page.problem:
            raise BadDocument(page.problem)
        return Blob(data, blob_name(page), page.content_type)

    def body(self, url: str, version: str) -> tuple[Page, bytes] | None:
        """Return the page stored for an address, and its content; None if that version is not stored."""
        with self._open() as database:
            row = database.execute("SELECT facts, body FROM page WHERE url = ?", (url,)).fetchone()
        if row is None or _page(row[0]).version != version:
            return None
        return _page(row[0]), zlib.decompress(row[1]) if row[1] else b""

    def keep_only(self, urls: Collection[str]) -> None:
        """Delete all pages except those with these addresses."""
        with self._open() as database:
            urls_stored = [url for (url,) in database.execute("SELECT url FROM page")]
            others = [(url,) for url in urls_stored if url not in urls]
            database.executemany("DELETE FROM page WHERE url = ?", others)

    def note(self, name: str) -> str | None:
        with self._open() as database:
            row = database.execute("SELECT value FROM note WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else None

    def write_note(self, name: str, value: str) -> None:
        with self._open() as database:
            database.execute("REPLACE INTO note VALUES (?, ?)", (name, value))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open a connection for one transaction. Raises Transient.

        Connections are not shared, because workers read while a scan writes. A damaged file gets the ending
        ``.damaged``, and the next call creates a new file.
        """
        try:
            with closing(sqlite3.connect(self._file, timeout=60)) as database:
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("PRAGMA synchronous = NORMAL")
                database.executescript(_SCHEMA)
                with database:
                    yield database
        except sqlite3.OperationalError as error:  # a full disk, another program
            raise Transient(
                f"the page cache {self._file} can't be used now, will be retried: {error}"
            ) from error
        except sqlite3.DatabaseError as error:
            self._file.replace(f"{self._file}.damaged")
            raise Transient(
                f"the page cache {self._file} is damaged and will be created again: {error}"
            ) from error


def _page(facts: str) -> Page:
    values = json.loads(facts)
    extra = tuple((name, value) for name, value in values.pop("extra"))
    return Page(**{**values, "links": tuple(values["links"]), "extra": extra})


def short(*parts: object) -> str:
    """Return a short digest of some values, to be used in the name of a file."""
    return blake2b(repr(parts).encode("utf-8", "replace"), digest_size=16).hexdigest()
