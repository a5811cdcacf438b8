"""``ingestor mcp``: a server for assistants, on standard input and output."""

from functools import cache
from importlib.util import find_spec

from ingestor.cli.invocation import command
from ingestor.cli.usage import CONFIG, FAILED, USAGE, ConfigOption, fail, looked_up


def mcp(config: ConfigOption = CONFIG) -> None:
    """Let an assistant search, by the Model Context Protocol.

    It speaks on standard input and output, and asks the daemon; it starts nothing and loads no model.
    """
    from ingestor.app.queries import journal_of
    from ingestor.service.client import Client

    if find_spec("mcp") is None:
        fail("ingestor mcp needs the extra `mcp`: pip install 'ingestor[mcp]'", FAILED)
    http = looked_up(config).http
    if http is None:
        fail(f"{config}: ingestor mcp asks the daemon at its service port: remove `http: false`", USAGE)

    @cache
    def client() -> Client:
        with journal_of(looked_up(config)) as journal:
            return Client(http, journal.owner)

    from ingestor.assistants.server import server

    server(client, command("run", config)).run("stdio")
