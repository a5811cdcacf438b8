"""Reads links, canonical address and rules for robots of an HTML page. Pure.

Untrusted pages are read in the daemon's process, so tags are read in linear time, and by Python alone.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape

from ingestor.connectors.http.url import normal

_TAG = re.compile(r"<(?:(!--)|(a|area|frame|link|meta|base|script|style|textarea)(?=[\s/>]))", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"([^\s/>=]++)(?:\s*+=\s*+(?:\"([^\"]*)\"|'([^']*)'|([^\s>\"'][^\s>]*)))?", re.ASCII)
_BLANK = re.compile(r"[\s/]*+", re.ASCII)
_UNREAD = {"script", "style", "textarea"}  # their content is not markup
_CHARSET = re.compile(rb"charset\s*=\s*+[\"']?\s*+([\w.:-]+)", re.IGNORECASE)
_DECLARED = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_REFRESH = re.compile(r"\s*+\d*+[\s;,]*+url\s*+=\s*+[\"']?([^\"']*)", re.IGNORECASE)
_RELATIVE = re.compile(r"\A(?!\s*[a-z][a-z0-9+.-]*:)[^?#]++", re.IGNORECASE)  # where browsers read \ as /
_HEAD = 4096  # bytes in which a page may name its encoding
_MOST_LINKS = 10_000  # of one page

Attributes = dict[str, str]


@dataclass(frozen=True, slots=True)
class PageLinks:
    """Links of a page, and its rules for robots.

    ``links``: URLs in normal spelling, each once, in the order of the page. ``robots``: words such as noindex
    and nofollow.
    """

    links: tuple[str, ...] = ()
    canonical: str | None = None
    robots: frozenset[str] = frozenset()


def links_of(data: bytes, content_type: str | None, url: str, agent: str) -> PageLinks:
    """Read the links of an HTML page, and its rules for robots.

    ``url``: address of the page. ``agent``: our name as a robot, by which a page may address rules to us.
    """
    links: dict[str, None] = {}
    canonical, robots, base = None, set[str](), ""  # the first base counts
    for tag, attributes in _tags(_text(data, content_type)):
        words = attributes.get("rel", "").lower().split()
        target = _RELATIVE.sub(lambda path: path[0].replace("\\", "/"), attributes.get("href", ""), count=1)
        if tag == "base":
            base = base or normal(target, url) or ""
        elif tag == "meta":
            content = attributes.get("content", "")
            if attributes.get("name", "").lower() in ("robots", agent):
                robots |= set(re.split(r"[\s,]+", content.lower()))
            refresh = (
                _REFRESH.match(content) if attributes.get("http-equiv", "").lower() == "refresh" else None
            )
            target = refresh[1] if refresh else ""
        elif tag == "link" and "canonical" in words:
            canonical = canonical or normal(target, base or url)
        elif tag == "frame":
            target = attributes.get("src", "")
        counts = (
            tag in ("a", "area", "frame", "meta") and "nofollow" not in words and len(links) < _MOST_LINKS
        )
        if counts and target and (link := normal(target, base or url)):
            links[link] = None
    return PageLinks(tuple(links), canonical, frozenset(robots))


def _text(data: bytes, content_type: str | None) -> str:
    """Decode a page. If it declares no encoding, decode UTF-8, because addresses are nearly always ASCII."""
    sent = _DECLARED.search(content_type or "")
    named = _CHARSET.search(data, 0, _HEAD)
    charset = sent[1] if sent else named[1].decode("ascii") if named else "utf-8"
    try:
        return data.decode(charset, "replace")
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")


def _tags(text: str) -> Iterator[tuple[str, Attributes]]:
    """Yield the names and attributes of the start tags that ``links_of`` needs."""
    at = 0
    while tag_match := _TAG.search(text, at):
        if tag_match[1]:
            at = text.find("-->", tag_match.end())
        else:
            tag = tag_match[2].lower()
            attributes, at = _attributes(text, tag_match.end())
            yield tag, attributes
            if tag in _UNREAD:
                end = re.compile(f"</{tag}", re.IGNORECASE).search(text, at)
                at = end.end() if end else -1
        if at < 0:
            return


def _attributes(text: str, at: int) -> tuple[Attributes, int]:
    """Parse the attributes of a tag, from offset ``at`` on. Return them, and the offset of the tag's end.

    If an attribute is repeated, its first value counts.
    """
    attributes: Attributes = {}
    while (at := _skip_blanks(text, at)) < len(text) and text[at] != ">":
        match = _ATTRIBUTE.match(text, at)
        if match:
            value = match[2] or match[3] or match[4] or ""
            attributes.setdefault(match[1].lower(), unescape(value))
        at = match.end() if match else at + 1
    return attributes, at


def _skip_blanks(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at
