"""URLs in one spelling, and what can be told from them. Pure.

Two spellings of one URL must be one document, and what is checked must be what is asked: so a URL is taken
apart once, by strict rules, and put together again from parts that leave no doubt.
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
    """The URL in its one spelling, without fragment; None where it is not one of http or https.

    ``base``: what a relative one is relative to. URLs that carry a user or password are none of ours.
    """
    try:
        parts = urlsplit(urljoin(base, url.strip()))
        host, port = _host(parts.hostname or ""), parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not host or "@" in parts.netloc:
        return None
    place = host if port in (None, _PORTS[parts.scheme]) else f"{host}:{port}"
    path = _without_dots(_escaped(parts.path, _IN_PATH)) or "/"
    query = _escaped(parts.query, _IN_PATH + "?")
    return f"{parts.scheme}://{place}{path}{'?' if query else ''}{query}"


def _host(host: str) -> str:
    """ASCII, lower-case; an IPv6 address in its brackets. "" or ValueError where it can't be a host's."""
    if ":" in host:
        return f"[{IPv6Address(host)}]"
    host = host.rstrip(".")
    if not host.isascii():
        host = idna.encode(host, uts46=True).decode()
    return host.lower() if _HOST.fullmatch(host.lower()) else ""


def _escaped(text: str, safe: str) -> str:
    """Percent-encoded where it must be and nowhere else, in upper case."""
    text = re.sub("%(?![0-9A-Fa-f]{2})", "%25", text)
    return _ESCAPE.sub(_unescaped, quote(text, safe=safe, errors="replace"))


def _unescaped(escape: re.Match[str]) -> str:
    character = chr(int(escape[1], 16))
    return character if character in _UNRESERVED else escape[0].upper()


def _without_dots(path: str) -> str:
    """RFC 3986, 5.2.4."""
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
    """Scheme, host and port, as in ``https://example.org``; of a normal URL."""
    return "/".join(url.split("/", 3)[:3])


def port_of(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or _PORTS[parts.scheme]


def folder(url: str) -> str:
    """The URL up to the last slash of its path."""
    return url.partition("?")[0].rpartition("/")[0] + "/"


def lies_below(url: str, folders: Iterable[str]) -> bool:
    return any(url.startswith(folder) or f"{url}/" == folder for folder in folders)


def path_names(url: str) -> list[str]:
    """What patterns are matched against: the path's segments as people read them, the query with the last."""
    parts = urlsplit(url)
    *above, last = parts.path.removeprefix("/").split("/")
    return [*map(unquote, above), unquote(last) + (f"?{parts.query}" if parts.query else "")]


def file_name(url: str) -> str:
    """The last segment of the path, "" if that is a folder's; without the query."""
    return unquote(urlsplit(url).path.rpartition("/")[2]).replace("/", "_")


def looks_endless(url: str) -> bool:
    """Whether it looks like one of those that a site makes without end: ``/a/b/a/b/a/b/a/b``."""
    segments = [segment for segment in urlsplit(url).path.split("/") if segment]
    return len(url) > _LONGEST or any(segments.count(segment) > _REPEATS for segment in set(segments))
