"""Connector ``web``: pages of a website, from a list of addresses, a sitemap, or by following links.

A key is the page's normalised address after redirects, or its canonical address if the page names one. A
version is a digest of content, type and day of change. A scan reads the pages and stores them in the
``cache`` folder. A conditional request gets a page only if it changed, and ``fetch`` sends no request.
robots.txt is obeyed. Requests go to public addresses only, whatever a page or a host name says (decision
0013). While a page cannot be read, no page that it may link to is removed. Scripts are not run.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from ingestor.connectors.http.answers import Page
from ingestor.connectors.http.client import WebClient
from ingestor.connectors.http.network import Outside
from ingestor.connectors.http.url import file_name, folder, origin
from ingestor.connectors.shared.gitignore import rules
from ingestor.connectors.shared.patterns import Pattern
from ingestor.connectors.web.content import (
    are_copies,
    documents,
    is_html,
    item_of,
    shingles,
)
from ingestor.connectors.web.crawl import Bounds, Crawl, Follow
from ingestor.connectors.web.mirror import Mirror, short
from ingestor.connectors.web.options import HttpOptions, Url
from ingestor.model import Blob, Item
from ingestor.ports import PartialScan
from ingestor.registry import Plugin, require_match, tuning

_log = logging.getLogger(__name__)
_WHOLE = "whole"
_NAMED = 100  # pages named by one PartialScan
# Options that do not change pages, and secrets, which must not become part of a file's name.
_BESIDES = {"cache", "delay", "timeout", "contact", "allow_private", "password", "headers"}


Folder = Annotated[Url, require_match(".*/", "must end with a slash: it allows the addresses below it")]


class WebOptions(HttpOptions):
    """Options of ``web``.

    Patterns apply to the path after the host, and are written as for the folder connector.
    """

    start: list[Url] = Field(min_length=1, description="addresses of pages or sitemaps to start from")
    follow: Follow = Field(
        default="none",
        description="`none`: the pages of `start`; `sitemap`: the pages of a sitemap, from `start`, "
        "robots.txt or `/sitemap.xml`; `links`: pages that links lead to",
    )
    within: list[Folder] = Field(
        default=[],
        description="read only below these addresses; default: folders of `start`, or the host of a sitemap",
    )
    include: list[Pattern] = Field(
        default=["**/*"], description="paths of pages to read, as gitignore patterns"
    )
    exclude: list[Pattern] = Field(
        default=[],
        description="paths, with queries, that are never requested: `/search*`, `*?print=*`",
    )
    depth: int = Field(default=20, ge=0, description="most links between a start and a page")
    max_pages: int = Field(default=10_000, ge=1, description="most addresses requested in one scan")
    robots: bool = Field(
        default=True,
        description="obey robots.txt, `noindex` and `nofollow`; `false` is for your own sites",
    )
    cache: Path = tuning(
        Path("~/.cache/ingestor/web"),
        description="folder of the pages; sources that read one site with different secrets need one each",
    )

    @model_validator(mode="after")
    def _starts_lie_within(self) -> "WebOptions":
        if len(set(self.start)) < len(self.start):
            raise ValueError("`start` names an address twice: remove one")
        return self

    def bounds(self) -> Bounds:
        within: list[str] = self.within or [
            f"{origin(url)}/" if self.follow == "sitemap" and file_name(url) else folder(url)
            for url in self.start
        ]
        chosen = rules(self.include), rules(self.exclude)
        return Bounds(
            tuple(self.start), self.follow, tuple(within), *chosen, self.depth, self.max_pages, self.robots
        )


class Web:
    """Connector for the pages of a website."""

    def __init__(self, options: WebOptions, outside: Outside | None = None) -> None:
        self._options, self._outside = options, outside or Outside()
        self._bounds, self._terms = options.bounds(), options.terms(*options.start)
        self._busy: dict[str, float] = {}
        identity = options.model_dump_json(exclude=_BESIDES), sorted(options.headers)
        self._mirror = Mirror(options.cache.expanduser() / f"{short(identity)}.sqlite")
        self._shingles: dict[str, tuple[str, frozenset[int]]] = {}  # by address, of a version

    def scan(self) -> Iterator[Item]:
        """Crawl the website, and yield its documents.

        Raises NeedsHuman or Transient if no start can be read, and PartialScan at the end if some page cannot
        be read.
        """
        with self._mirror.alone(), WebClient(self._terms, self._outside, self._busy) as client:
            crawl = Crawl(self._bounds, client, self._mirror)
            crawl.run()
            was_complete = self._mirror.note(_WHOLE) is not None  # the mirror had every page once
            if not crawl.unread:  # else an unread page may link to pages that the crawl did not reach
                self._mirror.keep_only(crawl.pages)
                self._mirror.write_note(_WHOLE, "yes")
        if crawl.cut:
            _log.warning(
                "%s has more than %d pages: the others are not read; raise `max_pages` to read them",
                self._options.start[0],
                self._options.max_pages,
            )
        self._shingles = {url: shown for url, shown in self._shingles.items() if url in crawl.pages}
        yield from map(item_of, documents(crawl.pages, self._is_copy))
        if crawl.unread:
            raise _partial(crawl.unread, was_complete)

    def _is_copy(self, page: Page, other: Page) -> bool:
        """Return whether a page is a copy of another page, which it declares as canonical.

        HTML pages are compared: they must have nearly the same text. For other types the declaration is
        trusted, unless it names the site's home page.
        """
        if page.version == other.version:
            return True
        if not (is_html(page.content_type) and is_html(other.content_type)):
            return other.url != f"{origin(other.url)}/"
        return are_copies(self._shingles_of(page), self._shingles_of(other))

    def _shingles_of(self, page: Page) -> frozenset[int]:
        version, shown = self._shingles.get(page.url, ("", frozenset()))
        if version != page.version:
            body = self._mirror.body(page.url, page.version)
            shown = shingles(body[1]) if body else frozenset()
            self._shingles[page.url] = page.version, shown
        return shown

    def fetch(self, item: Item) -> Blob:
        """Return the content of a page as it was listed, without a request.

        Raises Stale, and BadDocument if the page is too large.
        """
        return self._mirror.fetch(item)


def _partial(unread: dict[str, Exception], was_complete: bool) -> PartialScan:
    """Return the error for pages that could not be read. It names the keys whose documents must stay.

    ``was_complete``: whether some earlier crawl read every page. If none did, the unread pages may link to
    any page, so no document may be removed.
    """
    more = f", and {len(unread) - 1} more" if len(unread) > 1 else ""
    message = f"{next(iter(unread.values()))}{more}: their known documents stay"
    return PartialScan(message, list(unread) if was_complete and len(unread) <= _NAMED else [""])


PLUGIN = Plugin(kind="web", version=1, options=WebOptions, build=Web)
