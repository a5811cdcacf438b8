"""The rules of a robots.txt (RFC 9309). Pure."""

from dataclasses import dataclass

from protego import Protego

AGENT = "ingestor"  # our name in robots.txt and in meta elements
_LONGEST = 500_000  # bytes that are read, as the RFC says
_LONGEST_DELAY = 60.0  # seconds; a longer crawl delay counts as this


@dataclass(frozen=True, slots=True, eq=False)
class RobotsRules:
    """``delay``: seconds between two requests, as the site asks for; ``sitemaps`` as it names them."""

    parsed: Protego
    sitemaps: tuple[str, ...] = ()
    delay: float = 0.0

    def allow(self, url: str) -> bool:
        return self.parsed.can_fetch(url, AGENT)


def rules(data: bytes) -> RobotsRules:
    parsed = Protego.parse(data[:_LONGEST].removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace"))
    delay, rate = parsed.crawl_delay(AGENT) or 0.0, parsed.request_rate(AGENT)
    if rate is not None and rate.requests:
        delay = max(delay, rate.seconds / rate.requests)
    return RobotsRules(parsed, tuple(parsed.sitemaps), min(delay, _LONGEST_DELAY))
