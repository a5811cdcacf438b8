"""One database of one Chroma, over HTTP or within this process, and the meaning of its errors.

``chromadb`` takes about a second to import, so it is imported for Chroma in this process alone.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from json import JSONDecodeError
from pathlib import Path
from types import TracebackType
from typing import Any

from ingestor.chroma.api.direct import DirectRequests
from ingestor.chroma.api.in_process import InProcess
from ingestor.chroma.api.rest import Rest
from ingestor.chroma.api.values import NOT_FOUND, Api, NoAnswer, NoConnection, Refused
from ingestor.chroma.folder import REMEDY, claim, damaged, require_room
from ingestor.config.quotas import UNBOUNDED, Quotas
from ingestor.ports import Gone, Later, NeedsHuman, Torn, Transient

# Messages seen after files of an HNSW segment were cut, emptied, removed or half written on a full disk.
_TORN = ("hnsw segment", "Error finding id", "Error getting embedding")

# Messages seen on a full disk; they stop when there is space.
_FULL = ("disk is full", "Failed to apply logs to the metadata segment", "Error purging logs")

# What Chroma 1.4 says to a list in metadata; 1.5.0 takes it.
_NO_LISTS = "untagged enum UpdateMetadataValue"

_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
_CONNECT_TIMEOUT = 5.0  # seconds; a server on this machine that is alive accepts at once


class Unreachable(Transient):
    """No server answers at the address, or the connection broke."""


class Unanswered(Transient):
    """Chroma did not answer a request in time. After a full disk this may last until a restart."""


class Full(Transient):
    """Chroma's disk is full. Soon it answers no request until it is restarted."""


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
        api: Api,
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

    def require_room(self) -> None:
        """Raises Transient while the disk of the data is nearly full."""
        if self._folder is not None:
            require_room(self._folder)

    def __enter__(self) -> "Client":
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
    The token goes along as a bearer token and as X-Chroma-Token; which one is read depends on what guards
    the server. Proxies named in the environment are not asked for addresses of this machine.
    """
    there = place or Place()
    of_token = {"Authorization": f"Bearer {token}", "X-Chroma-Token": token} if token else {}
    headers = {"Content-Type": "application/json", "User-Agent": "ingestor", **of_token, **there.headers}
    connecting = min(timeout, _CONNECT_TIMEOUT)
    here = host in _THIS_MACHINE
    if here and not ssl:
        direct = DirectRequests(host, port, headers, timeout, connecting)
        send, close = direct.send, direct.close
    else:
        from ingestor.chroma.api.proxied import ProxiedRequests

        at = f"[{host}]" if ":" in host else host
        base = f"http{'s' if ssl else ''}://{at}:{port}"
        proxied = ProxiedRequests(base, headers, timeout, connecting, tls=ssl, proxies=not here)
        send, close = proxied.send, proxied.close
    api = Rest(send, there.tenant, there.database, there.patience)
    return Client(api, close, folder, there.quotas, foreign=place is not None)


def embedded(path: Path) -> Client:
    """Chroma in this process; nobody else may use ``path`` until the client is closed.

    It blocks every thread while it works. On a full disk (see require_room) it may never return, and a torn
    segment can crash it. A server is the better choice.

    Raises NeedsHuman if another process uses ``path``, Transient if Chroma cannot start, as on a full disk.
    """
    from chromadb.api import ServerAPI
    from chromadb.config import System

    lock = claim(path)
    try:
        system = System(
            _settings(
                chroma_api_impl="chromadb.api.rust.RustBindingsAPI",
                is_persistent=True,
                persist_directory=str(path),
            )
        )
        api = system.instance(ServerAPI)
        with translated():
            system.start()
    except Transient as error:
        lock.release()
        raise Transient(f"Chroma can't be opened in {path}: {error}") from error
    except BaseException:
        lock.release()
        raise

    def close() -> None:
        if lock.held:
            system.stop()
            lock.release()

    return Client(InProcess(api), close, path)


def _settings(**values: Any) -> Any:
    """Settings from arguments alone: no telemetry, and no .env file of the working directory."""
    from chromadb.config import Settings

    return Settings(_env_file=None, anonymized_telemetry=False, **values)


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
        return Full(f"{text}; free space on the disk of Chroma's data")
    if any(symptom in text for symptom in _TORN):
        return Torn(text)
    return None


def _meaning_of_status(error: Refused, text: str) -> Exception | None:
    status = error.status
    if status in (401, 403):
        return NeedsHuman(f"{text}; Chroma refuses the request: check the token")
    if status >= 500 or status in (408, 429):
        return Transient(text) if error.wait is None else Later(text, error.wait)
    return None
