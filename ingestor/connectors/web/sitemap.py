"""Reads the addresses in sitemaps (sitemaps.org), and in feeds that serve as sitemaps. Pure.

expat reads the XML as a stream. Declarations of entities, which no sitemap needs, are refused.
"""

import re
from dataclasses import dataclass, field
from xml.parsers import expat

from ingestor.connectors.http.body import Broken, TooLarge, gunzip
from ingestor.connectors.http.url import normal

_MOST = 50_000  # addresses in one file, as the protocol says
_BARE = re.compile(rb"&(?!#?\w{1,30};)")  # an ampersand that should have been escaped
_LONGEST = 10_000  # characters of an address; expat gives a text line by line
_ROOTS = ("urlset", "sitemapindex", "rss", "feed")  # feeds may serve as sitemaps
_WITH_ADDRESS = (
    ["urlset", "url", "loc"],
    ["sitemapindex", "sitemap", "loc"],
    ["rss", "channel", "item", "link"],
)


@dataclass(frozen=True, slots=True)
class Sitemap:
    """Addresses in a sitemap.

    ``of_sitemaps``: whether they are addresses of further sitemaps, not of pages.
    """

    urls: tuple[str, ...] = ()
    of_sitemaps: bool = False


@dataclass(slots=True)
class _Reader:
    base: str
    root: str = ""
    urls: dict[str, None] = field(default_factory=dict)
    _path: list[str] = field(default_factory=list)
    _text: str = ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(" ")[2]
        self.root = self.root or name
        self._path.append(name)
        self._text = ""
        if self._path == ["feed", "entry", "link"] and attributes.get("rel", "alternate") == "alternate":
            self._add(attributes.get("href", ""))

    def text(self, text: str) -> None:
        if len(self._text) < _LONGEST and self._path[-1:] in (["loc"], ["link"]):
            self._text += text

    def end(self, name: str) -> None:
        if self._path in _WITH_ADDRESS:
            self._add(self._text)
        self._path.pop()

    def _add(self, address: str) -> None:
        if len(address) >= _LONGEST:
            return
        if address.strip() and len(self.urls) < _MOST and (url := normal(address, self.base)):
            self.urls[url] = None


def sitemap(data: bytes, url: str, limit: int) -> Sitemap:
    """Parse a sitemap: XML, or text with an address on each line. The data may be compressed by gzip.

    ``url``: address of the sitemap. ``limit``: largest size in bytes, decompressed. Raises Broken or
    TooLarge.
    """
    data = gunzip(data, limit)
    if len(data) > limit:
        raise TooLarge
    data = data.lstrip(b"\xef\xbb\xbf\r\n\t ")  # many servers send an empty line first
    if not data.startswith((b"<", b"\xff\xfe", b"\xfe\xff")):
        return _plain(data, url)
    try:
        reader = _read(data, url)
    except expat.ExpatError as error:
        if (escaped := _BARE.sub(b"&amp;", data)) == data:
            raise Broken(f"no sitemap: {error}") from error
        return sitemap(escaped, url, max(limit, len(escaped)))
    if reader.root not in _ROOTS:
        raise Broken(f"not a sitemap: its root is <{reader.root}>")
    return Sitemap(tuple(reader.urls), reader.root == "sitemapindex")


def _read(data: bytes, url: str) -> _Reader:
    """Read a sitemap in XML. Raises expat.ExpatError or Broken.

    A declared encoding counts only if the data is not UTF-8: some servers declare UTF-16 and send UTF-8.
    """
    reader = _Reader(url)
    parser = expat.ParserCreate("utf-8" if _is_utf8(data) else None, namespace_separator=" ")
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler, parser.EntityDeclHandler = reader.text, _refuse
    parser.Parse(data, True)
    return reader


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _plain(data: bytes, url: str) -> Sitemap:
    """Parse a sitemap that is a text with an address on each line. Raises Broken."""
    lines = data.decode("utf-8", "replace").split()
    if not lines:
        raise Broken("not a sitemap: empty")
    if not all(line.startswith(("http://", "https://")) for line in lines):
        raise Broken("not a sitemap: neither XML nor one address a line")
    return Sitemap(tuple(dict.fromkeys(filter(None, (normal(line, url) for line in lines[:_MOST])))))


def _refuse(*declaration: object) -> None:
    raise Broken("not a sitemap: declares entities")
