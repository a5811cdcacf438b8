"""Gives commands access to the journal and to Chroma, also while a daemon runs.

Modules that are slow to import are imported where they are used.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from ingestor.chroma.processes import accepts
from ingestor.config.models import Config
from ingestor.config.servers import RemoteChroma, Supervised, local_address
from ingestor.core.entries import Edition
from ingestor.model import CollectionName
from ingestor.ports import IngestorError, NeedsHuman, Transient
from ingestor.state import files
from ingestor.state.editions import Editions, uuids_of
from ingestor.state.files import Locked, journal_path, lock_path
from ingestor.state.journal import Journal, open_journal

if TYPE_CHECKING:
    from ingestor.chroma.backend import Collections

PATIENCE = 30.0  # seconds that a command waits while Chroma starts, or while another command uses it
HEARTBEAT = 3.0  # seconds in which Chroma must answer a heartbeat


class BadRequest(IngestorError):
    """Error: a request names something that does not exist, or asks for something impossible.

    The message has the remedy.
    """


@contextmanager
def journal_of(config: Config, *, or_blank: bool = False) -> Iterator[Journal]:
    """Open the journal, also while a daemon runs.

    ``or_blank``: if there is no journal yet, open an empty one in memory. Otherwise NeedsHuman is raised.
    """
    exists = has_file(journal_path(config))
    if not (exists or or_blank):
        raise NeedsHuman(
            f"no documents were indexed yet: {config.state} holds no journal; run: ingestor sync"
        )
    with open_journal(journal_path(config)) if exists else closing(Journal.blank()) as journal:
        yield journal


def is_running(config: Config) -> bool:
    """Return whether a daemon or a sync runs with this state folder: it holds the folder's lock."""
    return has_file(lock_path(config)) and files.is_held(lock_path(config))


def has_file(path: Path) -> bool:
    """Return whether a file of the state exists.

    Raises NeedsHuman if this user has no permission to look into the folder.
    """
    try:
        return path.exists()
    except PermissionError as error:
        raise NeedsHuman(
            f"{path.parent} is closed to this user: only the user who runs ingestor may read it"
        ) from error


@contextmanager
def collections_of(config: Config, journal: Journal, patience: float | None = None) -> Iterator[Collections]:
    """Open Chroma for reading: by the server of a running daemon or sync, else by a server for this command.

    ``patience``: seconds to wait while Chroma starts or another command uses it; None means PATIENCE. Raises
    Locked after that time, and NeedsHuman if Chroma cannot be shared.
    """
    from ingestor.chroma.backend import Ownership, open_collections

    def enter(stack: ExitStack) -> Collections:
        running = is_running(config)
        place = _read_server(config) if running else config.chroma
        log = files.chroma_log_path(config) if config.state.is_dir() else Path(os.devnull)
        if isinstance(place, RemoteChroma) or (running and isinstance(place, Supervised)):
            _require_answer(place)
        owner = Ownership(journal.owner, lambda: uuids_of(journal))
        return stack.enter_context(open_collections(place, owner, log, attach=running))

    with ExitStack() as stack:
        yield files.retry_until_free(lambda: enter(stack), PATIENCE if patience is None else patience)


def _require_answer(chroma: RemoteChroma | Supervised) -> None:
    """Raise Transient if Chroma accepts connections but does not answer a heartbeat.

    This check takes seconds. Without it, a request would wait for a minute before it fails.
    """
    from ingestor.chroma.client import Client

    ssl = isinstance(chroma, RemoteChroma) and chroma.ssl
    with Client(local_address(chroma.host), chroma.port, ssl=ssl, timeout=HEARTBEAT) as client:
        if client.hangs():
            raise Transient(
                f"Chroma at {chroma.host}:{chroma.port} hangs: no answer to a heartbeat in {HEARTBEAT:g} s; "
                "restart it if that lasts"
            )


def _read_server(config: Config) -> RemoteChroma | Supervised:
    """Return Chroma with the address and token of the server that a daemon or sync runs now.

    They are read from the lock file of Chroma's folder. Raises Locked if that server does not listen at the
    moment.
    """
    from ingestor.chroma.folder import LOCK

    chroma, note = config.chroma, files.read_note(lock_path(config))
    if isinstance(chroma, RemoteChroma):
        return chroma
    match note, files.read_note(chroma.path / LOCK):
        case [pid, *_], [holder, host, port, secret] if pid == holder:
            if accepts(local_address(host), int(port), HEARTBEAT):
                served = {"host": host, "port": int(port), "token": SecretStr(secret)}
                return Supervised(path=chroma.path).model_copy(update=served)
    who = f"process {' '.join(note[:1])}"
    raise Locked(f"Chroma is not up: {who}, which runs it, is starting or stopping it; try again in a moment")


def collection_of(config: Config, wanted: str | None) -> CollectionName:
    """Return the name of a collection: ``wanted``, or the only collection of the config.

    Raises BadRequest if ``wanted`` is None and the config has several collections.
    """
    names = sorted(config.collections)
    if wanted is None and len(names) > 1:
        raise BadRequest(f"name a collection: {', '.join(names)}")
    return names[0] if wanted is None else CollectionName(wanted)


def live_editions(journal: Journal) -> list[Edition]:
    """Return the editions that readers see."""
    return [edition for edition in Editions(journal).all() if edition.role == "live"]


def require_known(what: str, name: str, known: Iterable[str]) -> None:
    """Raise BadRequest unless a name that a person gave is known. ``what``: the kind of the thing."""
    if name not in (names := sorted(known)):
        raise BadRequest(f"there is no {what} {name!r}; known: {', '.join(names) or 'none yet'}")
