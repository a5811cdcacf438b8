"""Connector ``sql``: each row of a query becomes a document, by a template with the row's columns.

All databases of SQLAlchemy are supported. A scan reads key, version and the columns named in ``uri`` and
``metadata`` of every row, so that deletions are noticed. The text is read for changed rows only. A version is
a digest of the columns that the scan reads; without a version column these are all columns. With a ``cursor``
column (a high-water mark), new and changed rows are listed between scans. The query runs unchanged inside
another SELECT; nothing is written.
"""

import logging
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID
from weakref import finalize

from pydantic import AfterValidator, Field, SecretStr

from ingestor.connectors.shared.keys import cover, is_covered
from ingestor.connectors.shared.patterns import check_size
from ingestor.connectors.shared.typed import posix, scalar, text
from ingestor.model import Blob, Hint, Item
from ingestor.ports import BadDocument, NeedsHuman, PartialScan, Stale, Stop, Transient
from ingestor.registry import Options, Plugin, tuning
from ingestor.units import Duration, Size

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

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
        raise ValueError("must not contain a password: put it into `password`, which is kept secret")
    return url


def _select(query: str) -> str:
    query = query.strip().rstrip(";")
    if not re.match(r"(select|with)\b", query, re.IGNORECASE):
        raise ValueError("must be a SELECT statement")
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


_HUMAN = re.compile(
    r"authentication failed|access denied|permission denied|not permitted|pg_hba\.conf|password"
    r"|no such (table|column|function)|does not exist|doesn't exist|unknown (column|database)|unable to open"
    r"|syntax error",
    re.IGNORECASE,
)
_SECONDS = 30  # time limit of connecting


class Database:
    """A database that SQLAlchemy can connect to. ``url``: without a password. Threads may share an object."""

    def __init__(self, url: str, password: SecretStr | None) -> None:
        self._url, self._password = url, password

    @contextmanager
    def connect(self) -> Iterator["Connection"]:
        """Open a connection until the context ends. Raises Transient.

        Raises NeedsHuman if the login, the query or a column is wrong.
        """
        try:
            from sqlalchemy.exc import SQLAlchemyError
        except ImportError as error:
            raise NeedsHuman(
                f"SQLAlchemy is not installed; to install it: {sys.executable} -m pip install sqlalchemy"
            ) from error
        try:
            with self.engine.connect() as connection:
                yield connection
        except (SQLAlchemyError, OSError) as error:
            raise self._trouble(error) from error
        except KeyError as error:
            raise NeedsHuman(
                f"the query returns no column {error}: correct `query`, or the options that name the column"
            ) from error

    @cached_property
    def engine(self) -> "Engine":
        """Create SQLAlchemy's engine at its first use. Two threads may create one each. Raises NeedsHuman."""
        from sqlalchemy import create_engine, make_url

        url = make_url(self._url)
        if self._password is not None:
            url = url.set(password=self._password.get_secret_value())
        waits = _time_limits(url.drivername.partition("+")[2])
        arguments = {name: value for name, value in waits.items() if name not in url.query}
        try:
            engine = create_engine(url, pool_pre_ping=True, hide_parameters=True, connect_args=arguments)
        except ImportError as error:
            wanted = f"{sys.executable} -m pip install {error.name}"
            raise NeedsHuman(
                f"the driver of {self._url} is not installed; to install it: {wanted}"
            ) from error
        finalize(self, engine.dispose)  # closes the connections of a source that left the config
        return engine

    def _trouble(self, error: Exception) -> Exception:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        if _HUMAN.search(reason) or type(error).__name__ in (
            "ProgrammingError",
            "NoSuchModuleError",
            "ArgumentError",
        ):
            return NeedsHuman(f"{self._url} can't be read ({reason}): check `url`, `password` and `query`")
        return Transient(f"{self._url} can't be read now, will be retried: {reason}")


def _time_limits(driver: str) -> dict[str, int]:
    """Return arguments that limit how long a driver waits for a server; empty for unknown drivers."""
    if driver in ("psycopg", "psycopg2"):
        lost = {"keepalives_idle": _SECONDS, "keepalives_interval": 10, "keepalives_count": 3}
        return {"connect_timeout": _SECONDS, "tcp_user_timeout": _SECONDS * 1000, **lost}
    if driver == "pymysql":
        return {"connect_timeout": _SECONDS, "read_timeout": _SECONDS * 10}
    return {"timeout": _SECONDS * 10} if driver == "pg8000" else {}


LIMIT = 1000  # rows of one poll; a full page means that there may be more
Rows = Sequence[tuple[str, object]]  # key and value of ``cursor``, the newest first, at most ``LIMIT``


@dataclass(frozen=True, slots=True)
class Mark:
    """High-water mark: the highest value of the ``cursor`` column at the last poll.

    ``value``: None if no row had a value. ``keys``: keys of the rows with that value, because a later row may
    have the same value. ``crowded``: whether too many rows have that value; then ``keys`` is empty, and only
    rows with higher values are found.
    """

    value: object = None
    keys: frozenset[str] = frozenset()
    crowded: bool = False


def mark_of(rows: Rows) -> Mark:
    """Return the mark after a poll.

    ``rows``: key and cursor value of the rows that it read, the newest first.
    """
    if not rows:
        return Mark()
    newest = rows[0][1]
    if len(rows) >= LIMIT and rows[-1][1] == newest:
        return Mark(newest, crowded=True)
    return Mark(newest, frozenset(key for key, value in rows if value == newest))


def keys_of_changes(before: Mark, rows: Rows) -> set[str]:
    """Return the keys of rows that changed since the last poll; "" stands for all rows.

    These rows were written since, or were at the mark and are gone. ``before``: the mark of the last poll.
    """
    if len(rows) >= LIMIT:
        return {""}
    written = {key for key, value in rows if value != before.value or key not in before.keys}
    return written | (before.keys - {key for key, _ in rows})


HINTS = 500  # at once; more are merged
Newest = Callable[[Mark], Rows]
_log = logging.getLogger(__name__)


def poll(newest: Newest, every: float, stop: Stop) -> Iterator[Hint]:
    """Yield hints of new and changed rows until ``stop`` is set. ``every``: seconds between two polls.

    The first hint is for all rows. If the database cannot be read then, that hint is repeated when it can.
    """
    mark: Mark | None = None
    under = {""}
    while not stop.is_set():
        try:
            mark, under = _poll_once(newest, mark)
        except (NeedsHuman, Transient) as error:
            # only for debugging, because the next scan reports the error
            _log.debug("database can't be polled for changes, will retry: %s", error)
        yield from map(Hint, cover(under, HINTS))
        under = set()
        stop.wait(every)


def _poll_once(newest: Newest, before: Mark | None) -> tuple[Mark, set[str]]:
    """Poll the database.

    Return the new mark, and the keys to scan. ``before``: the last mark; None at first.
    """
    rows = newest(before or Mark())
    if before is None:
        return mark_of(rows), {""}
    if rows:
        return mark_of(rows), keys_of_changes(before, rows)
    if before.keys and not newest(Mark()):
        return Mark(), {""}  # the table is empty, and the column may restart
    return Mark(before.value, crowded=before.crowded), set(before.keys)


class Sql:
    """Connector for the rows of a query. Implements Scoped, too."""

    def __init__(self, options: SqlOptions) -> None:
        self._options = options
        self.database = Database(options.url, options.password)
        shown = [*options.metadata, *_columns(options.uri or "")]
        versioned = [options.key, *([options.version] if options.version else []), *shown]
        self._listed = list(dict.fromkeys(versioned)) if options.version else None  # None: all columns
        self._kinds: set[str] = set()  # types of the keys up to now
        self._nested = False  # whether a key has a slash
        self._has_listed = False  # whether a complete scan set the two fields above

    def scan(self) -> Iterator[Item]:
        """Yield all rows.

        Raises Transient. Raises NeedsHuman if the login, the query or the keys are wrong.
        """
        return self.scan_under("")

    def scan_under(self, under: str) -> Iterator[Item]:
        """Yield the rows at or below a key. Raises NeedsHuman or Transient.

        Until a first complete scan, all rows are read, because the types of keys are not known yet. Rows
        without a unique key are reported at the end: by PartialScan, or by NeedsHuman if no row has a unique
        key.
        """
        seen: set[str] = set()
        wrong: list[str] = []  # messages about rows without a unique key
        twice: set[str] = set()  # keys of several rows, of which the first is yielded
        until = time.monotonic() + _LISTING
        with self.database.connect() as connection:
            for number, row in enumerate(self._rows(connection, under), 1):
                if number > _MOST_ROWS or time.monotonic() > until:
                    raise NeedsHuman(
                        f"the query returns more than {_MOST_ROWS:,} rows, or runs longer "
                        f"than {_LISTING:g} s: select fewer rows"
                    )
                try:
                    item = self._item(row)
                except BadDocument as error:
                    wrong.append(f"row {number} ({_excerpt(row)}): {error}")
                    continue
                if item.key in seen:
                    twice.add(item.key)
                    wrong.append(
                        f"column {self._options.key} is {item.key!r} in two rows: correct `key` or `query`"
                    )
                    continue
                seen.add(item.key)
                if item.key == under or is_covered(item.key, {under}):
                    yield item
        self._has_listed = self._has_listed or (not under and bool(seen))
        if wrong:
            more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            if not seen - twice:
                raise NeedsHuman(wrong[0] + more)
            raise PartialScan(wrong[0] + more, cover(twice, _TOGETHER))

    def fetch(self, item: Item) -> Blob:
        """Return the text of a row: the template with the row's values.

        Raises Stale, Transient or BadDocument. Raises NeedsHuman if the query is wrong.
        """
        with self.database.connect() as connection:
            from sqlalchemy import column

            key = _BY_NAME[item.version.partition(" ")[0]](item.key)
            statement = self._select(None).where(column(self._options.key) == key)
            rows = [_plain(row._mapping) for row in connection.execute(statement)]
            if len(rows) > 1:
                raise Transient(
                    f"column {self._options.key} is {item.key!r} in two rows: correct `key` or `query`"
                )
            if not rows:
                raise Stale(f"{item.uri} vanished since it was listed")
            if self._item(rows[0]).version != item.version:
                raise Stale(f"{item.uri} changed since it was listed")
            data = _fill(self._options.text, rows[0].__getitem__)
            name = _fill_text(self._options.file_name, {"key": item.key, **rows[0]}.__getitem__)
        check_size(item, len(data), self._options.max_size)
        return Blob(data, name.rpartition("/")[2])

    def newest(self, mark: Mark) -> Rows:
        """Return key and cursor value of the rows at and above the mark, the newest first.

        The key of a row is "" if its value cannot be a key.
        """
        with self.database.connect() as connection:
            from sqlalchemy import column

            cursor = str(self._options.cursor)
            value = column(cursor)
            statement = self._select([self._options.key, cursor])
            if mark.value is None:
                statement = statement.where(value.is_not(None))
            else:
                statement = statement.where(value > mark.value if mark.crowded else value >= mark.value)
            rows = connection.execute(statement.order_by(value.desc()).limit(LIMIT)).all()
        newest = []
        for key, value in rows:
            name = ""
            with suppress(BadDocument):
                name = self._key(key)
            newest.append((name, _exact(value)))
        return newest

    def _rows(self, connection: "Connection", under: str) -> Iterator[_Row]:
        statement = self._select(self._listed)
        if under and self._has_listed:
            statement = statement.where(self._at(under))
        for row in connection.execute(statement.execution_options(yield_per=_TOGETHER)):
            yield _plain(row._mapping)

    def _select(self, names: list[str] | None) -> Any:
        """Build a SELECT of some columns around the query of the config.

        ``names``: the columns; None for all.
        """
        from sqlalchemy import column, literal_column, select, text

        query = self._options.query.replace(":", "\\:")  # a colon would start a parameter
        chosen = [literal_column("*")] if names is None else [column(name) for name in names]
        return select(*chosen).select_from(text(f"({query}\n) documents"))  # the query may end with a comment

    def _at(self, under: str) -> Any:
        """Return a condition that finds all rows at or below a key, and perhaps other rows.

        The database can use an index for a single key. Rows below a key are searched only if some key has a
        slash.
        """
        from sqlalchemy import column, false, or_

        key = column(self._options.key)
        met = [key == value for value in _values(under, self._kinds)]
        below = [key.like(f"{_UNLIKE.sub('_', under)}/%")] if self._nested else []
        return or_(false(), *met, *below)

    def _item(self, row: _Row) -> Item:
        options = self._options
        key = row[options.key]
        name = self._key(key)
        changed = row[options.version] if options.version else None
        shown = repr([(column, row[column]) for column in sorted(self._listed or row)])
        digest = blake2b(shown.encode("utf-8", "replace"), digest_size=16).hexdigest()
        uri = _fill_text(options.uri, row.__getitem__) if options.uri else f"{options.url}/{key}"
        extra = tuple((column, scalar(row[column])) for column in options.metadata)
        modified = posix(changed) if isinstance(changed, datetime) else None
        return Item(name, f"{type(key).__name__} {digest}", uri, None, modified, extra)

    def _key(self, key: object) -> str:
        """Convert a value of the key column to the key of an item.

        Raises BadDocument if that is impossible.
        """
        kind, name = type(key).__name__, str(key)
        if len(name) > _LONGEST_KEY:
            raise BadDocument(
                f"column {self._options.key} has more than {_LONGEST_KEY:,} characters: correct `key`"
            )
        if kind not in _BY_NAME or not name:
            shown = "NULL" if key is None else repr(key)
            raise BadDocument(
                f"column {self._options.key} is {shown}: `key` must be whole numbers, texts or UUIDs"
            )
        self._kinds.add(kind)
        self._nested = self._nested or "/" in name
        return name


class WatchedSql(Sql):
    """Connector for a query with a ``cursor`` column. Implements Scoped and Watchable, too."""

    def scan(self) -> Iterator[Item]:
        """Yield all rows.

        Raises the errors of ``Sql.scan``, and NeedsHuman if the ``cursor`` column is unusable.
        """
        self.newest(Mark())
        yield from super().scan()

    def watch(self, stop: Stop) -> Iterator[Hint]:
        return poll(self.newest, self._options.poll, stop)


def _values(text: str, kinds: set[str]) -> Iterator[object]:
    """Yield the values of the key column that could have given a key.

    For example, the key "7" stands for the number 7 or the text "7". ``kinds``: names of the types that keys
    have.
    """
    for kind in sorted(kinds):
        with suppress(ValueError):
            value = _BY_NAME[kind](text)
            if str(value) == text:
                yield value


def _plain(row: _Row) -> dict[str, Any]:
    return {name: bytes(value) if isinstance(value, memoryview) else value for name, value in row.items()}


def _columns(template: str) -> list[str]:
    """Return the names of the columns that a template uses, in their order."""
    return _COLUMN.findall(template)


def _fill(template: str, value: _Lookup) -> bytes:
    """Fill a template with the values of a row, and encode the result in UTF-8.

    If the template is a single column of bytes, the bytes are returned unchanged.
    """
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
    """Return the beginning of a row, for an error message."""
    return ", ".join(f"{name}: {value!s:.40}" for name, value in row.items() if value is not None)[:120]


def _exact(value: object) -> object:
    """Convert a value so that equal values compare as equal. Times are converted to UTC.

    In a local time zone, two times that are an hour apart can look the same.
    """
    if isinstance(value, datetime) and value.tzinfo:
        return value.astimezone(UTC)
    return _plain({"": value})[""]


def _build(options: SqlOptions) -> Sql:
    return Sql(options) if options.cursor is None else WatchedSql(options)


PLUGIN = Plugin(kind="sql", version=1, options=SqlOptions, build=_build)
