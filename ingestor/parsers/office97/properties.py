"""Title, author and dates that an OLE file says of itself. [MS-OLEPS]

olefile reads all properties, and a damaged count of them can keep it busy for hours.
"""

import struct
from collections.abc import Iterator
from datetime import datetime, timedelta

from ingestor.parsers.shared.decode import code_page

_SECTION = 44  # where the header says at which byte the properties begin
_MOST = 100  # properties
_CODEPAGE, _CREATED, _SAVED = 1, 12, 13
_TEXTS = {2: "title", 4: "author"}
_NARROW, _WIDE = 30, 31  # types of texts
_FIRST_YEAR = 1981


def about(stream: bytes) -> dict[str, str]:
    """Return ``title``, ``author``, ``created`` and ``modified``, as far as SummaryInformation has them."""
    try:
        places = dict(_places(stream))
        return dict(_read_texts(stream, places))
    except struct.error:
        return {}


def _places(stream: bytes) -> Iterator[tuple[int, int]]:
    """Yield each property's number, and where its type and value begin."""
    (section,) = struct.unpack_from("<I", stream, _SECTION)
    (count,) = struct.unpack_from("<I", stream, section + 4)
    for at in range(min(count, _MOST)):
        number, offset = struct.unpack_from("<II", stream, section + 8 + 8 * at)
        yield number, section + offset


def _read_texts(stream: bytes, places: dict[int, int]) -> Iterator[tuple[str, str]]:
    codepage = struct.unpack_from("<H", stream, places[_CODEPAGE] + 4)[0] if _CODEPAGE in places else 1252
    for number, name in _TEXTS.items():
        if number in places:
            yield name, _text(stream, places[number], code_page(codepage))
    for number, name in ((_CREATED, "created"), (_SAVED, "modified")):
        if number in places and (moment := _time(stream, places[number])):
            yield name, moment


def _text(stream: bytes, at: int, encoding: str) -> str:
    kind, size = struct.unpack_from("<II", stream, at)
    if kind not in (_NARROW, _WIDE):
        return ""
    length = size if kind == _NARROW else 2 * size
    text = stream[at + 8 : at + 8 + length].decode(encoding if kind == _NARROW else "utf-16-le", "replace")
    return " ".join(text.replace("\0", " ").split())


def _time(stream: bytes, at: int) -> str:
    """Read a time, stored in units of 100 ns since 1601."""
    (ticks,) = struct.unpack_from("<Q", stream, at + 4)
    try:
        time = datetime(1601, 1, 1) + timedelta(microseconds=ticks // 10)
    except OverflowError:
        return ""
    return time.isoformat() if time.year >= _FIRST_YEAR else ""
