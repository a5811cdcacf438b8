"""A database of Chroma, over HTTP or within this process, and the meaning of Chroma's errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from json import JSONDecodeError
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ingestor.chroma.api import NOT_FOUND, NoAnswer, NoConnection, Refused, RestApi
from ingestor.chroma.folder import REMEDY, claim, damaged, require_room
from ingestor.config.quotas import UNBOUNDED, Quotas
from ingestor.ports import Gone, Later, NeedsHuman, Torn, Transient

if TYPE_CHECKING:
    from ingestor.chroma.embedded import EmbeddedApi

# Messages seen after files of an HNSW segment were cut, emptied, removed or half written on a full disk.
_TORN = (*("hnsw segment", "Error finding id", "Error getting embedding", "Nothing found on disk"),)

# Messages seen on a full disk; they stop when there is space.
_FULL = ("disk is full", "Failed to apply logs to the metadata segment", "Error purging logs")

# What Chroma 1.4 says to a list in metadata; 1.5.0 takes it.
_NO_LISTS = "untagged enum UpdateMetadataValue"


class Unreachable(Transient):
    """No server answers at the address, or the connection broke."""


class Unanswered(Transient):
    """Chroma did not answer a request in time. After a full disk this may last until a restart."""


class Full(Transient):
    """Chroma cannot write, mostly because its disk is full. Soon it answers no request until a restart."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a server that somebody else runs the collections are, and what it allows.

    ``patience``: seconds that a request waits in all while the server throttles or is away.
    """

    tenant: str = "default_tenant"
    database: str = "default_database"
    headers: Mapping[str, str] = field(default_factory=dict)
    quotas: Quotas = UNBOUNDED
    patience: float = 0.0


class Client:
    """An open connection.

    ``folder``: Chroma's data folder, if this process may read it. ``quotas``: of the server. ``foreign``:
    somebody else runs it, so it is asked how much it takes.
    """

    def __init__(
        self,
        api: RestApi | EmbeddedApi,
        close: Callable[[], None],
        folder: Path | None = None,
        quotas: Quotas = UNBOUNDED,
        *,
        foreign: bool = False,
    ) -> None:
        self.api, self.close, self._folder = api, close, folder
        self.quotas, self.foreign = quotas, foreign

    @cached_property
    def most_written(self) -> int | None:
        """The most records of a request that writes; None if it has no bound that matters."""
        with translated():
            known = [self.api.most_records()] if self.foreign else []
        quota = self.quotas.write_records
        return min([*known, quota] if quota else known, default=None)

    def is_alive(self) -> bool:
        """Whether it answers; Chroma in this process always does."""
        return not isinstance(self.api, RestApi) or self.api.is_alive()

    def require_room(self) -> None:
        """Raises Transient while the disk of the data is nearly full."""
        if self._folder is not None:
            require_room(self._folder)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(
    host: str,
    port: int,
    *,
    token: str | None = None,
    ssl: bool = False,
    timeout: float = 60.0,
    folder: Path | None = None,
    place: Place | None = None,
) -> Client:
    """A client of a server, which need not be up yet: nothing is sent.

    ``timeout``: the seconds that Chroma may take to answer. ``folder``: see Client.
    ``place``: where in another's server the collections are.
    """
    there = place or Place()
    api = RestApi(
        host,
        port,
        token=token,
        ssl=ssl,
        timeout=timeout,
        headers=there.headers,
        tenant=there.tenant,
        database=there.database,
        patience=there.patience,
    )
    return Client(api, api.close, folder, there.quotas, foreign=place is not None)


def embedded(path: Path) -> Client:
    """Chroma in this process; nobody else may use ``path`` until the client is closed.

    It blocks every thread while it works. On a full disk (see require_room) it may never return, and a torn
    segment can crash it. A server is the better choice.

    Raises NeedsHuman if another process uses ``path``, Transient if Chroma cannot start, as on a full disk.
    """
    from ingestor.chroma.embedded import EmbeddedApi

    lock = claim(path)
    try:
        with translated():
            api = EmbeddedApi(path)
    except Transient as error:
        lock.release()
        raise Transient(f"Chroma can't be opened in {path}: {error}") from error
    except BaseException:
        lock.release()
        raise

    def close() -> None:
        if lock.held:
            api.close()
            lock.release()

    return Client(api, close, path)


@contextmanager
def translated() -> Iterator[None]:
    """Turn Chroma's errors into those of our ports; unknown ones pass unchanged."""
    try:
        yield
    except Exception as error:
        meaning = _meaning(error)
        if meaning is None:
            raise
        raise meaning from error


def _meaning(error: Exception) -> Exception | None:
    text = f"Chroma: {error}"
    if isinstance(error, NoAnswer):
        return Unanswered("Chroma does not answer in time")
    if isinstance(error, NoConnection):
        return Unreachable(f"Chroma can't be reached {error}")
    if (told := _meaning_of_text(text)) is not None:
        return told
    if isinstance(error, Refused):
        return Gone(text) if error.kind == NOT_FOUND else _meaning_of_status(error, text)
    if isinstance(error, JSONDecodeError):
        return NeedsHuman("the server at Chroma's address is not Chroma: check host, port and ssl")
    return None


def _meaning_of_text(text: str) -> Exception | None:
    if damaged(text):
        return NeedsHuman(f"{text}; {REMEDY}")
    if _NO_LISTS in text:
        return NeedsHuman("the Chroma server is older than 1.5 and takes no lists in metadata: upgrade it")
    if any(symptom in text for symptom in _FULL):
        return Full(
            f"{text}; if the disk of Chroma's data is full, free space; if it has room, the database is "
            "damaged: ingestor verify --repair --rebuild"
        )
    if any(symptom in text for symptom in _TORN):
        return Torn(text)
    return None


def _meaning_of_status(error: Refused, text: str) -> Exception | None:
    status = error.status
    if status in (401, 403):
        return NeedsHuman(f"{text}; Chroma refuses the request: check the token")
    if status == 500:  # no overload, but an error within Chroma
        return Transient(f"{text}; if this repeats, its data is damaged: ingestor verify --repair --rebuild")
    if status > 500 or status in (408, 429):
        return Transient(text) if error.wait is None else Later(text, error.wait)
    return None
