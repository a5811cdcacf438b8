"""Responses of web servers: headers, robots.txt, and values that connectors of websites share. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from protego import Protego

from ingestor.model import Scalar
from ingestor.units import http_date

Headers = Mapping[str, str]  # by lower-case name; several of one name are joined by ", "

AGENT = "ingestor"  # our name in robots.txt and in meta elements
_LONGEST_ROBOTS = 500_000  # bytes that are read, as the RFC says
_LONGEST_DELAY = 60.0  # seconds; a longer crawl delay counts as this
_SAME_MOMENT = 3.0  # seconds in which a page may change again without another Last-Modified
_DAY = 86400.0
_LINK = re.compile(r"<([^<>]*)>([^<]*)")
_CANONICAL = re.compile(r";\s*rel\s*=\s*\"?canonical\b", re.IGNORECASE)
_CHARSET = re.compile(r";\s*charset\s*=\s*[\"']?([\w.:-]+)[\"']?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Validators:
    """Headers ETag and Last-Modified of a response. A conditional request sends them back.

    The server then answers 304 if the page did not change.
    """

    etag: str | None = None
    changed: str | None = None  # Last-Modified

    def headers(self) -> dict[str, str]:
        """Return the headers that make a request conditional."""
        headers = {"If-None-Match": self.etag, "If-Modified-Since": self.changed}
        return {name: value for name, value in headers.items() if value}


NOTHING = Validators()


def validators(headers: Headers) -> Validators:
    """Return the validators of a response, or none if they are unreliable.

    Last-Modified has whole seconds, and a page may change twice within one second. So Last-Modified
    without an ETag is used only if it is at least some seconds older than the response's Date.
    """
    etag, changed = headers.get("etag"), headers.get("last-modified")
    at, now = http_date(changed), http_date(headers.get("date"))
    if etag is None and (at is None or now is None or now - at < _SAME_MOMENT):
        changed = None
    return Validators(etag, changed)


def day_of_change(headers: Headers) -> float | None:
    """Return the start of the day that the header Last-Modified names, in POSIX seconds.

    Some servers send the present time for every page. If the page's version had the exact time, each scan
    would find all pages changed.
    """
    at = http_date(headers.get("last-modified"))
    return None if at is None else at - at % _DAY


def robots_words(headers: Headers, agent: str) -> set[str]:
    """Return the words in X-Robots-Tag, such as ``noindex``, that apply to all robots or to ``agent``."""
    words, is_for_us = set[str](), True
    for part in headers.get("x-robots-tag", "").lower().split(","):
        name, colon, rest = part.partition(":")
        if colon and not name.strip().startswith(("max-", "unavailable_after")):
            is_for_us, part = name.strip() == agent, rest
        if is_for_us:
            words.add(part.strip())
    return words


@dataclass(frozen=True, slots=True, eq=False)
class RobotsRules:
    """Rules of a site's robots.txt. ``sitemaps``: addresses of the site's sitemaps.

    ``delay``: seconds that a robot should wait between two requests.
    """

    parsed: Protego
    sitemaps: tuple[str, ...] = ()
    delay: float = 0.0

    def allow(self, url: str) -> bool:
        return self.parsed.can_fetch(url, AGENT)


def robots_rules(data: bytes) -> RobotsRules:
    """Parse a robots.txt (RFC 9309)."""
    parsed = Protego.parse(data[:_LONGEST_ROBOTS].removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace"))
    delay, rate = parsed.crawl_delay(AGENT) or 0.0, parsed.request_rate(AGENT)
    if rate is not None and rate.requests:
        delay = max(delay, rate.seconds / rate.requests)
    return RobotsRules(parsed, tuple(parsed.sitemaps), min(delay, _LONGEST_DELAY))


def canonical_link(headers: Headers) -> str | None:
    """Return the address in the header ``Link: <address>; rel="canonical"``; None if there is none."""
    links = _LINK.findall(headers.get("link", ""))
    return next((address for address, about in links if _CANONICAL.match(about.strip())), None)


def honest_type(declared: str | None, data: bytes) -> str | None:
    """Return the content type that a response declares, without its charset if ``data`` contradicts it."""
    charset = _CHARSET.search(declared or "")
    if declared is None or charset is None:
        return declared
    try:
        data.decode(charset[1])
    except (ValueError, LookupError):
        return _CHARSET.sub("", declared).strip()
    return declared


def essence(content_type: str | None) -> str:
    """Return a content type in lower case and without its parameters; "" for None.

    For example, ``Text/HTML; charset=utf-8`` becomes ``text/html``.
    """
    return (content_type or "").partition(";")[0].strip().lower()


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A response. ``location``: target of a redirect. ``problem``: why ``data`` is missing, if it is."""

    url: str
    status: int
    headers: Headers
    data: bytes = b""
    location: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A page: what is known about the content at an address.

    ``version``: changes with the content; "" if the content is not a document.
    """

    url: str
    version: str = ""
    etag: str | None = None
    changed: str | None = None
    content_type: str | None = None
    size: int | None = None  # bytes
    modified: float | None = None  # POSIX seconds
    location: str | None = None  # target of a redirect
    canonical: str | None = None  # address that the page declares as its own
    links: tuple[str, ...] = ()
    of_sitemaps: bool = False  # whether the links lead to sitemaps
    problem: str | None = None  # why the content can't be indexed
    uri: str | None = None  # address for people; None: ``url``
    extra: tuple[tuple[str, Scalar], ...] = ()  # metadata
    link: str | None = None  # address that a feed's entry links to
    made_of: str | None = None  # digest of the feed's entry that the content was made of
