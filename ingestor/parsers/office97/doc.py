"""Documents of Word 97 to 2003 (.doc), read by anydoc: headings, lists, tables, links, notes.

[MS-DOC] The library leaves text boxes out. They are read here, and words are counted to see what is missing:
the text is in pieces, each in UTF-16 or Windows-1252.
"""

import re
import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from ingestor.core.completeness import words
from ingestor.parsers.office.tree import read_tree
from ingestor.parsers.shared.compose import Composer
from ingestor.ports import BadDocument

_WORD97 = 0xC0  # version of the format from which on it is this one
_ENCRYPTED, _SECOND_TABLE = 0x0100, 0x0200  # flags
_LENGTHS, _PIECES = 0x4C, 0x01A2  # places in the header
_FIELD = re.compile("\x13[^\x13\x14\x15]*+\x14?([^\x13\x14\x15]*+)\x15")
_ENDS = re.compile("[\r\x07\x0c]")
_SIGNS = {0x0B: "\n", 0x1E: "-", 0xA0: " ", **dict.fromkeys((*range(1, 9), 0x13, 0x14, 0x15, 0x1F), "")}


def read(file: Any, data: bytes, composer: Composer) -> dict[str, Any]:
    """Read a document. Raises BadDocument."""
    main = file.openstream("WordDocument").read()
    ident, version = struct.unpack_from("<HH", main, 0)
    (flags,) = struct.unpack_from("<H", main, 0x0A)
    if flags & _ENCRYPTED:
        raise BadDocument("is encrypted; save it without a password, or exclude it")
    if ident != 0xA5EC or version < _WORD97:
        raise BadDocument("is a Word document from before 1997: save it as .docx")
    flow = read_tree(data, "doc")
    table = file.openstream("1Table" if flags & _SECOND_TABLE else "0Table").read()
    start, size = struct.unpack_from("<II", main, _PIECES)
    text = "".join(_pieces(table[start : start + size], main))
    body, notes, headers, macros, comments, endnotes, boxes = struct.unpack_from("<7i", main, _LENGTHS)
    at = body + notes + headers + macros + comments + endnotes
    boxed = _without_fields(text[at : at + boxes])
    for paragraph in _ENDS.split(boxed):
        flow.add("paragraph", paragraph.translate(_SIGNS))
    flow.flush()
    composer.include(flow.composer.text, flow.composer.blocks)
    raw_words = words(_ENDS.sub(" ", _without_fields(text[:body])).translate(_SIGNS)) + words(boxed)
    return {"raw_words": raw_words, "title": flow.title or flow.composer.title}


def _pieces(clx: bytes, main: bytes) -> Iterator[str]:
    at = 0
    while at + 3 <= len(clx) and clx[at] == 1:
        at += 3 + struct.unpack_from("<H", clx, at + 1)[0]
    if at + 5 > len(clx) or clx[at] != 2:
        raise ValueError("the text can't be located")
    (size,) = struct.unpack_from("<I", clx, at + 1)
    table = clx[at + 5 : at + 5 + size]
    count = max(0, (len(table) - 4) // 12)
    bounds = struct.unpack_from(f"<{count + 1}I", table)
    for number, (begin, end) in enumerate(pairwise(bounds)):
        if not begin <= end <= len(main):
            raise ValueError("text pieces overlap, or are longer than the file")
        (place,) = struct.unpack_from("<I", table, 4 * (count + 1) + 8 * number + 2)
        narrow, place = bool(place & 0x40000000), place & 0x3FFFFFFF
        if narrow:
            piece = main[place // 2 : place // 2 + end - begin].decode("cp1252", "replace")
        else:
            piece = main[place : place + 2 * (end - begin)].decode("utf-16-le", "replace")
        yield piece.ljust(end - begin, "\0")[: end - begin]


def _without_fields(text: str) -> str:
    """Return the visible text of fields, including nested ones, without their instructions."""
    for _ in range(5):
        text, count = _FIELD.subn(r"\1", text)
        if not count:
            break
    return text
