"""Connections to a database by SQLAlchemy, and the meaning of their errors."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import finalize

from pydantic import SecretStr

from ingestor.ports import NeedsHuman, Transient

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

_HUMAN = re.compile(
    r"authentication failed|access denied|permission denied|not permitted|pg_hba\.conf|password"
    r"|no such (table|column|function)|does not exist|doesn't exist|unknown (column|database)|unable to open"
    r"|syntax error",
    re.IGNORECASE,
)
_SECONDS = 30  # time limit of connecting


class Database:
    """A database. ``url``: without a password. May be used by several threads at once."""

    def __init__(self, url: str, password: SecretStr | None) -> None:
        self._url, self._password = url, password
        self._engines: dict[str, Engine] = {}  # at most one engine, made at first use

    @contextmanager
    def connect(self) -> Iterator["Connection"]:
        """Open a connection. Errors in the context become NeedsHuman (login, query, columns) or Transient."""
        try:
            from sqlalchemy.exc import SQLAlchemyError
        except ImportError as error:
            raise NeedsHuman(
                f"SQLAlchemy is not installed: {sys.executable} -m pip install sqlalchemy"
            ) from error
        try:
            with self.engine().connect() as connection:
                yield connection
        except (SQLAlchemyError, OSError) as error:
            raise self._trouble(error) from error
        except KeyError as error:
            raise NeedsHuman(f"the query gives no column {error}: correct `query` or the options") from error

    def engine(self) -> "Engine":
        """Return the engine. If two threads make an engine at the same time, one of the two is dropped."""
        return self._engines.get(self._url) or self._engines.setdefault(self._url, self._make())

    def _make(self) -> "Engine":
        from sqlalchemy import create_engine, make_url

        url = make_url(self._url)
        if self._password is not None:
            url = url.set(password=self._password.get_secret_value())
        waits = _waits(url.drivername.partition("+")[2], _SECONDS)
        arguments = {name: value for name, value in waits.items() if name not in url.query}
        try:
            engine = create_engine(url, pool_pre_ping=True, hide_parameters=True, connect_args=arguments)
        except ImportError as error:
            wanted = f"{sys.executable} -m pip install {error.name}"
            raise NeedsHuman(f"the driver of {self._url} is not installed: {wanted}") from error
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


def _waits(driver: str, seconds: int) -> dict[str, int]:
    """Return driver arguments that limit the time of connecting; empty if the driver has none."""
    if driver in ("psycopg", "psycopg2"):
        lost = {"keepalives_idle": seconds, "keepalives_interval": 10, "keepalives_count": 3}
        return {"connect_timeout": seconds, "tcp_user_timeout": seconds * 1000, **lost}
    if driver == "pymysql":
        return {"connect_timeout": seconds, "read_timeout": seconds * 10}
    return {"timeout": seconds * 10} if driver == "pg8000" else {}
