"""Facts about remote files, in one form for all file systems, and entries of index pages. Pure.

File systems use many names for the same fact, and some give times as text. The version from a listing must
equal the version from a request for the single file.

An entry of an index page is a link to a URL directly below the page. A link that ends in a slash leads to a
folder. Links with a query, such as columns to sort by, are skipped.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

from ingestor.connectors.shared.typed import posix

# Marks that change with the content; the first one that a file system reports is used.
_MARKS = ("ETag", "etag", "e_tag", "generation", "sha", "md5Hash", "Content-MD5", "Digest", "checksum", "CRC")
_TIMES = (
    "LastModified",
    "last_modified",
    "modified",
    "mtime",
    "updated",
    "Last-Modified",
    "modify",
    "created",
)


def version(info: Mapping[str, Any]) -> str | None:
    """Return a version of a file, which changes with the file's content; None if only the size is known."""
    mark = next((str(info[name]) for name in _MARKS if _has(info, name)), None)
    changed = time_of_change(info)
    if mark is None and changed is None:
        return None
    if mark is None:
        return f"{size(info)} {changed}"
    return f"{size(info)} {mark} {'' if changed is None else int(changed)}"  # servers may round


def is_marked(info: Mapping[str, Any]) -> bool:
    """Return whether the server reports more than size and time of a file, such as an ETag."""
    return any(_has(info, name) for name in _MARKS)


def _has(info: Mapping[str, Any], name: str) -> bool:
    return info.get(name) not in (None, "")


def size(info: Mapping[str, Any]) -> int | None:
    number = info.get("size")
    return int(number) if number is not None else None


def time_of_change(info: Mapping[str, Any]) -> float | None:
    """Return the time at which a file last changed, in POSIX seconds."""
    return next((time for name in _TIMES if (time := _seconds(info.get(name))) is not None), None)


def _seconds(value: object) -> float | None:
    if isinstance(value, str):
        value = _parse(value)
    if isinstance(value, datetime):
        return posix(value)
    return float(value) if isinstance(value, int | float) else None


def _parse(text: str) -> datetime | None:
    """Parse ISO 8601, HTTP dates, or FTP times (20231114221320); None for other text."""
    with suppress(ValueError):
        return datetime.fromisoformat(text)
    for form, part in (("%a, %d %b %Y %H:%M:%S GMT", text), ("%Y%m%d%H%M%S", text[:14])):
        with suppress(ValueError):
            return datetime.strptime(part, form).replace(tzinfo=UTC)
    return None


_HTML = re.compile(rb"<(!doctype html|html|title|pre|ul|table|a\s)", re.IGNORECASE)


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value for name, value in attrs if (tag, name) == ("a", "href") and value]


def entries(page: bytes, url: str) -> dict[str, bool]:
    """Parse the index page of a folder. Return the name of each entry, and whether the entry is a folder.

    ``url``: address of the page, which ends in a slash. Raises ValueError if the page is not HTML.
    """
    if not _HTML.search(page):
        raise ValueError("the page is not HTML with links to files")
    links = _Links()
    links.feed(page.decode("utf-8", "replace"))
    names = filter(None, (_name_below(link, url) for link in links.links))
    return {name.rstrip("/"): name.endswith("/") for name in names}


def address(root: str, path: str) -> str:
    """Return the percent-encoded URL of the file at ``path`` below ``root``.

    ``path``: text as ``os.fsdecode`` returns it.
    """
    return f"{root}/{quote(path, errors='surrogateescape')}"


def _name_below(link: str, url: str) -> str | None:
    """Return the name of the entry that a link leads to, directly below ``url``; None for other links.

    The name of a folder ends in a slash.
    """
    try:
        target, page = urlsplit(urljoin(url, link.strip())), urlsplit(url)
    except ValueError:
        return None
    path, above = (unquote(parts.path, errors="surrogateescape") for parts in (target, page))
    if target[:2] != page[:2] or target.query or not path.startswith(above):
        return None
    name = path[len(above) :]
    plain = name.removesuffix("/")
    return None if plain in ("", ".", "..") or re.search(r"[/\0]", plain) else name
