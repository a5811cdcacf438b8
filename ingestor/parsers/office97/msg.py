"""Messages of Outlook (.msg): people, subject and body as the blocks of a mail, and the attached files.

Each property of a message is a stream, named by the property's number and type [MS-OXMSG]. A body in RTF may
be compressed [MS-OXRTFCP].
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ingestor.model import Document
from ingestor.parsers.mail.bodies import MailBody, add_letter, best, format_address, html_body
from ingestor.parsers.rtf import read_rtf
from ingestor.parsers.shared.compose import Composer
from ingestor.parsers.shared.decode import code_page, decode

_SUBJECT, _BODY, _HTML, _RTF = "0037", "1000", "1013", "1009"
_SENDER, _ADDRESS, _SMTP, _TO, _CC = "0C1A", "0C1F", "5D01", "0E04", "0E03"
_DATES = (0x00390040, 0x0E060040)  # sent, delivered
_DATA, _LONG_NAME, _NAME, _SHOWN, _MIME = "3701", "3707", "3704", "3001", "370E"
_EPOCH = 11_644_473_600  # seconds from 1601 to 1970
_LARGEST = 50_000_000  # bytes, unpacked
_START = (
    b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript "
    b"\\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par "
    b"\\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx"
)


@dataclass(frozen=True, slots=True)
class Attached:
    name: str
    data: bytes


def read(file: Any, data: bytes) -> tuple[Composer, dict[str, Any]]:
    """Return the blocks of a message, and the further fields of its document by name."""
    composer = Composer()
    subject = " ".join(_text(file, _SUBJECT).split())
    name, address = _text(file, _SENDER), _text(file, _SMTP) or _text(file, _ADDRESS)
    address = address if "@" in address else ""
    people = {"From": format_address(name, address), "To": _text(file, _TO), "Cc": _text(file, _CC)}
    raw_words = add_letter(composer, subject, people, _body(file))
    facts = {
        "raw_words": raw_words,
        "title": subject,
        "extra": {
            "author": name or address,
            **{role.lower(): names for role, names in people.items()},
            "date": _date(file),
        },
    }
    return composer, facts


def attachments(file: Any) -> Iterator[Attached]:
    """Yield the files attached to a message. Attached Outlook messages are left out."""
    folders = sorted(
        {entry[0] for entry in file.listdir() if entry[0].lower().startswith("__attach_version1.0_")}
    )
    for number, folder in enumerate(folders, 1):
        path = f"{folder}/__substg1.0_{_DATA}0102"
        if file.exists(path):
            names = (_text(file, kind, f"{folder}/") for kind in (_LONG_NAME, _NAME, _SHOWN))
            name = next((name for name in names if name.strip()), f"attachment-{number}")
            yield Attached(" ".join(name.split()), file.openstream(path).read())


def _body(file: Any) -> Sequence[MailBody]:
    """Return the best body: plain text, unless the HTML has many more words; RTF if both are missing."""
    markup = _bytes(file, f"__substg1.0_{_HTML}0102")
    html = decode(markup) if markup else _text(file, _HTML)
    plain = _text(file, _BODY)
    chosen = best([[MailBody(plain)] if plain.strip() else [], [html_body(html)] if html.strip() else []])
    packed = b"" if chosen else _bytes(file, f"__substg1.0_{_RTF}0102")
    if not packed:
        return chosen
    flow, raw_words = read_rtf(unpack_rtf(packed).decode("latin-1"))
    rich = flow.composer
    return [MailBody(rich.text, Document(rich.text, tuple(rich.blocks), raw_words=raw_words))]


def unpack_rtf(packed: bytes) -> bytes:
    """Decompress RTF. Each bit of a flag byte states whether a literal or a reference follows.

    References point into the last 4,096 bytes of output.
    """
    if len(packed) < 16:
        return b""
    (size,) = struct.unpack_from("<I", packed, 4)
    if packed[8:12] != b"LZFu":
        return packed[16 : 16 + size]
    size = min(size, _LARGEST)
    out = bytearray(_START)
    at = 16
    while at < len(packed) and len(out) - len(_START) < size:
        flags, at = packed[at], at + 1
        for bit in range(8):
            if flags & 1 << bit:
                if at + 2 > len(packed):
                    return bytes(out[len(_START) :])
                token = int.from_bytes(packed[at : at + 2], "big")
                at += 2
                offset, length = token >> 4, (token & 15) + 2
                place = offset + (len(out) & ~4095)
                place -= 4096 if place >= len(out) else 0
                if offset == len(out) % 4096 or place < 0:
                    return bytes(out[len(_START) :])
                for step in range(length):
                    out.append(out[place + step])
            elif at < len(packed):
                out.append(packed[at])
                at += 1
    return bytes(out[len(_START) : len(_START) + size])


def _text(file: Any, number: str, folder: str = "") -> str:
    """Return the text of the property ``number``, decoded from UTF-16, or from the message's code page.

    ``folder``: path of the attachment that has the property; "" for the message.
    """
    wide = _bytes(file, f"{folder}__substg1.0_{number}001F")
    if wide:
        return wide.decode("utf-16-le", "replace").replace("\0", "")
    narrow = _bytes(file, f"{folder}__substg1.0_{number}001E")
    page = _property(file, 0x3FFD0003) or _property(file, 0x3FDE0003) or 1252
    return narrow.decode(code_page(page & 0xFFFF), "replace").replace("\0", "")


def _bytes(file: Any, path: str) -> bytes:
    data: bytes = file.openstream(path).read() if file.exists(path) else b""
    return data


def _property(file: Any, tag: int) -> int:
    """Return the numeric property ``tag`` of a message; 0 if it is missing.

    The stream has a header of 32 bytes. Then each property has 8 bytes for tag and flags, and 8 for the
    value.
    """
    properties = _bytes(file, "__properties_version1.0")
    for at in range(32, len(properties) - 15, 16):
        if struct.unpack_from("<I", properties, at)[0] == tag:
            (value,) = struct.unpack_from("<Q", properties, at + 8)
            return int(value)
    return 0


def _date(file: Any) -> str | None:
    """Return the time of sending, else of delivery, in ISO 8601; None if the message states neither.

    Outlook counts tenths of microseconds since 1601.
    """
    moment = next((value for tag in _DATES if (value := _property(file, tag))), 0)
    try:
        return datetime.fromtimestamp(moment // 10**7 - _EPOCH, UTC).isoformat() if moment else None
    except (ValueError, OverflowError, OSError):
        return None
