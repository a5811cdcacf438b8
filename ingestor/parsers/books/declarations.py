"""XML without its document type: books in XML declare entities, and none is ever loaded or nested. Pure.

An entity that the file itself declares as plain words stands for these words, one of HTML's for its
character; any other stays as it is written. Entities add no more than the file's own size.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from html.entities import name2codepoint

_BEFORE = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?>(?:<\?.*?\?>|<!--.*?-->)\s*)*+(?=<!DOCTYPE\b)", re.DOTALL)
_TO_SUBSET = re.compile(rb"<!DOCTYPE(?:[^\"'\[\]<>]|\"[^\"]*\"|'[^']*')*([\[>])")
_DECLARED = re.compile(
    rb"<!--.*?-->|<\?.*?\?>|%[^\s;%]+;|\s+"
    rb"|<!ENTITY\s+(?P<name>[^\s%\"']+)\s+(?P<value>\"[^\"]*\"|'[^']*')\s*>"
    rb"|<![A-Z](?:[^\"'<>]|\"[^\"]*\"|'[^']*')*>",
    re.DOTALL,
)
_SUBSET_END = re.compile(rb"\]\s*>")
_PLAIN = re.compile(rb"(?:[^&%<]|&#\w{1,8};){0,200}")
_REFERENCE = re.compile(
    rb"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)|&([A-Za-z_:][\w.:-]*);", re.DOTALL
)
_PLAIN_REFERENCE = re.compile(rb"&([A-Za-z_:][\w.:-]*);")  # where nothing else may hold one
_OWN = {b"amp", b"lt", b"gt", b"quot", b"apos"}  # XML's: the parser reads them


def without_declarations(data: bytes) -> bytes:
    """The same elements and words; as it was where its document type is malformed, or UTF-16."""
    declared = dict[bytes, bytes]()
    if before := _BEFORE.match(data):
        head, end = before.end(), _subset(data, before.end(), declared)
        if end is None:
            return data
        data = data[:head] + data[end:]
    return b"".join(_resolved(data, declared))


def _subset(data: bytes, at: int, declared: dict[bytes, bytes]) -> int | None:
    """Where the document type that begins there ends; its entities are added to ``declared``."""
    begun = _TO_SUBSET.match(data, at)
    if begun is None or begun[1] == b">":
        return begun and begun.end()
    at = begun.end()
    while found := _DECLARED.match(data, at):
        value = (found["value"] or b"")[1:-1]
        if found["name"] and _PLAIN.fullmatch(value):
            declared.setdefault(found["name"], value)  # the first counts, as XML has it
        at = found.end()
    end = _SUBSET_END.match(data, at)
    return end and end.end()


def _resolved(data: bytes, declared: Mapping[bytes, bytes]) -> Iterator[bytes]:
    begun, room = 0, len(data)
    plain = b"<!" not in data and data.find(b"<?", 1) < 0
    for found in (_PLAIN_REFERENCE if plain else _REFERENCE).finditer(data):
        name = found[1]
        if name is None or name in _OWN:
            continue
        said = declared.get(name)
        if said is None or len(said) > room:
            said = _character(name)
        else:
            room -= len(said)
        start, end = found.span()
        yield data[begun:start]
        yield said
        begun = end
    yield data[begun:]


@lru_cache(1000)
def _character(name: bytes) -> bytes:
    """Of an entity of HTML, else the entity as it is written."""
    code = name2codepoint.get(name.decode("ascii", "replace"))
    return f"&#{code};".encode() if code else b"&amp;" + name + b";"
