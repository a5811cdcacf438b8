"""Rows of a database: each row of a query is a document, written by a template from its columns.

Any database that SQLAlchemy speaks to. A scan reads key, version and the columns that ``uri`` and
``metadata`` name, of every row, so that deletions are seen; text is read of changed rows only. Version: a
digest of what the scan reads; where no column tells that a row changed, that is the whole row. The query
runs as it is, inside another; nothing is written.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, Field, SecretStr

from connectors._template import Template, as_text, columns, filled, written
from ingestor.model import Blob, Item, Scalar
from ingestor.ports import BadDocument, NeedsHuman, Stale, Transient
from ingestor.registry import Options, Plugin
from ingestor.units import Size

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

_BY_NAME = {"int": int, "str": str, "UUID": UUID}  # what a key may be; a version begins with its name
_HUMAN = re.compile(
    r"authentication failed|access denied|permission denied|not permitted|pg_hba\.conf|password"
    r"|no such (table|column|function)|does not exist|doesn't exist|unknown (column|database)|unable to open"
    r"|syntax error",
    re.IGNORECASE,
)
_SECONDS = 30  # until a server that does not answer is given up
_Row = Mapping[str, Any]


def _address(url: str) -> str:
    if not re.match(r"[a-z0-9_+]+://", url):
        raise ValueError("must be a SQLAlchemy URL such as postgresql+psycopg://user@host/database")
    if re.match(r"[^/]*//[^/@]*:[^/@]*@", url):
        raise ValueError("must hold no password: put it into `password`, which is kept secret")
    return url


def _select(query: str) -> str:
    query = query.strip().rstrip(";")
    if not re.match(r"(select|with)\b", query, re.IGNORECASE):
        raise ValueError("must be a SELECT")
    return query


class SqlOptions(Options):
    url: Annotated[str, AfterValidator(_address)] = Field(
        description="of the database, as SQLAlchemy has it: `postgresql+psycopg://user@host/name`, "
        "`mysql+pymysql://…`, `sqlite:////path`; its driver must be installed"
    )
    password: SecretStr | None = Field(default=None, description="a secret: `${VAR}` or `file:/path`")
    query: Annotated[str, AfterValidator(_select)] = Field(
        description="a SELECT; each of its rows is a document"
    )
    key: str = Field(description="column that tells the rows apart: whole numbers, text or UUIDs")
    version: str | None = Field(
        default=None,
        description="column that changes whenever the row does, such as a time of change; without one every "
        "row is read whole at every scan",
    )
    text: Template = Field(description="the document: text with columns in braces, as in `# {title}`")
    file_name: str = Field(
        default="{key}.md", description="its ending says what the text is (`{key}` is the key)"
    )
    uri: Template | None = Field(
        default=None, description="where people find the row, as in `https://tickets.example.org/{id}`"
    )
    metadata: list[str] = Field(default=[], description="columns that records carry besides")
    max_size: Size = Field(default=50 * 10**6, description="larger documents are reported and not indexed")


class Sql:
    """Connector for a database."""

    def __init__(self, options: SqlOptions) -> None:
        self._options = options
        self._engine: Engine | None = None
        shown = [*options.metadata, *columns(options.uri or "")]
        versioned = [options.key, *([options.version] if options.version else []), *shown]
        self._listed = list(dict.fromkeys(versioned)) if options.version else None  # None: all columns

    def scan(self) -> Iterator[Item]:
        """Raises NeedsHuman (login, query, key) or Transient; a listing that breaks off removes nothing."""
        seen: set[str] = set()
        with self._connected() as connection:
            for row in self._rows(connection):
                item = self._item(row)
                if item.key in seen:
                    raise NeedsHuman(
                        f"{self._options.key} is {item.key!r} in two rows: correct `key` or `query`"
                    )
                seen.add(item.key)
                yield item

    def fetch(self, item: Item) -> Blob:
        with self._connected() as connection:
            key = _BY_NAME[item.version.partition(" ")[0]](item.key)
            rows = [_plain(row._mapping) for row in connection.execute(self._statement(None, key))]
        if not rows:
            raise Stale(f"{item.uri} vanished since it was listed")
        if self._item(rows[0]).version != item.version:
            raise Stale(f"{item.uri} changed since it was listed")
        data = filled(self._options.text, rows[0].__getitem__)
        limit = self._options.max_size
        if len(data) > limit:
            raise BadDocument(f"{item.uri} has {len(data):,} bytes; max_size is {limit:,}: raise it")
        name = written(self._options.file_name, {"key": item.key, **rows[0]}.__getitem__)
        return Blob(data, name.rpartition("/")[2])

    def _rows(self, connection: "Connection") -> Iterator[_Row]:
        statement = self._statement(self._listed).execution_options(yield_per=1000)
        for row in connection.execute(statement):
            yield _plain(row._mapping)

    def _statement(self, names: list[str] | None, key: object = None) -> Any:
        """The query within another, which chooses columns, and one row if a key is given."""
        from sqlalchemy import column, literal_column, select, text

        query = self._options.query.replace(":", "\\:")  # else it would name a parameter
        inside = text(f"({query}) documents")
        chosen = [literal_column("*")] if names is None else [column(name) for name in names]
        statement = select(*chosen).select_from(inside)
        return statement if key is None else statement.where(column(self._options.key) == key)

    def _item(self, row: _Row) -> Item:
        options = self._options
        key = row.get(options.key)
        if type(key).__name__ not in _BY_NAME or str(key) == "":
            raise NeedsHuman(f"{options.key} is {key!r} in a row: a key is a whole number, text or a UUID")
        changed = row[options.version] if options.version else None
        shown = {name: row[name] for name in self._listed or row}
        uri = written(options.uri, row.__getitem__) if options.uri else f"{options.url}/{key}"
        extra = tuple((name, _scalar(row[name])) for name in options.metadata)
        return Item(str(key), f"{type(key).__name__} {_digest(shown)}", uri, None, _seconds(changed), extra)

    @contextmanager
    def _connected(self) -> Iterator["Connection"]:
        try:
            from sqlalchemy.exc import SQLAlchemyError
        except ImportError as error:
            raise NeedsHuman(
                f"SQLAlchemy is not installed: {sys.executable} -m pip install sqlalchemy"
            ) from error
        try:
            self._engine = self._engine or self._made()
            with self._engine.connect() as connection:
                yield connection
        except (SQLAlchemyError, OSError) as error:
            raise self._trouble(error) from error
        except KeyError as error:
            raise NeedsHuman(f"the query gives no column {error}: correct `query` or the options") from error

    def _made(self) -> "Engine":
        from sqlalchemy import create_engine, make_url

        url, password = make_url(self._options.url), self._options.password
        if password is not None:
            url = url.set(password=password.get_secret_value())
        waits = _waits(url.drivername.partition("+")[2], _SECONDS)
        told = {name: value for name, value in waits.items() if name not in url.query}
        try:
            return create_engine(url, pool_pre_ping=True, hide_parameters=True, connect_args=told)
        except ImportError as error:
            wanted = f"{sys.executable} -m pip install {error.name}"
            raise NeedsHuman(f"the driver of {self._options.url} is not installed: {wanted}") from error

    def _trouble(self, error: Exception) -> Exception:
        said = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        if _HUMAN.search(said) or type(error).__name__ in (
            "ProgrammingError",
            "NoSuchModuleError",
            "ArgumentError",
        ):
            return NeedsHuman(
                f"{self._options.url} can't be asked ({said}): check `url`, `password` and `query`"
            )
        return Transient(f"{self._options.url} can't be asked just now: {said}")


def _waits(driver: str, seconds: int) -> dict[str, int]:
    """What lets a driver give up a server that is not there any more; many would wait for ever."""
    if driver in ("psycopg", "psycopg2"):
        lost = {"keepalives_idle": seconds, "keepalives_interval": 10, "keepalives_count": 3}
        return {"connect_timeout": seconds, "tcp_user_timeout": seconds * 1000, **lost}
    if driver == "pymysql":
        return {"connect_timeout": seconds, "read_timeout": seconds * 10}
    return {"timeout": seconds * 10} if driver == "pg8000" else {}


def _plain(row: _Row) -> dict[str, Any]:
    return {name: bytes(value) if isinstance(value, memoryview) else value for name, value in row.items()}


def _digest(row: _Row) -> str:
    whole = repr([(name, row[name]) for name in sorted(row)])
    return blake2b(whole.encode("utf-8", "replace"), digest_size=16).hexdigest()


def _scalar(value: object) -> Scalar:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return value.isoformat() if isinstance(value, date) else as_text(value)


def _seconds(value: object) -> float | None:
    """POSIX seconds of a time; one without a zone is taken to be UTC."""
    if not isinstance(value, datetime):
        return None
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()


PLUGIN = Plugin(kind="sql", version=1, options=SqlOptions, build=Sql)
