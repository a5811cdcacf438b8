"""Files of Office before 2007 and of Outlook (.doc, .xls, .ppt, .msg), distinguished by their streams."""

import struct
from collections.abc import Callable
from datetime import datetime
from io import BytesIO
from typing import TYPE_CHECKING, Any

from ingestor.model import Blob, Document
from ingestor.parsers.office.tree import read_tree
from ingestor.parsers.office97 import doc, msg, xls
from ingestor.parsers.shared.compose import Composer
from ingestor.parsers.shared.decode import code_page
from ingestor.parsers.shared.plugin import parser_plugin
from ingestor.ports import BadDocument

if TYPE_CHECKING:
    from olefile import OleFileIO

_MS = "application/vnd.ms-"
_CODE_PAGE, _EDITING = 1, 10  # numbers of properties of a document
_ABOUT = {2: "title", 4: "author", 12: "created", 13: "modified"}
_FIRST_YEAR = 1981
_TOKENS = (
    b"\x5f\xc0\x91\xe3",
    b"\xdf\xc4\xd1\xf3",
)  # of presentations since 1997; the second is of encrypted ones


def _read_slides(file: "OleFileIO", data: bytes, composer: Composer) -> dict[str, Any]:
    """Read a presentation. The library does not say where slides begin, so they are no pages."""
    user = file.openstream("Current User").read() if file.exists("Current User") else b""
    if user[12:16] not in _TOKENS:
        raise BadDocument("is damaged, or a presentation from before 1997: save it as .pptx")
    read = read_tree(data, "ppt").composer
    composer.include(read.text, read.blocks)
    return {"title": composer.title}


_KINDS: tuple[tuple[str, str, Callable[[Any, bytes, Composer], dict[str, Any]]], ...] = (
    ("__properties_version1.0", f"{_MS}outlook", msg.read),
    ("WordDocument", "application/msword", doc.read),
    ("PowerPoint Document", f"{_MS}powerpoint", _read_slides),
    ("Workbook", f"{_MS}excel", xls.read),
    ("Book", f"{_MS}excel", xls.read),
)
# What the readers raise for bytes that contradict themselves.
_DAMAGE = (
    *(OSError, ValueError, LookupError, EOFError, AttributeError, TypeError, ArithmeticError, AssertionError),
    struct.error,
)


def parse(blob: Blob) -> Document:
    """Parse a document.

    Raises BadDocument if it is damaged or encrypted, or holds nothing that is read.
    """
    try:
        return _document(blob.data)
    except _DAMAGE as error:
        reason = str(error) or type(error).__name__
        raise BadDocument(f"is damaged or cut off ({reason}); save it again, or exclude it") from error


def _document(data: bytes) -> Document:
    from olefile import OleFileIO

    composer = Composer()
    with OleFileIO(BytesIO(data)) as file:
        for name, content_type, read in _KINDS:
            if file.exists(name):
                facts = read(file, data, composer)
                if read is not msg.read:
                    about = _about(file)
                    facts["title"] = about.pop("title", "") or facts.get("title")
                    facts["extra"] = about
                return composer.document(content_type, **facts)
    raise BadDocument("holds no document of Word, Excel, PowerPoint or Outlook; convert it, or exclude it")


def _about(file: "OleFileIO") -> dict[str, str]:
    """Return title, author and dates; none if that part is missing or damaged."""
    try:
        properties = file.getproperties("\x05SummaryInformation", convert_time=True, no_conversion=[_EDITING])
    except OSError:
        return {}
    page = properties.get(_CODE_PAGE)
    encoding = code_page(page & 0xFFFF if isinstance(page, int) else 1252)
    about = dict[str, str]()
    for number, name in _ABOUT.items():
        value = properties.get(number)
        if isinstance(value, bytes):
            value = value.decode(encoding, "replace")
        if isinstance(value, str):
            about[name] = " ".join(value.replace("\0", " ").split())
        elif isinstance(value, datetime) and value.year >= _FIRST_YEAR:
            about[name] = value.isoformat()
    return about


PLUGIN = parser_plugin("office97", 5, parse)
