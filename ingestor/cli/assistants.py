"""``ingestor mcp``: a server for assistants, on standard input and output."""

from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingestor.cli.invocation import command
from ingestor.cli.usage import CONFIG, FAILED, USAGE, ConfigOption, fail, to_read

if TYPE_CHECKING:
    from ingestor.config.servers import Http


def mcp(config: ConfigOption = CONFIG) -> None:
    """Serve searches to an assistant (Model Context Protocol).

    Uses standard input and output, and asks the daemon; starts nothing and loads no model.
    """
    from ingestor.service.assistants import MISSING, is_installed

    if not is_installed():
        fail(MISSING, FAILED)
    http = to_read(config)[1].http
    if http is None:
        fail(f"{config}: ingestor mcp needs the service port of the daemon: remove `http: false`", USAGE)
    from ingestor.service.assistant_tools import server

    server(_ask(config, http)).run("stdio")


def _ask(config: Path, http: "Http") -> Callable[[str, str, object], Awaitable[tuple[int, Any]]]:
    """How the tools ask the daemon: see service.client.Ask."""
    from anyio.to_thread import run_sync

    from ingestor.app.queries import journal_of
    from ingestor.ports import NeedsHuman
    from ingestor.service.client import DaemonAway, DaemonClient

    @cache
    def client() -> DaemonClient:
        with journal_of(to_read(config)[1]) as journal:
            return DaemonClient(http, journal.owner)

    def asked(method: str, path: str, body: object) -> tuple[int, Any]:
        start = command("run", config)
        try:
            said = client().ask(method, path, body)
        except NeedsHuman as error:  # nothing was ingested yet
            raise DaemonAway(f"{error}; or start the daemon with `{start}`") from error
        except OSError as error:
            raise DaemonAway(
                f"the ingestor daemon does not answer ({error}): start it with `{start}`"
            ) from error
        return said.status, said.body

    async def ask(method: str, path: str, body: object = None) -> tuple[int, Any]:
        return await run_sync(asked, method, path, body)

    return ask
