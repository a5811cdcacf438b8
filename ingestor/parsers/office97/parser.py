"""Files of Office before 2007 and of Outlook (.doc, .xls, .ppt, .msg), told apart by the streams in them."""

import struct
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Any

from ingestor.model import Blob, Document, Scalar
from ingestor.parsers.office97 import doc, msg, ppt, xls
from ingestor.parsers.office97.properties import about
from ingestor.parsers.office97.streams import stream
from ingestor.parsers.shared.compose import Composer
from ingestor.ports import BadDocument
from ingestor.registry import Options, Plugin

if TYPE_CHECKING:
    from olefile import OleFileIO

_MS = "application/vnd.ms-"
_KINDS: tuple[tuple[str, str, Callable[[Any, bytes, Composer], dict[str, Any]]], ...] = (
    ("__properties_version1.0", f"{_MS}outlook", msg.read),
    ("WordDocument", "application/msword", doc.read),
    ("PowerPoint Document", f"{_MS}powerpoint", ppt.read),
    ("Workbook", f"{_MS}excel", xls.read),
    ("Book", f"{_MS}excel", xls.read),
)
# What the readers raise for bytes that contradict themselves.
_DAMAGE = (
    *(OSError, ValueError, LookupError, EOFError, AttributeError, TypeError, ArithmeticError, AssertionError),
    struct.error,
)


class Office97Parser:
    isolated = True

    def __init__(self, options: Options) -> None:
        del options  # there are none

    def parse(self, blob: Blob) -> Document:
        """Raises BadDocument when it is damaged or encrypted, or holds nothing that is read."""
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
                parsed = read(file, data, composer)
                about = {} if read is msg.read else _about(file, data)
                title = parsed.pop("title", None)
                extra = parsed.pop("extra", ()) or _extra(about)
                return Document(
                    text=composer.text,
                    blocks=tuple(composer.blocks),
                    content_type=content_type,
                    title=about.get("title") or title,
                    extra=extra,
                    left_out=composer.left_out,
                    **parsed,
                )
    raise BadDocument("holds no document of Word, Excel, PowerPoint or Outlook; convert it, or exclude it")


def _about(file: "OleFileIO", data: bytes) -> dict[str, str]:
    """The document's properties; none if that part is missing or damaged."""
    try:
        return about(stream(file, data, "\x05SummaryInformation"))
    except OSError:
        return {}


def _extra(about: dict[str, str]) -> tuple[tuple[str, Scalar], ...]:
    return tuple((name, about[name]) for name in ("author", "created", "modified") if about.get(name))


PLUGIN = Plugin(kind="office97", version=4, options=Options, build=Office97Parser)
