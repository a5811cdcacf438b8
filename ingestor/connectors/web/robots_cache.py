"""The robots.txt of each site, read once in a pass."""

from urllib.parse import urlsplit

from ingestor.connectors.http.client import WebClient
from ingestor.connectors.http.robots import RobotsRules, rules
from ingestor.connectors.http.url import origin
from ingestor.ports import Transient

_LARGEST = 5 * 10**6  # bytes


class RobotsCache:
    """Rules of robots.txt by site, for one pass over a source."""

    def __init__(self, client: WebClient) -> None:
        self._client = client
        self._known: dict[str, RobotsRules | Transient] = {}  # by origin

    def rules(self, url: str) -> RobotsRules:
        """The rules of the URL's site. Raises Refused, or Transient if its robots.txt cannot be read.

        An unreadable robots.txt forbids everything (RFC 9309, 2.3.1.4), a missing one nothing.
        """
        place = origin(url)
        if place not in self._known:
            try:
                self._known[place] = self._read(f"{place}/robots.txt")
            except Transient as error:
                self._known[place] = error
        known = self._known[place]
        if isinstance(known, Transient):
            raise known
        return known

    def _read(self, url: str) -> RobotsRules:
        answer = self._client.follow(url, limit=_LARGEST)
        if answer.status >= 500 or answer.problem:
            raise Transient(
                f"{url} can't be read (HTTP {answer.status}): no page of the site is read until then"
            )
        parsed = rules(answer.data if answer.status == 200 else b"")
        self._client.delays[urlsplit(url).netloc] = parsed.delay
        return parsed
