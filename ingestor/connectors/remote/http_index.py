"""Read index pages of an HTTP server as listings of folders. Pure.

An entry of a folder is a link to a URL directly beneath the page. A link that ends in a slash leads to a
folder. Other links, and links with a query (such as columns to sort by), are skipped.
"""

import re
from html.parser import HTMLParser
from urllib.parse import quote, unquote, urljoin, urlsplit

_HTML = re.compile(rb"<(!doctype html|html|title|pre|ul|table|a\s)", re.IGNORECASE)


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value for name, value in attrs if (tag, name) == ("a", "href") and value]


def entries(page: bytes, url: str) -> dict[str, bool]:
    """Names in the folder, and whether each is a folder; ``url``: the page's, which ends in a slash.

    Raises ValueError if the page is not HTML.
    """
    if not _HTML.search(page):
        raise ValueError("not a page of links")
    links = _Links()
    links.feed(page.decode("utf-8", "replace"))
    names: dict[str, bool] = {}
    for link in links.links:
        name = _beneath(link, url)
        if name:
            names[name.rstrip("/")] = name.endswith("/")
    return names


def address(root: str, path: str) -> str:
    """URL of a path beneath a folder, percent-encoded; names may hold bytes as from ``os.fsdecode``."""
    return f"{root}/{quote(path, errors='surrogateescape')}"


def _beneath(link: str, url: str) -> str | None:
    """The name of a link's target, if it lies directly beneath ``url``."""
    try:
        there, here = urlsplit(urljoin(url, link.strip())), urlsplit(url)
    except ValueError:
        return None
    path, above = (unquote(parts.path, errors="surrogateescape") for parts in (there, here))
    if there[:2] != here[:2] or there.query or not path.startswith(above):
        return None
    name = path[len(above) :]
    plain = name.removesuffix("/")
    return None if plain in ("", ".", "..") or re.search(r"[/\0]", plain) else name
