"""Crawls a website: requests pages breadth first, one after another.

An unreadable page keeps its last content and links, and these links are followed. Then pages that no other
page links to any more are requested, too, because the unreadable page may link to them.
"""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Literal

from ingestor.connectors.http.answers import NOTHING, HttpAnswer, Page, Validators
from ingestor.connectors.http.body import Broken, TooLarge
from ingestor.connectors.http.client import MOST_HOPS, RobotsCache, WebClient
from ingestor.connectors.http.network import AddressRefused
from ingestor.connectors.http.url import file_name, lies_below, looks_endless, normal, origin, path_names
from ingestor.connectors.shared.gitignore import IgnoreRules, rules, selects
from ingestor.connectors.web.content import NO_DOCUMENTS, page_of, sitemap_page
from ingestor.connectors.web.mirror import Mirror
from ingestor.connectors.web.sitemap import sitemap
from ingestor.ports import NeedsHuman, Transient

Follow = Literal["none", "sitemap", "links"]

_QUERIES = 100  # of one path
_IN_A_ROW = 5  # unreadable pages in a row that end the pass over a site
_SITEMAPS_DEEP = 3
_LARGEST_SITEMAP = 50 * 10**6  # bytes, as the protocol says
_ALL = rules(["**/*"])


@dataclass(frozen=True, slots=True)
class Bounds:
    """Options that limit which pages a crawl requests; see WebOptions for each."""

    starts: tuple[str, ...]
    follow: Follow
    within: tuple[str, ...]
    include: IgnoreRules
    exclude: IgnoreRules
    depth: int
    max_pages: int
    robots: bool

    def enters(self, url: str) -> bool:
        """Return whether a page that another page links to may be requested."""
        return lies_below(url, self.within) and selects(_ALL, self.exclude, path_names(url))

    def takes(self, url: str) -> bool:
        """Return whether a page may be a document."""
        return selects(self.include, self.exclude, path_names(url))


@dataclass(frozen=True, slots=True)
class Step:
    """An address that a crawl will request.

    ``depth``: number of links from a start to the address. ``hops``: number of redirects in a row that led to
    it. ``start``: whether the config names the address, or an address that redirects to it.
    """

    url: str
    role: Literal["page", "sitemap"] = "page"
    depth: int = 0
    hops: int = 0
    start: bool = False


class _Denied(Exception):
    """Error: the server, its robots.txt or the config forbids reading a page. A retry will not help."""


class Crawl:
    """A crawl of a website, and its result.

    ``pages``: pages by address, as read in this crawl or an earlier one. ``unread``: errors of unreadable
    pages by address. ``cut``: whether the crawl ended because it had read ``max_pages`` pages.
    """

    def __init__(self, bounds: Bounds, client: WebClient, mirror: Mirror) -> None:
        self._bounds, self._client, self._mirror = bounds, client, mirror
        self.pages: dict[str, Page] = {}
        self.unread: dict[str, Exception] = {}
        self.cut = False
        self._queue: deque[Step] = deque()
        self._seen: set[str] = set()
        self._queries: Counter[str] = Counter()
        self._robots = RobotsCache(client)
        self._failed: Counter[str] = Counter()  # by origin: unreadable pages in a row
        self._started = False  # whether a start was read
        self._has_pages = False  # whether a page was in the queue
        self._excluded = ""  # the first address of a sitemap outside the bounds
        self._start_errors: list[Exception] = []

    def run(self) -> None:
        """Request all pages, from the starts on. Raises NeedsHuman or Transient if no start can be read."""
        for start in self._bounds.starts:
            for step in self._first(start):
                self._add(step)
        while self._queue and not self.cut:
            step = self._queue.popleft()
            page = self._visit(step)
            for onward in self._onward(step, page) if page else ():
                self._add(onward)
            self.cut = bool(self._queue) and len(self._seen) - len(self._queue) >= self._bounds.max_pages
        if self._start_errors and not self._started:
            raise self._start_errors[0]
        if self._excluded and not self._has_pages and not self.unread:
            raise NeedsHuman(
                f"every address of the sitemap is excluded, such as {self._excluded}: to read it, add its "
                "folder to `within`, or correct `exclude`"
            )
        if self.unread and self._bounds.follow != "none":
            for page in self._mirror.pages():
                if page.version and page.url not in self._seen:
                    self._visit(Step(page.url))

    def _first(self, start: str) -> Iterator[Step]:
        """Yield the first addresses to request: the start itself, or the sitemaps of its site.

        If robots.txt names no sitemap, the usual address ``/sitemap.xml`` is requested.
        """
        if self._bounds.follow != "sitemap":
            yield Step(start, start=True)
        elif file_name(start):
            yield Step(start, "sitemap", start=True)
        else:
            try:
                named = self._robots.rules(start).sitemaps
            except (AddressRefused, Transient) as error:
                self.unread[start] = error
                self._start_errors.append(_for_start(error))
                return
            addresses = filter(None, (normal(url, start) for url in named))
            for url in list(addresses) or [f"{origin(start)}/sitemap.xml"]:
                yield Step(url, "sitemap", start=True)

    def _add(self, step: Step) -> None:
        if step.url in self._seen:
            return
        if self._may_enter(step):
            self._seen.add(step.url)
            self._queue.append(step)
            self._has_pages |= step.role == "page"
        elif self._bounds.follow == "sitemap":
            self._excluded = self._excluded or step.url

    def _may_enter(self, step: Step) -> bool:
        bounds = self._bounds
        if step.hops > MOST_HOPS:
            return False
        if (step.start and not step.hops) or (bounds.follow == "none" and step.hops):
            return True
        if step.role == "sitemap":
            ours = map(origin, (*bounds.within, *bounds.starts))
            return step.depth <= _SITEMAPS_DEEP and origin(step.url) in ours
        return step.depth <= bounds.depth and bounds.enters(step.url) and not self._is_trap(step.url)

    def _is_trap(self, url: str) -> bool:
        path, _, query = url.partition("?")
        self._queries[path] += bool(query)
        return looks_endless(url) or self._queries[path] > _QUERIES

    def _onward(self, step: Step, page: Page) -> Iterator[Step]:
        """Yield the addresses that a page leads to.

        These are the target of its redirect, the addresses in a sitemap, or the links of a page.
        """
        if page.location:
            yield replace(step, url=page.location, hops=step.hops + 1)
        elif step.role == "sitemap" and page.of_sitemaps:
            yield from (Step(url, "sitemap", step.depth + 1) for url in page.links)
        elif step.role == "sitemap":
            yield from map(Step, page.links)
        elif self._bounds.follow != "none":
            for url in (*filter(None, (page.canonical,)), *page.links):
                if PurePosixPath(file_name(url)).suffix.lower() not in NO_DOCUMENTS:
                    yield Step(url, depth=step.depth + 1)

    def _visit(self, step: Step) -> Page | None:
        """Request an address, and return its page; None if there is no page.

        If the page cannot be read now, return the page as it was last read.
        """
        stored = self._mirror.page(step.url)
        try:
            page = self._request(step, stored)
        except (_Denied, AddressRefused, Broken, Transient) as error:
            return self._unreadable(step, stored, error)
        self._failed[origin(step.url)] = 0
        self._started |= step.start and (page is None or page.location is None)
        if page:
            self.pages[step.url] = page
        return page

    def _unreadable(self, step: Step, stored: Page | None, error: Exception) -> Page | None:
        definite = isinstance(error, _Denied | AddressRefused)
        if step.start:
            self._start_errors.append(_for_start(error))
        elif definite and stored is None:
            return None
        self._failed[origin(step.url)] += not definite
        self.unread[step.url] = error
        if stored:
            self.pages[step.url] = stored
        return stored

    def _request(self, step: Step, stored: Page | None) -> Page | None:
        """Request an address, and return its page; None if there is no page.

        ``stored``: the page as it was last read. Raises _Denied, AddressRefused, Broken or Transient.
        """
        url, site = step.url, origin(step.url)
        if self._failed[site] >= _IN_A_ROW:
            raise Transient(
                f"{site} seems to be down, will be retried: {_IN_A_ROW} pages in a row could not be read"
            )
        if step.role == "page" and self._bounds.robots and not self._robots.rules(url).allow(url):
            if step.start:
                raise _Denied(f"{site}/robots.txt disallows {url}: if the site is yours, set `robots: false`")
            return None
        unless = Validators(stored.etag, stored.changed) if stored else NOTHING
        answer = self._client.get(url, unless, _LARGEST_SITEMAP if step.role == "sitemap" else None)
        if answer.status == 304 and stored:
            return stored
        if answer.status == 200:
            return self._content(step, answer)
        return self._without_content(step, answer)

    def _without_content(self, step: Step, answer: HttpAnswer) -> Page | None:
        """Convert a response that has no content: return the page of a redirect, or None for a missing page.

        Raises _Denied or Transient.
        """
        if answer.location:
            if step.start and not self._may_enter(replace(step, url=answer.location, hops=step.hops + 1)):
                target = f"{step.url} redirects to {answer.location}"
                raise _Denied(f"{target}: to read that, add it to `start` or `within`")
            page = Page(step.url, location=answer.location)
            self._mirror.keep(page)
            return page
        reason = f"{step.url} answers HTTP {answer.status}"
        if answer.status in (404, 410):
            if step.start and self._bounds.follow != "none":
                raise _Denied(f"{reason}: correct `start`")
            return None
        if answer.status in (401, 403, 407):
            raise _Denied(f"{reason}: check `headers`, or `user` and `password`")
        if answer.status >= 500 or answer.status == 408:
            raise Transient(f"{reason}, will be retried")
        raise _Denied(reason)

    def _content(self, step: Step, answer: HttpAnswer) -> Page:
        if step.role == "page":
            page = page_of(answer, links=self._bounds.follow == "links", robots=self._bounds.robots)
            page = page if self._bounds.takes(step.url) else replace(page, version="")
        elif answer.problem:
            raise Broken(answer.problem)
        else:
            try:
                page = sitemap_page(answer, sitemap(answer.data, answer.url, _LARGEST_SITEMAP))
            except TooLarge as error:
                raise Broken("not a sitemap: it unpacks to more than the protocol allows") from error
        self._mirror.keep(page, answer.data if page.version else None)
        return page


def _for_start(error: Exception) -> Exception:
    """Convert the error of a start page to an error of the whole scan, used if no start can be read."""
    return NeedsHuman(str(error)) if isinstance(error, _Denied | AddressRefused) else Transient(str(error))
