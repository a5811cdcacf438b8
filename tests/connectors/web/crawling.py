"""A crawl of a site that tests serve."""

from pathlib import Path

from ingestor.connectors.web.connector import Web, WebOptions
from tests.connectors.laws import listed
from tests.connectors.sites import Clock, Site, outside


def web(server: Site, cache: Path, *starts: str, clock: Clock | None = None, **options: object) -> Web:
    start = [server.url(path) for path in starts or ("/",)]
    given = {"start": start, "follow": "links", "allow_private": ["127.0.0.1"], "delay": 0, "cache": cache}
    return Web(WebOptions.model_validate({**given, **options}), outside(clock))


def keys(server: Site, connector: Web) -> list[str]:
    return [key.removeprefix(server.url("")) for key in listed(connector)]
