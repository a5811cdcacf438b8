"""Connector ``push``: an HTTP endpoint where programs put and delete documents, and request listings.

``PUT`` and ``DELETE /documents/KEY`` are acknowledged when the change is on the disk, in one SQLite file in
``folder``: the only copy, so back it up. A version is a digest of content, type and metadata. A scan reads
the file, so ``sync`` works without the endpoint; only ``run`` opens the endpoint.
"""

import logging
import re
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from pathlib import Path

from pydantic import Field, SecretStr, model_validator

from ingestor.connectors.push.answers import PushApp
from ingestor.connectors.push.store import PushStore, StoreChanges, StoredDocument
from ingestor.connectors.shared.keys import cover
from ingestor.connectors.shared.locks import hold_lock
from ingestor.connectors.shared.patterns import check_size
from ingestor.http_server.access import LEAST_TOKEN, is_guessable
from ingestor.http_server.requests import ServerLimits
from ingestor.http_server.server import Server
from ingestor.model import Blob, Hint, Item
from ingestor.ports import Stale, Stop
from ingestor.registry import Host, Options, Plugin
from ingestor.units import Size

TICK = 0.2  # seconds between checks for changes and for ``stop``
TAKEOVER = 0.05  # seconds between checks whether the watch that serves has ended
RETRY = 0.5  # seconds between attempts to listen
PATIENCE = 5.0  # seconds until a closed port is logged: a changed config reopens it
LIMITS = ServerLimits()
HINTS = 64  # at once; more are merged into subtrees
_ENDING = re.compile(r"\.[a-z][a-z0-9]{0,9}$", re.IGNORECASE)
_log = logging.getLogger(__name__)


class PushOptions(Options):
    folder: Path = Field(description="folder of the documents; the only copy, so back it up")
    token: SecretStr = Field(min_length=1, description="bearer token of callers")
    webhook_secret: SecretStr | None = Field(
        default=None,
        min_length=1,
        description="secret that GitHub signs webhooks with (`X-Hub-Signature-256`); opens `/look` only",
    )
    host: Host = Field(
        default="127.0.0.1",
        description="address to listen on; any but loopback needs a TLS proxy in front",
    )
    port: int = Field(default=8100, ge=1, le=65535, description="port to listen on")
    max_size: Size = Field(default=50 * 10**6, le=5 * 10**8, description="larger documents are refused")

    @model_validator(mode="after")
    def _has_no_guessable_token(self) -> "PushOptions":
        if is_guessable(self.token.get_secret_value(), self.host):
            raise ValueError(
                f"`token` must have at least {LEAST_TOKEN} characters if other machines can reach `host`"
            )
        return self

    def listens(self) -> tuple[str, int]:
        return self.host, self.port


class Push:
    """Connector for documents that programs send.

    Implements Watchable, Dispatching, Scoped and Identified, too.
    """

    near = True

    def __init__(self, options: PushOptions) -> None:
        self._options = options
        self.sources: Collection[str] = ()
        self._store = PushStore(options.folder)

    def scan(self) -> Iterator[Item]:
        return self.scan_under("")

    def scan_under(self, under: str) -> Iterator[Item]:
        """Yield the documents at or below a key.

        Raises NeedsHuman or Transient if the store cannot be read.
        """
        return map(_item, self._store.list_documents(under))

    def fetch(self, item: Item) -> Blob:
        """Return the content of a document.

        Raises Stale, NeedsHuman or Transient. Raises BadDocument if ``max_size`` was lowered since it was
        stored.
        """
        check_size(item, item.size, self._options.max_size)
        document = self._store.get(item.key)
        if document is None or document[0].version != item.version:
            raise Stale(f"{item.uri} changed since it was listed")
        kept, data = document
        name = item.key.rpartition("/")[2]
        return Blob(data, name, None if _ENDING.search(name) else kept.content_type)

    def identity(self) -> str:
        return self._store.identity()

    def watch(self, stop: Stop) -> Iterator[Hint]:
        """Yield hints of changed documents, and hints that callers requested for other sources.

        The endpoint is open meanwhile, unless another watch of the same folder and port has opened it.
        """
        changes = StoreChanges(self._store)
        endpoint = _Endpoint(self._options, self._store, lambda: self.sources)
        try:
            changes.take()
            yield Hint()
            while not stop.is_set():
                stop.wait(TICK if endpoint.try_open() else TAKEOVER)
                yield from map(Hint, cover(changes.take(), HINTS))
                while endpoint.app.requested_hints:
                    yield endpoint.app.requested_hints.popleft()
        finally:
            endpoint.close()
            changes.close()


class _Endpoint:
    """HTTP server that receives documents, opened by ``Push.watch``.

    If several watches have the same folder and port, only the one that holds the lock opens the server.
    """

    def __init__(
        self, options: PushOptions, store: PushStore, sources: Callable[[], Collection[str]]
    ) -> None:
        secret = options.webhook_secret
        self.app = PushApp(
            store,
            options.token.get_secret_value(),
            secret.get_secret_value() if secret else None,
            options.max_size,
            sources,
        )
        self._where = options.listens()
        self._lock_file = options.folder / f"{options.port}.lock"
        self._held = ExitStack()  # the lock, once ``_is_first``
        self._is_first = False
        self._server: Server | None = None
        self._again = 0.0  # monotonic seconds: when to try to open the port again
        self._patience = time.monotonic() + PATIENCE

    def try_open(self) -> bool:
        """Open the endpoint, if that is possible now. Return whether this watch has the endpoint open."""
        if self._server is not None or time.monotonic() < self._again:
            return self._server is not None
        host, port = self._where
        try:
            if not self._is_first:
                self._held.enter_context(hold_lock(str(self._lock_file), wait=False))
                self._is_first = True
            server = Server(self.app, host, port, LIMITS)
        except BlockingIOError:
            return False  # another watch serves
        except OSError as error:  # the port is in use, or the folder is missing
            self._again = time.monotonic() + RETRY
            if time.monotonic() > self._patience:
                self._patience = float("inf")
                _log.warning(
                    "push port %s:%d is not open, will retry (%s): free the port, or "
                    "change `host` or `port`", host, port, error.strerror,
                )  # fmt: skip
            return False
        server.start()
        self._server = server
        _log.info("documents can be pushed to http://%s:%d/documents/", host, port)
        return True

    def close(self) -> None:
        """Close the endpoint. Requests in progress get a few seconds to end."""
        if self._server is not None:
            self._server.stop()
        self._held.close()


def _item(kept: StoredDocument) -> Item:
    facts = dict(kept.metadata)
    uri = str(facts.pop("source", kept.key)) or kept.key
    return Item(kept.key, kept.version, uri, kept.size, kept.modified, tuple(facts.items()))


PLUGIN = Plugin(kind="push", version=1, options=PushOptions, build=Push)
