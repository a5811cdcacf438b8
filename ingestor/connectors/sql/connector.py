"""Connector ``sql``: each row of a query becomes a document, by a template with its columns.

All databases of SQLAlchemy are supported. A scan reads key, version and the columns named in ``uri`` and
``metadata`` of every row, so that deletions are noticed. The text is read for changed rows only. A version is
a digest of the columns that the scan reads; without a version column these are all columns. With a ``cursor``
column (a high-water mark), new and changed rows are listed between scans. The query runs unchanged inside
another SELECT; nothing is written.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, Field, SecretStr

from ingestor.connectors.shared.keys import cover, is_covered
from ingestor.connectors.shared.patterns import check_size
from ingestor.connectors.shared.typed import posix, scalar, text
from ingestor.connectors.sql.database import Database
from ingestor.connectors.sql.polling import LIMIT, Mark, Rows, poll
from ingestor.model import Blob, Hint, Item
from ingestor.ports import BadDocument, NeedsHuman, PartialScan, Stale, Stop, Transient
from ingestor.registry import Options, Plugin, tuning
from ingestor.units import Duration, Size

if TYPE_CHECKING:
    from sqlalchemy import Connection

_BY_NAME = {"int": int, "str": str, "UUID": UUID}  # types of keys; a version begins with the name of the type
_UNLIKE = re.compile(r"[%\\\[]")  # characters with a meaning in LIKE of some databases
_HAS_PASSWORD = re.compile(r"://[^/:]*:[^@]+@|(?:password|passwd|pwd)(?:=|%3d)", re.IGNORECASE)
_Row = Mapping[str, Any]
_COLUMN = re.compile(r"\{(\w+(?:\.\w+)*)\}")  # in a template, as in ``# {title}``
_Lookup = Callable[[str], object]


def _address(url: str) -> str:
    if not re.match(r"[a-z0-9_+]+://", url):
        raise ValueError("must be a SQLAlchemy URL such as postgresql+psycopg://user@host/database")
    if _HAS_PASSWORD.search(url):
        raise ValueError("must not hold a password: put it into `password`, which is kept secret")
    return url


def _select(query: str) -> str:
    query = query.strip().rstrip(";")
    if not re.match(r"(select|with)\b", query, re.IGNORECASE):
        raise ValueError("must be a SELECT")
    return query


def _template(text: str) -> str:
    if not _columns(text):
        raise ValueError("must name a column in braces, as in {title}")
    return text


_Template = Annotated[str, AfterValidator(_template)]

_MOST_ROWS = 5_000_000  # of one listing
_LISTING = 3600.0  # seconds
_LONGEST_KEY = 1000  # characters
_TOGETHER = 100  # rows in memory at a time; a row may have many megabytes


class SqlOptions(Options):
    url: Annotated[str, AfterValidator(_address)] = Field(
        description="SQLAlchemy URL: `postgresql+psycopg://user@host/name`, `mysql+pymysql://…`, "
        "`sqlite:////path`; the driver must be installed"
    )
    password: SecretStr | None = Field(default=None, description="password")
    query: Annotated[str, AfterValidator(_select)] = Field(description="SELECT; each row becomes a document")
    key: str = Field(description="column that identifies a row: whole numbers, text or UUIDs")
    version: str | None = Field(
        default=None,
        description="column that changes with the row, such as a time of change; without one, every scan "
        "reads all rows",
    )
    cursor: str | None = tuning(
        None,
        description="column that grows with every write, such as a time of change; with one, changes are "
        "found between full scans",
    )
    poll: Duration = tuning(10.0, gt=0, description="time between checks of `cursor`")
    text: _Template = Field(description="template of the document, with columns in braces: `# {title}`")
    file_name: str = Field(default="{key}.md", description="file name; its ending sets the format")
    uri: _Template | None = Field(
        default=None, description="address of the row for people: `https://tickets.example.org/{id}`"
    )
    metadata: list[str] = Field(default=[], description="columns to copy into the metadata")
    max_size: Size = Field(default=50 * 10**6, description="larger documents are reported, not read")


class Sql:
    """Connector and Scoped for a database."""

    def __init__(self, options: SqlOptions) -> None:
        self._options = options
        self.database = Database(options.url, options.password)
        shown = [*options.metadata, *_columns(options.uri or "")]
        versioned = [options.key, *([options.version] if options.version else []), *shown]
        self._listed = list(dict.fromkeys(versioned)) if options.version else None  # None: all columns
        self._kinds: set[str] = set()  # types of the keys up to now
        self._nested = False  # whether a key has a slash
        self._shown = False  # whether a complete listing set the two fields above

    def scan(self) -> Iterator[Item]:
        """Yield all rows. Raises NeedsHuman (login, query, key) or Transient."""
        return self.scan_under("")

    def scan_under(self, under: str) -> Iterator[Item]:
        """Yield the rows at or below a key. Reads all rows until a complete listing has shown the keys'
        types.

        Rows without a unique key are reported at the end, by NeedsHuman if no row has one.
        """
        seen: set[str] = set()
        wrong: list[str] = []
        twice: set[str] = set()
        until = time.monotonic() + _LISTING
        with self.database.connect() as connection:
            for number, row in enumerate(self._rows(connection, under), 1):
                if number > _MOST_ROWS or time.monotonic() > until:
                    raise NeedsHuman(
                        f"the query gives more than {_MOST_ROWS:,} rows, or takes more than {_LISTING:g} s: "
                        "narrow it"
                    )
                try:
                    item = self._item(row)
                except BadDocument as error:
                    wrong.append(f"row {number} ({_excerpt(row)}): {error}")
                    continue
                if item.key in seen:
                    twice.add(item.key)
                    wrong.append(f"{self._options.key} is {item.key!r} in two rows: correct `key` or `query`")
                    continue
                seen.add(item.key)
                if item.key == under or is_covered(item.key, {under}):
                    yield item
        self._shown = self._shown or (not under and bool(seen))
        if wrong:
            more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            raise (
                NeedsHuman(wrong[0] + more)
                if not seen - twice
                else PartialScan(wrong[0] + more, cover(twice, _TOGETHER))
            )

    def fetch(self, item: Item) -> Blob:
        with self.database.connect() as connection:
            from sqlalchemy import column

            key = _BY_NAME[item.version.partition(" ")[0]](item.key)
            statement = self._select(None).where(column(self._options.key) == key)
            rows = [_plain(row._mapping) for row in connection.execute(statement)]
            if len(rows) > 1:
                raise Transient(f"{self._options.key} is {item.key!r} in two rows: correct `key` or `query`")
            if not rows:
                raise Stale(f"{item.uri} vanished since it was listed")
            if self._item(rows[0]).version != item.version:
                raise Stale(f"{item.uri} changed since it was listed")
            data = _fill(self._options.text, rows[0].__getitem__)
            name = _fill_text(self._options.file_name, {"key": item.key, **rows[0]}.__getitem__)
        check_size(item, len(data), self._options.max_size)
        return Blob(data, name.rpartition("/")[2])

    def newest(self, cursor: str, mark: Mark) -> Rows:
        """Return the newest rows that are not older than the mark; "" for a value that cannot be a key."""
        with self.database.connect() as connection:
            from sqlalchemy import column

            value = column(cursor)
            statement = self._select([self._options.key, cursor])
            if mark.value is None:
                statement = statement.where(value.is_not(None))
            else:
                statement = statement.where(value > mark.value if mark.crowded else value >= mark.value)
            rows = connection.execute(statement.order_by(value.desc()).limit(LIMIT)).all()
        known = []
        for key, value in rows:
            name = ""
            with suppress(BadDocument):
                name = self._key(key)
            known.append((name, _exact(value)))
        return known

    def _rows(self, connection: "Connection", under: str) -> Iterator[_Row]:
        statement = self._select(self._listed)
        if under and self._shown:
            statement = statement.where(self._at(under))
        for row in connection.execute(statement.execution_options(yield_per=_TOGETHER)):
            yield _plain(row._mapping)

    def _select(self, names: list[str] | None) -> Any:
        """Build a SELECT of some columns from the query."""
        from sqlalchemy import column, literal_column, select, text

        query = self._options.query.replace(":", "\\:")  # a colon would start a parameter
        chosen = [literal_column("*")] if names is None else [column(name) for name in names]
        return select(*chosen).select_from(text(f"({query}\n) documents"))  # the query may end with a comment

    def _at(self, under: str) -> Any:
        """Return a condition that rows at or below a key meet, and perhaps other rows.

        The database can use an index for a single key. If no key has a slash, no other row is searched.
        """
        from sqlalchemy import column, false, or_

        key = column(self._options.key)
        met = [key == value for value in _values(under, self._kinds)]
        below = [key.like(f"{_UNLIKE.sub('_', under)}/%")] if self._nested else []
        return or_(false(), *met, *below)

    def _item(self, row: _Row) -> Item:
        options = self._options
        key = row[options.key]
        known = self._key(key)
        changed = row[options.version] if options.version else None
        shown = repr([(name, row[name]) for name in sorted(self._listed or row)])
        digest = blake2b(shown.encode("utf-8", "replace"), digest_size=16).hexdigest()
        uri = _fill_text(options.uri, row.__getitem__) if options.uri else f"{options.url}/{key}"
        extra = tuple((name, scalar(row[name])) for name in options.metadata)
        return Item(known, f"{type(key).__name__} {digest}", uri, None, _seconds(changed), extra)

    def _key(self, key: object) -> str:
        kind, name = type(key).__name__, str(key)
        if len(name) > _LONGEST_KEY:
            raise BadDocument(f"{self._options.key} has more than {_LONGEST_KEY:,} characters: correct `key`")
        if kind not in _BY_NAME or not name:
            shown = "NULL" if key is None else repr(key)
            raise BadDocument(f"{self._options.key} is {shown}: a key is a whole number, text or a UUID")
        self._kinds.add(kind)
        self._nested = self._nested or "/" in name
        return name


class WatchedDatabase:
    """Connector, Scoped and Watchable for a database with a `cursor` column."""

    def __init__(self, sql: Sql, cursor: str, poll: float) -> None:
        self._sql, self._cursor, self._poll = sql, cursor, poll
        self.scan_under, self.fetch, self.database = sql.scan_under, sql.fetch, sql.database

    def scan(self) -> Iterator[Item]:
        """Yield the rows of ``Sql.scan``. Also reports problems of the `cursor` column."""
        self._sql.newest(self._cursor, Mark())
        yield from self._sql.scan()

    def watch(self, stop: Stop) -> Iterator[Hint]:
        return poll(partial(self._sql.newest, self._cursor), self._poll, stop)


def _build(options: SqlOptions) -> Sql | WatchedDatabase:
    sql = Sql(options)
    return sql if options.cursor is None else WatchedDatabase(sql, options.cursor, options.poll)


def _values(text: str, kinds: set[str]) -> Iterator[object]:
    """Yield the keys of those types with that text."""
    for kind in sorted(kinds):
        with suppress(ValueError):
            value = _BY_NAME[kind](text)
            if str(value) == text:
                yield value


def _plain(row: _Row) -> dict[str, Any]:
    return {name: bytes(value) if isinstance(value, memoryview) else value for name, value in row.items()}


def _columns(template: str) -> list[str]:
    """Return the names of the columns in a template, in order."""
    return _COLUMN.findall(template)


def _fill(template: str, value: _Lookup) -> bytes:
    """Fill the template, in UTF-8. A template that is one column returns the column's bytes."""
    alone = _COLUMN.fullmatch(template)
    content = value(alone[1]) if alone else None
    return content if isinstance(content, bytes) else _fill_text(template, value).encode()


def _fill_text(template: str, value: _Lookup) -> str:
    """Return the filled template as text, without lone surrogates."""
    return text(_COLUMN.sub(lambda column: _as_text(value(column[1])), template))


def _as_text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)


def _excerpt(row: _Row) -> str:
    """Return the beginning of a row, for people."""
    return ", ".join(f"{name}: {value!s:.40}" for name, value in row.items() if value is not None)[:120]


def _exact(value: object) -> object:
    """Return times in UTC: in a local zone two times an hour apart can look the same."""
    if isinstance(value, datetime) and value.tzinfo:
        return value.astimezone(UTC)
    return _plain({"": value})[""]


def _seconds(value: object) -> float | None:
    """Return POSIX seconds of a time; UTC if it has no zone."""
    if not isinstance(value, datetime):
        return None
    return posix(value)


PLUGIN = Plugin(kind="sql", version=1, options=SqlOptions, build=_build)
