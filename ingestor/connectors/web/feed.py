"""Connector ``feed``: entries of an RSS, Atom or JSON feed, with the feed's text or the whole article.

A key is the entry's id, numbered if several entries share it. A version is a digest of the entry, and of the
article if that is read. A feed has the latest entries only; older entries stay documents, and are kept in the
``state`` folder. A conditional request gets the feed only if it changed. An article is read if its entry is
new or changed, by the same rules as pages of the web connector. If an article is missing or forbidden, the
feed's own text is the document.

A feed is read in a confined process, as parsers are, with limits of CPU time and memory. The library
feedparser takes quadratic time for some feeds: a feed of 50 kB took more than 6 s, and blocked all threads.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from ingestor.confinement.python_child import python_child
from ingestor.confinement.walls import hide
from ingestor.connectors.http.answers import NOTHING, HttpAnswer, Page, Validators, validators
from ingestor.connectors.http.client import RobotsCache, WebClient
from ingestor.connectors.http.network import AddressRefused, Outside
from ingestor.connectors.shared.child import Missing, ProgramFailed, Run
from ingestor.connectors.web.content import item_of, page_of, version
from ingestor.connectors.web.feed_entries import FeedEntry, KnownEntry, NoFeed, ParsedFeed, number_keys
from ingestor.connectors.web.mirror import Mirror, short
from ingestor.connectors.web.options import HttpOptions, Url
from ingestor.model import Blob, Item
from ingestor.ports import NeedsHuman, PartialScan, Transient
from ingestor.registry import Plugin, tuning

_CHILD = "ingestor.connectors.web.feed_child"
SECONDS = 60  # of CPU time; 1 MB of valid entries takes 2.5 s, and 10 MB is the limit
_PATIENCE = 10  # factor by which more time may pass on a busy machine
_MEMORY = 2 * 10**9  # bytes
_ANSWER = 10**8  # bytes


def read_confined(data: bytes, content_type: str | None, url: str, seconds: int = SECONDS) -> ParsedFeed:
    """Parse a feed in a confined process.

    ``seconds``: limit of CPU time. Raises NoFeed if the feed is invalid or exceeds a limit, and Transient if
    the process does not start.
    """
    hide()  # the process runs as the same user, who may otherwise read and write our memory
    child = python_child("-m", _CHILD, str(seconds), str(_MEMORY))
    run = Run(child.command, child.environment, seconds=_PATIENCE * seconds, longest=_ANSWER)
    try:
        *_, answer = map(json.loads, run.lines(json.dumps([content_type, url]).encode() + b"\n" + data))
    except Missing as error:
        raise Transient(f"the process that reads the feed can't be started: {error}") from error
    except (ProgramFailed, ValueError) as error:
        limits = f"{seconds} s and {_MEMORY:,} bytes of memory"
        raise NoFeed(f"the feed can't be read within {limits} ({error})") from error
    if "bad" in answer:
        raise NoFeed(answer["bad"])
    return ParsedFeed(tuple(FeedEntry(**entry) for entry in answer["entries"]), answer["whole"])


_LARGEST = 10 * 10**6  # bytes of a feed
_FEED = "feed"


class FeedOptions(HttpOptions):
    url: Url = Field(description="address of the feed")
    full_article: bool = Field(
        default=False,
        description="read the page that an entry links to, instead of the entry",
    )
    keep: bool = Field(default=True, description="keep entries that left the feed")
    state: Path = tuning(
        Path("~/.local/state/ingestor/feed"),
        description="folder of the entries, for all sources of one feed; without it, entries that left "
        "the feed are lost",
    )


class FeedConnector:
    """Connector for the entries of a feed."""

    def __init__(self, options: FeedOptions, outside: Outside | None = None) -> None:
        self._options, self._outside = options, outside or Outside()
        self._terms = options.terms(options.url)
        self._busy: dict[str, float] = {}
        self._mirror = Mirror(options.state.expanduser() / f"{short(options.url)}.sqlite")

    def scan(self) -> Iterator[Item]:
        """Yield the entries of the feed, and stored entries that the feed no longer has.

        Raises NeedsHuman or Transient if the feed cannot be read, and PartialScan at the end if an article
        cannot be read.
        """
        with self._mirror.alone(), WebClient(self._terms, self._outside, self._busy) as client:
            unread = self._update(client)
            pages = self._mirror.pages()
        yield from map(item_of, pages)
        if unread:
            more = f", and {len(unread) - 1} more" if len(unread) > 1 else ""
            message = f"{next(iter(unread.values()))}{more}: their known documents stay"
            raise PartialScan(message, list(unread))

    def fetch(self, item: Item) -> Blob:
        """Return the document of an entry as it was listed.

        Raises Stale, and BadDocument if the document is too large.
        """
        return self._mirror.fetch(item)

    def _update(self, client: WebClient) -> dict[str, Exception]:
        """Request the feed, and store new and changed entries, if the feed changed.

        Return the errors of articles that cannot be read, by the key of the entry.
        """
        answer = self._request(client)
        if answer.status == 304:
            return {}
        try:
            parsed = read_confined(answer.data, answer.headers.get("content-type"), answer.url)
        except NoFeed as error:
            kind = Transient if self._mirror.note(_FEED) else NeedsHuman  # an address that was a feed before
            raise kind(f"{self._options.url} is not a feed: {error}; check `url`") from error
        robots = RobotsCache(client)
        unread: dict[str, Exception] = {}
        url, stored = self._options.url, self._mirror.pages()
        entries = number_keys(
            parsed.entries,
            [KnownEntry(p.url, p.link or (p.uri if p.uri != url else None), p.made_of) for p in stored],
            self._version_of,
        )
        for key, entry in entries.items():
            try:
                self._keep(key, entry, client, robots)
            except Transient as error:
                unread[key] = error
        if parsed.whole and not self._options.keep:
            self._mirror.keep_only(entries)
        sent = NOTHING if unread else validators(answer.headers)
        self._mirror.write_note(
            _FEED, json.dumps([self._note_options(), answer.url, sent.etag, sent.changed])
        )
        return unread

    def _request(self, client: WebClient) -> HttpAnswer:
        """Request the feed. Return the response, whose status is 200, or 304 if the feed did not change.

        Raises NeedsHuman or Transient.
        """
        url = self._options.url
        note, last, last_address = self._mirror.note(_FEED), NOTHING, ""
        if note and (values := json.loads(note))[0] == self._note_options():  # else read all
            last_address, last = values[1], Validators(*values[2:])
        try:
            answer = client.follow(url, last, last_address, _LARGEST)
        except AddressRefused as error:
            raise NeedsHuman(str(error)) from error
        if answer.status in (200, 304) and not answer.problem:
            return answer
        if answer.status >= 500 or answer.status == 408:
            raise Transient(f"{url} answers HTTP {answer.status}, will be retried")
        if answer.status in (401, 403, 407):
            raise NeedsHuman(f"{url} answers HTTP {answer.status}: check `headers`, or `user` and `password`")
        raise NeedsHuman(answer.problem or f"{url} answers HTTP {answer.status}: correct `url`")

    def _version_of(self, entry: FeedEntry) -> str:
        return version(b"", entry.version, self._options.full_article)

    def _keep(self, key: str, entry: FeedEntry, client: WebClient, robots: RobotsCache) -> None:
        """Store an entry if it is new or changed. Raises Transient if its article cannot be read now."""
        made_of, stored = self._version_of(entry), self._mirror.page(key)
        if stored and stored.made_of == made_of:
            return
        page, data = self._page(key, entry, client, robots)
        extra = (("author", entry.author),) if entry.author else ()
        self._mirror.keep(replace(page, made_of=made_of, extra=extra, link=entry.link), data)

    def _page(self, key: str, entry: FeedEntry, client: WebClient, robots: RobotsCache) -> tuple[Page, bytes]:
        """Return the page and the content of an entry: its article, or else its text in the feed.

        Raises Transient.
        """
        answer = self._article(entry, client, robots) if self._options.full_article else None
        page = page_of(answer, links=False, robots=True) if answer else None
        if answer is None or page is None or not page.version:
            data, uri = entry.page(), entry.link or self._options.url
            return Page(key, entry.version, None, None, "text/html", len(data), entry.changed, uri=uri), data
        both = version(b"", page.version, entry.version)
        page = replace(page, url=key, version=both, uri=answer.url, etag=None, changed=None, canonical=None)
        return replace(page, modified=entry.changed or page.modified), answer.data

    def _article(self, entry: FeedEntry, client: WebClient, robots: RobotsCache) -> HttpAnswer | None:
        """Request the page that an entry links to. Return None if the page is missing or forbidden.

        Raises Transient.
        """
        if entry.link is None:
            return None
        try:
            if not robots.rules(entry.link).allow(entry.link):
                return None
            answer = client.follow(entry.link)
        except AddressRefused:
            return None
        if answer.status >= 500 or answer.status == 408:
            raise Transient(f"{entry.link} answers HTTP {answer.status}, will be retried")
        return answer if answer.status == 200 else None

    def _note_options(self) -> list[bool]:
        return [self._options.full_article, self._options.keep]


PLUGIN = Plugin(kind="feed", version=1, options=FeedOptions, build=FeedConnector)
