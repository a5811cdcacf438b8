"""Pages of a website: a list of addresses, what a sitemap names, or what links lead to.

Key: the page's address in one spelling, after redirects; of pages that name one canonical address, that.
Version: a digest of content, type and day of change. What was read is kept in the ``cache`` folder, so that
a page that did not change is asked for and not sent; a scan reads pages, ``fetch`` asks nobody. robots.txt is
obeyed. Only public addresses are asked, whatever a page or a name says (decision 0013). While a page can't
be read, nothing is removed that may be linked from it. Scripts are not run.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from ingestor.connectors.http.client import Client
from ingestor.connectors.http.network import Outside
from ingestor.connectors.http.url import file_name, folder, origin
from ingestor.connectors.shared.gitignore import rules
from ingestor.connectors.shared.patterns import Pattern
from ingestor.connectors.web.content import blob_name, documents, item_of
from ingestor.connectors.web.crawl import Bounds, Crawl, Follow
from ingestor.connectors.web.mirror import Mirror, short
from ingestor.connectors.web.options import HttpOptions, Url
from ingestor.model import Blob, Item
from ingestor.ports import BadDocument, PartialScan, Stale
from ingestor.registry import Plugin, tuning

_log = logging.getLogger(__name__)
_WHOLE = "whole"
_NAMED = 100  # pages named by one PartialScan
# What changes nothing of a page, and secrets, of which a file's name must tell nothing.
_BESIDES = {"cache", "delay", "timeout", "contact", "allow_private", "password", "headers"}


def _folder(url: str) -> str:
    if not url.endswith("/"):
        raise ValueError("must end with a slash: addresses below it are meant")
    return url


class WebOptions(HttpOptions):
    """Patterns are those of the folder connector, for the path below the host."""

    start: list[Url] = Field(min_length=1, description="addresses of pages, of sitemaps, or where to begin")
    follow: Follow = Field(
        default="none",
        description="`none`: the pages in `start` are the documents; `sitemap`: those that a sitemap names, "
        "in `start` itself, named by robots.txt or at `/sitemap.xml`; `links`: those that links lead to",
    )
    within: list[Annotated[Url, AfterValidator(_folder)]] = Field(
        default=[],
        description="only addresses below these are followed; left out: those below the folders of `start`; "
        "of a sitemap its whole host",
    )
    include: list[Pattern] = Field(
        default=["**/*"], description="paths of pages that are documents, as gitignore patterns"
    )
    exclude: list[Pattern] = Field(
        default=[],
        description="paths, with their queries, that are not asked for at all: `/search*`, `*?print=*`",
    )
    depth: int = Field(default=20, ge=0, description="links from a start, at most")
    max_pages: int = Field(default=10_000, ge=1, description="addresses asked for in one scan, at most")
    robots: bool = Field(
        default=True,
        description="whether robots.txt, `noindex` and `nofollow` are obeyed; `false` is for your own sites",
    )
    cache: Path = tuning(
        Path("~/.cache/ingestor/web"),
        description="folder in which what was read is kept; sources that read a site with different secrets "
        "need one each",
    )

    @model_validator(mode="after")
    def _starts_lie_within(self) -> "WebOptions":
        if len(set(self.start)) < len(self.start):
            raise ValueError("`start` names an address twice")
        return self

    def bounds(self) -> Bounds:
        within = self.within or [self._place(url) for url in self.start]
        chosen = rules(self.include), rules(self.exclude)
        return Bounds(
            tuple(self.start), self.follow, tuple(within), *chosen, self.depth, self.max_pages, self.robots
        )

    def _place(self, url: str) -> str:
        return f"{origin(url)}/" if self.follow == "sitemap" and file_name(url) else folder(url)


class Web:
    """Connector for websites."""

    def __init__(self, options: WebOptions, outside: Outside | None = None) -> None:
        self._options, self._outside = options, outside or Outside()
        self._bounds, self._terms = options.bounds(), options.terms(*options.start)
        self._busy: dict[str, float] = {}
        meant = options.model_dump_json(exclude=_BESIDES), sorted(options.headers)
        self._mirror = Mirror(options.cache.expanduser() / f"{short(meant)}.sqlite")

    def scan(self) -> Iterator[Item]:
        """Raises NeedsHuman or Transient when no start can be read, PartialScan when a page can't."""
        with self._mirror.alone(), Client(self._terms, self._outside, self._busy) as client:
            crawl = Crawl(self._bounds, client, self._mirror)
            crawl.run()
            whole = self._mirror.note(_WHOLE) is not None
            if not crawl.unread:
                self._mirror.keep_only(crawl.pages)
                self._mirror.write_note(_WHOLE, "yes")
        if crawl.cut:
            _log.warning(
                "%s has more than %d pages (max_pages): those found first are read",
                self._options.start[0],
                self._options.max_pages,
            )
        yield from map(item_of, documents(crawl.pages))
        if crawl.unread:
            raise _partial(crawl.unread, whole)

    def fetch(self, item: Item) -> Blob:
        """Gives what was listed. Raises Stale or BadDocument (too large)."""
        found = self._mirror.body(item.key, item.version)
        if found is None:
            raise Stale(f"{item.uri} is to be listed again first")
        page, data = found
        if page.problem:
            raise BadDocument(page.problem)
        return Blob(data, blob_name(page), page.content_type)


def _partial(unread: dict[str, Exception], whole: bool) -> PartialScan:
    """Of what was never read whole, anything may hang on a page that can't be read."""
    more = f", and {len(unread) - 1} more" if len(unread) > 1 else ""
    message = f"{next(iter(unread.values()))}{more}: what is known of it stays"
    return PartialScan(message, list(unread) if whole and len(unread) <= _NAMED else [""])


PLUGIN = Plugin(kind="web", version=1, options=WebOptions, build=Web)
