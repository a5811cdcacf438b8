"""Reads entries of feeds: RSS and Atom by feedparser, JSON Feed by the rules of jsonfeed.org.

A broken feed is read as far as possible. The parser gets bytes in memory, never an address, which feedparser
would open. Scripts and the like are removed from the entries.
"""

import calendar
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b
from html import escape, unescape
from io import BytesIO
from typing import Any
from xml.sax import SAXException

from ingestor.connectors.http.url import normal
from ingestor.connectors.shared.typed import posix, text

_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_MOMENTS = ("updated_parsed", "published_parsed")


class NoFeed(Exception):
    """Error: the bytes are not a feed, or a truncated feed. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """An entry of a feed. ``html``: the text that the feed has of it.

    ``key``: the id of the entry, which several entries may share; if it has none, its link or title. A digest
    of the whole entry is added if it has neither, or if other entries have the same link or title.
    """

    key: str
    link: str | None
    title: str
    html: str
    author: str | None
    changed: float | None  # POSIX seconds

    @property
    def version(self) -> str:
        facts = repr((self.key, self.link, self.title, self.html, self.author, self.changed))
        return blake2b(facts.encode("utf-8", "replace"), digest_size=16).hexdigest()

    def page(self) -> bytes:
        """Return the entry as an HTML page with title, author and text."""
        title, author = escape(self.title), escape(self.author or "")
        about = f'<meta name="author" content="{author}">' if author else ""
        head = f'<head><meta charset="utf-8"><title>{title}</title>{about}</head>'
        body = f"<body><article><h1>{title}</h1>\n{self.html}\n</article></body>"
        return f"<!doctype html><html>{head}{body}</html>".encode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class ParsedFeed:
    """Entries of a feed. ``whole``: whether the feed could be read to its end."""

    entries: tuple[FeedEntry, ...]
    whole: bool = True


def entries(data: bytes, content_type: str | None, url: str) -> ParsedFeed:
    """Parse a feed. Return its entries in their order; exact repetitions of an entry are left out.

    ``url``: address of the feed. Raises NoFeed.
    """
    is_json = data.lstrip(b"\xef\xbb\xbf\r\n\t ").startswith(b"{")
    listed, whole = (_of_json(data, url), True) if is_json else _of_xml(data, content_type, url)
    names = Counter(entry.link or entry.title for entry in listed if not entry.key)
    named = (replace(entry, key=entry.key or _name(entry, names)) for entry in listed)
    return ParsedFeed(tuple(dict.fromkeys(named)), whole)


@dataclass(frozen=True, slots=True)
class KnownEntry:
    """An entry that an earlier scan stored. ``version``: version of the entry at that time."""

    key: str
    link: str | None
    version: str | None


def number_keys(
    listed: Sequence[FeedEntry], stored: Sequence[KnownEntry], version: Callable[[FeedEntry], str]
) -> dict[str, FeedEntry]:
    """Give each entry a unique key. Entries that share an id get the keys ``id``, ``id#2`` and so on.

    ``listed``: entries of the feed. ``stored``: entries of earlier scans. ``version``: returns the version of
    an entry.

    An entry keeps the key of the stored entry with the same version. Otherwise it keeps the key of the stored
    entry with the same link, if no other entry has that link. So keys do not change when entries are added or
    removed before it. An id that no two entries ever shared is the key itself.
    """
    counts = Counter(entry.key for entry in listed)
    ids = {one.key: base for one in stored if (base := _id_of_numbered(one.key, counts))}
    shared = {*ids.values(), *(key for key, count in counts.items() if count > 1)}
    chosen = {position: entry.key for position, entry in enumerate(listed) if entry.key not in shared}
    links = Counter((entry.key, entry.link) for entry in listed)
    used = set(chosen.values())
    for by_link in (False, True):
        by_fact: dict[tuple[str, str], list[str]] = {}
        for one in reversed(stored):
            if (fact := one.link if by_link else one.version) and one.key not in used:
                by_fact.setdefault((ids.get(one.key, one.key), fact), []).append(one.key)
        for position, entry in enumerate(listed):
            fact = entry.link if by_link else version(entry)
            if position in chosen or (by_link and links[entry.key, entry.link] > 1):
                continue
            if fact and (keys := by_fact.get((entry.key, fact))) and not (by_link and len(keys) > 1):
                used.add(key := keys.pop())
                chosen[position] = key
    used |= {one.key for one in stored}
    last: Counter[str] = Counter()
    for position, entry in enumerate(listed):
        if position not in chosen:
            key = entry.key
            while key in used or (key != entry.key and key in counts):
                last[entry.key] += 1
                key = f"{entry.key}#{last[entry.key] + 1}"
            used.add(key)
            chosen[position] = key
    return {chosen[position]: entry for position, entry in enumerate(listed)}


def _id_of_numbered(key: str, ids: Collection[str]) -> str | None:
    """Return the id in a numbered key such as ``id#2``; None if the key is not numbered.

    ``ids``: ids of the feed's entries. An id that looks like a numbered key is not one.
    """
    base, _, number = key.rpartition("#")
    return base if number.isdecimal() and base in ids and key not in ids else None


def _name(entry: FeedEntry, names: Counter[str]) -> str:
    """Return a unique key for an entry that has no id. ``names``: how often each link or title occurs."""
    name = entry.link or entry.title
    return name if name and names[name] == 1 else f"{name}#{replace(entry, changed=None).version}"


def _of_xml(data: bytes, content_type: str | None, url: str) -> tuple[list[FeedEntry], bool]:
    import feedparser  # loaded with the first feed, not with the program

    headers = {"content-location": url, "content-type": content_type or "application/xml"}
    parsed = feedparser.parse(BytesIO(data), response_headers=headers)
    if not parsed.get("version") and not parsed.entries:
        raise NoFeed(
            f"neither RSS nor Atom nor JSON Feed ({parsed.get('bozo_exception') or 'no root of theirs'})"
        )
    if parsed.bozo and not parsed.entries:
        raise NoFeed(f"a feed that can't be read: {parsed.bozo_exception}")
    whole = not isinstance(parsed.get("bozo_exception"), SAXException)
    return [entry for each in parsed.entries if (entry := _xml_entry(each, url))], whole


def _xml_entry(fields: dict[str, Any], url: str) -> FeedEntry | None:
    contents = [(c.get("value") or "", c.get("type")) for c in fields.get("content") or ()]
    summary = (fields.get("summary") or "", (fields.get("summary_detail") or {}).get("type"))
    text, kind = max(contents, key=lambda content: len(content[0]), default=summary)
    moment = next(filter(None, (dict.get(fields, name) for name in _MOMENTS)), None)  # its own get() warns
    changed = _in_utc(moment) if moment else None
    link = normal(fields.get("link") or "", url) if fields.get("link") else None
    html = _paragraphs(text) if kind == "text/plain" else text
    title = fields.get("title") or ""
    if (fields.get("title_detail") or {}).get("type") in ("text/html", "application/xhtml+xml"):
        title = " ".join(unescape(_TAG.sub("", title)).split())
    return _entry(fields.get("id"), link, title, html, fields.get("author"), changed)


def _of_json(data: bytes, url: str) -> list[FeedEntry]:
    try:
        feed = json.loads(data)
        items = feed["items"]
        return [entry for item in items if isinstance(item, dict) and (entry := _json_entry(item, feed, url))]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NoFeed(f"no JSON Feed: {type(error).__name__}: {error}") from error


def _json_entry(item: Mapping[str, Any], feed: Mapping[str, Any], url: str) -> FeedEntry | None:
    named = [*(item.get("authors") or ()), item.get("author") or {}, *(feed.get("authors") or ())]
    author = next((a["name"] for a in named if isinstance(a, dict) and a.get("name")), None)
    link = normal(str(item["url"]), url) if item.get("url") else None
    html = item.get("content_html") or _paragraphs(str(item.get("content_text") or item.get("summary") or ""))
    changed = _seconds(item.get("date_modified") or item.get("date_published"))
    return _entry(item.get("id"), link, item.get("title"), str(html), author, changed)


def _entry(
    key: object, link: str | None, title: object, html: str, author: object, changed: float | None
) -> FeedEntry | None:
    """Build an entry from its fields; return None if all of them are empty.

    ``key``: id of the entry, if any.
    """
    entry = FeedEntry(_text(key), link, _text(title), _text(html), _text(author) or None, changed)
    return entry if entry.key or link or entry.title or entry.html else None


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{escape(part)}</p>\n" for part in text.split("\n\n") if part.strip())


def _in_utc(moment: tuple[int, ...]) -> float | None:
    """Convert a time in UTC to POSIX seconds; return None if it is invalid, such as 0000-00-00."""
    try:
        return float(calendar.timegm(moment))
    except ValueError:
        return None


def _seconds(moment: object) -> float | None:
    """Parse a time in ISO 8601, and return POSIX seconds; None for other text.

    The default time zone is UTC.
    """
    try:
        return posix(datetime.fromisoformat(str(moment))) if moment else None
    except (ValueError, OverflowError):
        return None


def _text(value: object) -> str:
    """Convert a value to text without lone surrogates; None becomes ""."""
    return "" if value is None else text(str(value).strip())
