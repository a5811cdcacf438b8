"""URLs in one spelling, and their parts. Pure.

Two spellings of one URL must be one document, and the URL that is checked must be the URL that is requested.
So a URL is parsed once, by strict rules, and written again from its parts.
"""

import re
from collections.abc import Iterable
from ipaddress import IPv6Address
from urllib.parse import quote, unquote, urljoin, urlsplit

import idna

_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")
_IN_PATH = "/%:@!$&'()*+,;=-._~"
_LONGEST = 2000  # characters
_REPEATS = 3  # of one path segment


def normal(url: str, base: str = "") -> str | None:
    """Return a URL in its normal spelling and without its fragment; None if the URL is unusable.

    A usable URL has the scheme http or https, a host, and neither user nor password. ``base``: URL of the
    page to which a relative URL refers.
    """
    try:
        parts = urlsplit(urljoin(base, url.strip()))
        host, port = _host(parts.hostname or ""), parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not host or "@" in parts.netloc:
        return None
    authority = host if port in (None, _PORTS[parts.scheme]) else f"{host}:{port}"
    path = _without_dots(_escape(parts.path, _IN_PATH)) or "/"
    query = _escape(parts.query, _IN_PATH + "?")
    return f"{parts.scheme}://{authority}{path}{'?' if query else ''}{query}"


def _host(host: str) -> str:
    """Return a host name in ASCII and lower case, or an IPv6 address in brackets.

    For an invalid host, return "" or raise ValueError.
    """
    if ":" in host:
        return f"[{IPv6Address(host)}]"
    host = host.rstrip(".")
    if not host.isascii():
        host = idna.encode(host, uts46=True).decode()
    return host.lower() if _HOST.fullmatch(host.lower()) else ""


def _escape(text: str, safe: str) -> str:
    """Percent-encode all characters that are neither unreserved nor in ``safe``; decode unreserved ones."""
    text = re.sub("%(?![0-9A-Fa-f]{2})", "%25", text)
    return _ESCAPE.sub(_unescape, quote(text, safe=safe, errors="replace"))


def _unescape(escape: re.Match[str]) -> str:
    character = chr(int(escape[1], 16))
    return character if character in _UNRESERVED else escape[0].upper()


def _without_dots(path: str) -> str:
    """Remove the segments ``.`` and ``..`` (RFC 3986, 5.2.4)."""
    kept: list[str] = []
    segments = path.split("/")
    for segment in segments[1:]:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def origin(url: str) -> str:
    """Return scheme, host and port of a normal URL, as in ``https://example.org``."""
    return "/".join(url.split("/", 3)[:3])


def port_of(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or _PORTS[parts.scheme]


def folder(url: str) -> str:
    """Return the folder of a page: the URL up to the last slash of its path."""
    return url.partition("?")[0].rpartition("/")[0] + "/"


def lies_below(url: str, folders: Iterable[str]) -> bool:
    return any(url.startswith(folder) or f"{url}/" == folder for folder in folders)


def path_names(url: str) -> list[str]:
    """Return the decoded segments of a URL's path, to match patterns. The last segment includes the query."""
    parts = urlsplit(url)
    *above, last = parts.path.removeprefix("/").split("/")
    return [*map(unquote, above), unquote(last) + (f"?{parts.query}" if parts.query else "")]


def file_name(url: str) -> str:
    """Return the last segment of a URL's path, without the query; "" if the path ends in a slash."""
    return unquote(urlsplit(url).path.rpartition("/")[2]).replace("/", "_")


def looks_endless(url: str) -> bool:
    """Return whether a URL probably belongs to an endless series, such as ``/a/b/a/b/a/b/a/b``.

    Some websites generate such links without end, so a crawl must not follow them.
    """
    segments = [segment for segment in urlsplit(url).path.split("/") if segment]
    return len(url) > _LONGEST or any(segments.count(segment) > _REPEATS for segment in set(segments))
