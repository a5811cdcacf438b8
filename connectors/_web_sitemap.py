"""Sitemaps (sitemaps.org): the addresses in them. Pure.

XML is read by expat as it comes; entities, which a sitemap has no use for, are refused.
"""

from dataclasses import dataclass, field
from xml.parsers import expat

from connectors._web_body import Broken, TooLarge, gunzipped
from connectors._web_url import normal

_MOST = 50_000  # addresses in one file, as the protocol has it


@dataclass(frozen=True, slots=True)
class Sitemap:
    """``of_sitemaps``: it is an index, and its addresses are those of sitemaps."""

    urls: tuple[str, ...] = ()
    of_sitemaps: bool = False


@dataclass(slots=True)
class _Reader:
    base: str
    root: str = ""
    urls: dict[str, None] = field(default_factory=dict)
    _path: list[str] = field(default_factory=list)
    _text: str = ""

    def start(self, name: str, attributes: object) -> None:
        name = name.rpartition(" ")[2]
        self.root = self.root or name
        self._path.append(name)
        self._text = ""

    def text(self, text: str) -> None:
        if self._path[-1:] == ["loc"]:
            self._text += text

    def end(self, name: str) -> None:
        of_ours = self._path in (["urlset", "url", "loc"], ["sitemapindex", "sitemap", "loc"])
        if of_ours and len(self.urls) < _MOST and (url := normal(self._text, self.base)):
            self.urls[url] = None
        self._path.pop()


def sitemap(data: bytes, url: str, limit: int) -> Sitemap:
    """``url``: where it was found; ``limit``: bytes, unpacked. Raises Broken or TooLarge."""
    data = gunzipped(data, limit)
    if len(data) > limit:
        raise TooLarge
    if not data.lstrip(b"\xef\xbb\xbf\r\n\t ").startswith(b"<") and not data.startswith(
        (b"\xff\xfe", b"\xfe\xff")
    ):
        return _plain(data, url)
    reader = _Reader(url)
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler, parser.EntityDeclHandler = reader.text, _refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise Broken(f"no sitemap: {error}") from error
    if reader.root not in ("urlset", "sitemapindex"):
        raise Broken(f"no sitemap: its root is <{reader.root}>")
    return Sitemap(tuple(reader.urls), reader.root == "sitemapindex")


def _plain(data: bytes, url: str) -> Sitemap:
    """One address a line."""
    lines = data.decode("utf-8-sig", "replace").split()
    if not all(line.startswith(("http://", "https://")) for line in lines):
        raise Broken("no sitemap: neither XML nor one address a line")
    return Sitemap(tuple(dict.fromkeys(filter(None, (normal(line, url) for line in lines[:_MOST])))))


def _refuse(*declaration: object) -> None:
    raise Broken("no sitemap: it declares entities")
