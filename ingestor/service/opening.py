"""Opens the service port of a daemon."""

import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ingestor.chroma import processes
from ingestor.config.servers import Http
from ingestor.core.events import event
from ingestor.http_server.limits import ServerLimits
from ingestor.http_server.server import Server
from ingestor.service.daemon_view import DaemonView
from ingestor.service.health import PATHS
from ingestor.service.port import Paging, application, common
from ingestor.state.journal import JournalReader

log = logging.getLogger("ingestor")

LIMITS = ServerLimits(always=PATHS)


@contextmanager
def open_service(
    http: Http | None, journal_path: Path, view: Callable[[JournalReader], DaemonView], paging: Paging
) -> Iterator[str]:
    """The service port until the context ends. Yields why there is none although it is wanted, else "".

    That is logged, once, with what to do. ``paging``: makes the pages for people.
    """
    if http is None:
        yield ""
        return
    journal = JournalReader(journal_path)
    shared = common(view(journal), http)
    pages = paging(shared)
    try:
        server = Server(application(shared, pages), http.host, http.port, LIMITS)
    except OSError as error:
        log.error(
            "no service port: %s", _advice(http, error), extra=event("message", reason=_advice(http, error))
        )
        pages.close()
        shared.daemon.close()
        yield _reason(http, error)
        return
    server.start()
    log.info("the service port listens at %s", http.url, extra=event("listening", address=http.url))
    try:
        yield ""
    finally:
        pages.close()
        server.stop()
        shared.daemon.close()


def _reason(http: Http, error: OSError) -> str:
    place = f"{http.host}:{http.port}"
    if error.errno != errno.EADDRINUSE:
        return f"cannot listen on {place}: {error.strerror}"
    return f"{place} is taken by another program"


def _advice(http: Http, error: OSError) -> str:
    if error.errno != errno.EADDRINUSE:
        return f"{_reason(http, error)}; correct `http` in the config"
    holder = processes.listener(http.port)
    by = f" by {processes.describe(holder)}" if holder is not None else ""
    return (
        f"port {http.port} is taken{by}: stop that program, or set http.port to a free one, and start again; "
        "documents are indexed all the same"
    )
