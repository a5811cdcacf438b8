"""Converts responses to pages, and chooses the pages that are documents. Pure."""

import re
from collections.abc import Callable, Mapping
from hashlib import blake2b
from html import unescape
from pathlib import PurePosixPath

from ingestor.connectors.http.answers import (
    AGENT,
    HttpAnswer,
    Page,
    canonical_link,
    day_of_change,
    essence,
    honest_type,
    robots_words,
    validators,
)
from ingestor.connectors.http.url import file_name, normal, origin
from ingestor.connectors.web.page import PageLinks, links_of
from ingestor.connectors.web.sitemap import Sitemap
from ingestor.model import Item

_HTML = ("text/html", "application/xhtml+xml")
_NO_DOCUMENTS = re.compile(r"(image|audio|video|font)/|text/css$|(text|application)/(x-)?javascript$")
# Types of files that no parser reads; they are not requested.
NO_DOCUMENTS = frozenset(
    (
        *(".png", ".jpg", ".jpeg", ".gif", ".webp", ".avif", ".svg", ".ico", ".bmp", ".tif", ".tiff", ".psd"),
        *(".mp3", ".m4a", ".ogg", ".oga", ".wav", ".flac", ".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm"),
        *(".woff", ".woff2", ".ttf", ".otf", ".eot", ".css", ".js", ".mjs", ".map", ".exe", ".msi", ".dmg"),
        *(".pkg", ".apk", ".deb", ".rpm", ".iso", ".img", ".bin", ".jar", ".whl", ".zip", ".gz", ".tgz"),
        *(".bz2", ".xz", ".zst", ".7z", ".rar", ".tar", ".torrent"),
    )
)
_ENDINGS = {
    "text/html": (".html", ".htm"),
    "application/xhtml+xml": (".xhtml", ".xht"),
    "application/pdf": (".pdf",),
    "text/markdown": (".md", ".markdown"),
    "text/csv": (".csv",),
    "application/json": (".json", ".ipynb"),
    "application/xml": (".xml", ".xsd"),
    "text/xml": (".xml", ".xsd"),
    "application/rtf": (".rtf",),
    "application/epub+zip": (".epub",),
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": (".docx",),
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": (".pptx",),
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": (".xlsx",),
    "message/rfc822": (".eml",),
}


def page_of(answer: HttpAnswer, *, links: bool, robots: bool) -> Page:
    """Build the page of a response with status 200.

    ``links``: whether to collect the page's links. ``robots``: whether to obey noindex and nofollow.
    """
    content_type, data = honest_type(answer.headers.get("content-type"), answer.data), answer.data
    page_links = links_of(data, content_type, answer.url, AGENT) if is_html(content_type) else PageLinks()
    words = robots_words(answer.headers, AGENT) | page_links.robots if robots else set[str]()
    is_document = not words & {"noindex", "none"} and not _NO_DOCUMENTS.match(essence(content_type))
    marks, modified = validators(answer.headers), day_of_change(answer.headers)
    facts = content_type, modified, answer.problem, answer.problem and marks.etag
    return Page(
        answer.url,
        version(data, *facts) if is_document else "",
        marks.etag,
        marks.changed,
        content_type,
        None if answer.problem else len(data),
        modified,
        canonical=_canonical(answer, page_links),
        links=page_links.links if links and not words & {"nofollow", "none"} else (),
        problem=answer.problem,
    )


def sitemap_page(answer: HttpAnswer, sitemap: Sitemap) -> Page:
    marks = validators(answer.headers)
    return Page(
        answer.url, "", marks.etag, marks.changed, links=sitemap.urls, of_sitemaps=sitemap.of_sitemaps
    )


def version(data: bytes, *facts: object) -> str:
    """Return a digest of a page's content and of further facts, which changes if one of them changes."""
    return blake2b(repr(facts).encode("utf-8", "replace") + b"\0" + data, digest_size=16).hexdigest()


def _canonical(answer: HttpAnswer, links: PageLinks) -> str | None:
    """Return the canonical address that a page declares.

    Return None if it is the page's own address, or belongs to another origin.
    """
    sent = canonical_link(answer.headers)
    address = (normal(sent, answer.url) if sent else None) or links.canonical
    return address if address and address != answer.url and origin(address) == origin(answer.url) else None


def is_html(content_type: str | None) -> bool:
    return essence(content_type) in _HTML


def documents(pages: Mapping[str, Page], is_copy: Callable[[Page, Page], bool]) -> list[Page]:
    """Choose one page for each document, so that copies of a page are not indexed.

    Of several copies, the page at their canonical address is chosen if it was read. A page that differs from
    the page at its canonical address is a document of its own. ``is_copy``: returns whether its first
    argument is a copy of the second.
    """
    contents = {url: page for url, page in pages.items() if page.version}
    chosen: dict[str, Page] = {}  # by canonical address
    own: list[Page] = []
    for url in sorted(contents):
        page = contents[url]
        canonical = page.canonical or url
        original = contents.get(canonical)
        if original is None or original.canonical is not None:
            original = chosen.get(canonical, page)
        if original is page or is_copy(page, original):
            chosen.setdefault(canonical, original)
        else:
            own.append(page)
    return sorted((*chosen.values(), *own), key=lambda page: page.url)


def blob_name(page: Page) -> str:
    """Return a file name for a page, with an extension that matches its content type."""
    name, endings = file_name(page.uri or page.url) or "index", _ENDINGS.get(essence(page.content_type), ())
    if endings and PurePosixPath(name).suffix.lower() not in endings:
        return name + endings[0]
    return name


def item_of(page: Page) -> Item:
    return Item(page.url, page.version, page.uri or page.url, page.size, page.modified, page.extra)


# The daemon's process reads untrusted pages here: in linear time, by Python alone.
_COPY = 0.7  # least share of shingles that two copies have in common
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9-]*+)[^<>]*+>?")
_LEFT_OUT = {"head", "script", "style", "noscript", "template", "nav", "header", "footer", "aside"}


def shingles(data: bytes) -> frozenset[int]:
    """Return hashes of all runs of three words in the text of an HTML page, without its navigation."""
    page, parts, at, within, depth = data.decode("utf-8", "replace"), list[str](), 0, "", 0
    for tag in _TAG.finditer(page):
        closing, name = tag[1], tag[2].lower()
        if not depth:
            parts.append(page[at : tag.start()])
            within = name
        if name == within and name in _LEFT_OUT:
            depth = max(0, depth + (-1 if closing else 1))
        at = tag.end()
    parts.append("" if depth else page[at:])
    words = re.findall(r"\w+", unescape(" ".join(parts)))
    starts = range(max(1, len(words) - 2)) if words else ()
    return frozenset(hash(tuple(words[at : at + 3])) for at in starts)


def are_copies(one: frozenset[int], other: frozenset[int]) -> bool:
    """Return whether two pages have nearly the same text. ``one``, ``other``: shingles of both pages."""
    return len(one & other) >= _COPY * len(one | other)
