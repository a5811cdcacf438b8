"""An HTML page's links, canonical address and rules for robots. Pure.

Untrusted pages are read in the daemon's process, so tags are read in linear time, and by Python alone.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape

from ingestor.connectors.http.url import normal

_TAG = re.compile(r"<(?:(!--)|(a|area|link|meta|base|script|style|textarea)(?=[\s/>]))", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"([^\s/>=]++)(?:\s*+=\s*+(?:\"([^\"]*)\"|'([^']*)'|([^\s>\"'][^\s>]*)))?", re.ASCII)
_BLANK = re.compile(r"[\s/]*+", re.ASCII)
_UNREAD = {"script", "style", "textarea"}  # their content is not markup
_CHARSET = re.compile(rb"charset\s*=\s*+[\"']?\s*+([\w.:-]+)", re.IGNORECASE)
_DECLARED = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_REFRESH = re.compile(r"\s*+\d*+[\s;,]*+url\s*+=\s*+[\"']?([^\"']*)", re.IGNORECASE)
_HEAD = 4096  # bytes in which a page may name its encoding
_MOST_LINKS = 10_000  # of one page

Attributes = dict[str, str]


@dataclass(frozen=True, slots=True)
class PageLinks:
    """Links of a page. ``links``: normal URLs, each once, in the page's order.

    ``robots``: noindex, nofollow, ...
    """

    links: tuple[str, ...] = ()
    canonical: str | None = None
    robots: frozenset[str] = frozenset()


def links_of(data: bytes, content_type: str | None, url: str, agent: str) -> PageLinks:
    """Read the links of a page, and its rules for robots.

    ``url``: address of the page; ``agent``: our name, which a meta element may use.
    """
    links: dict[str, None] = {}
    canonical, robots, base = None, set[str](), url
    for tag, attributes in _tags(_text(data, content_type)):
        words = attributes.get("rel", "").lower().split()
        target = attributes.get("href", "")
        if tag == "base":
            base = normal(target, url) or base
        elif tag == "meta":
            robots |= _robots(attributes, agent)
            target = _refresh_target(attributes)
        elif tag == "link" and "canonical" in words:
            canonical = canonical or normal(target, base)
        counts = tag in ("a", "area", "meta") and "nofollow" not in words and len(links) < _MOST_LINKS
        if counts and target and (link := normal(target, base)):
            links[link] = None
    return PageLinks(tuple(links), canonical, frozenset(robots))


def _robots(attributes: Attributes, agent: str) -> set[str]:
    if attributes.get("name", "").lower() not in ("robots", agent):
        return set()
    return set(re.split(r"[\s,]+", attributes.get("content", "").lower()))


def _refresh_target(attributes: Attributes) -> str:
    """Return the target of a meta refresh."""
    if attributes.get("http-equiv", "").lower() != "refresh":
        return ""
    refresh = _REFRESH.match(attributes.get("content", ""))
    return refresh[1] if refresh else ""


def _text(data: bytes, content_type: str | None) -> str:
    """Return the decoded page; good enough for addresses and names, which are nearly always ASCII."""
    sent = _DECLARED.search(content_type or "")
    named = _CHARSET.search(data, 0, _HEAD)
    charset = sent[1] if sent else named[1].decode("ascii") if named else "utf-8"
    try:
        return data.decode(charset, "replace")
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")


def _tags(text: str) -> Iterator[tuple[str, Attributes]]:
    """Yield the relevant start tags with their attributes; of two attributes with one name the first."""
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
    """Return the attributes, and the end of the tag."""
    attributes: Attributes = {}
    while (at := _blank_end(text, at)) < len(text) and text[at] != ">":
        match = _ATTRIBUTE.match(text, at)
        if match:
            value = match[2] or match[3] or match[4] or ""
            attributes.setdefault(match[1].lower(), unescape(value))
        at = match.end() if match else at + 1
    return attributes, at


def _blank_end(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at
