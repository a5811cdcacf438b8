"""E-mail messages as the standard library reads them: decoded headers, body and attachments.

Nothing here raises for what people send; only a message that is nested beyond all reason is refused.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime
from itertools import chain
from mimetypes import guess_extension

from ingestor.parsers.mail.bodies import MailBody, best, html_body
from ingestor.parsers.shared.decode import codec, decode
from ingestor.ports import BadDocument

_BOUNDARIES = 1000  # parts with parts; each makes reading all that follows slower
_DEEPEST = 100  # parts in each other whose texts are read
_LONGEST = 10_000  # characters of a header that are read
_SIGNATURES = ("application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature")
_MEDIA = ("image", "audio", "video")
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Attachment:
    name: str
    data: bytes
    content_type: str


def read(data: bytes) -> "Message[str, str]":
    """Read a document. Raises BadDocument."""
    if data.lower().count(b"boundary=") > _BOUNDARIES:
        raise BadDocument(f"a mail of more than {_BOUNDARIES:,} nested parts; exclude it")
    try:
        return message_from_bytes(data)
    except RecursionError as error:
        raise BadDocument("a mail whose parts are nested too deep; exclude it") from error


def header(message: "Message[str, str]", name: str) -> str:
    """Return a header in one line of readable text; "" if it is missing."""
    values = (str(value) for key, value in message.raw_items() if key.lower() == name.lower())
    return " ".join(_decode(next(values, "")[:_LONGEST]).split())


def _decode(value: str) -> str:
    """Return encoded words as text, and bare bytes as UTF-8; invalid bytes become U+FFFD."""
    value = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    try:
        words = [(_word(word, name), "utf-8" if name else None) for word, name in decode_header(value)]
        return _SURROGATES.sub("\ufffd", str(make_header(words)))
    except (MessageError, LookupError, ValueError):
        return _SURROGATES.sub("\ufffd", value)


def _word(word: str | bytes, name: str | None) -> str:
    return word if isinstance(word, str) else word.decode(codec(name) or "utf-8", "replace")


def addresses(message: "Message[str, str]", name: str) -> list[tuple[str, str]]:
    """Return (name, address) of each person in a header."""
    try:
        return [pair for pair in getaddresses([header(message, name)]) if any(pair)]
    except (ValueError, IndexError, RecursionError):
        return []


def date(message: "Message[str, str]") -> str | None:
    """Return the date in ISO 8601 with the sender's offset; unchanged if it cannot be understood."""
    written = header(message, "Date")
    try:
        return parsedate_to_datetime(written).isoformat()
    except (ValueError, TypeError, OverflowError, IndexError, RecursionError):
        return written or None


def bodies(part: "Message[str, str]", depth: int = 0) -> Sequence[MailBody]:
    """Return texts that are no attachments, the best of alternatives. Parts nested too deep are left out."""
    payload = part.get_payload()
    kind = part.get_content_type()
    if kind != "message/rfc822" and isinstance(payload, list):
        parts = [inner for inner in payload if isinstance(inner, Message)] if depth < _DEEPEST else []
        alternatives = [bodies(inner, depth + 1) for inner in parts]
        return best(alternatives) if kind == "multipart/alternative" else [*chain.from_iterable(alternatives)]
    if kind not in ("text/plain", "text/html") or _is_attachment(part):
        return []
    text = _text(part)
    return [html_body(text) if kind == "text/html" else MailBody(text)] if text.strip() else []


def attachments(message: "Message[str, str]") -> Iterator[Attachment]:
    """Yield attachments, including messages, but without inline pictures and cryptographic signatures."""
    for number, part in enumerate(filter(_is_attachment, _leaves(message)), 1):
        kind = part.get_content_type()
        if kind in _SIGNATURES or _is_inline(part):
            continue
        data = _inner(part) if kind == "message/rfc822" else _payload(part)
        extension = ".eml" if kind == "message/rfc822" else guess_extension(kind) or ""
        yield Attachment(_name(part) or f"attachment-{number}{extension}", data, kind)


def _leaves(message: "Message[str, str]") -> Iterator["Message[str, str]"]:
    """Yield parts that hold no parts, in order; an attached message counts as one."""
    todo = [message]
    while todo:
        part = todo.pop()
        payload = part.get_payload()
        if part.get_content_type() != "message/rfc822" and isinstance(payload, list):
            todo += [inner for inner in reversed(payload) if isinstance(inner, Message)]
        else:
            yield part


def _is_attachment(part: "Message[str, str]") -> bool:
    if part.get_content_disposition() == "attachment" or part.get_content_type() == "message/rfc822":
        return True
    return part.get_content_maintype() not in ("text", "multipart") or bool(_name(part))


def _is_inline(part: "Message[str, str]") -> bool:
    """Return whether a part is a picture that the text shows."""
    shown = part.get_content_disposition() != "attachment" or part.get("Content-ID") is not None
    return part.get_content_maintype() in _MEDIA and shown


def _name(part: "Message[str, str]") -> str:
    try:
        return " ".join(_decode(part.get_filename() or "").split())
    except (LookupError, ValueError, TypeError):
        return ""


def _payload(part: "Message[str, str]") -> bytes:
    try:
        payload = part.get_payload(decode=True)
    except (ValueError, LookupError):
        payload = None
    return payload if isinstance(payload, bytes) else b""


def _inner(part: "Message[str, str]") -> bytes:
    payload = part.get_payload()
    inner = payload[0] if isinstance(payload, list) and payload else None
    try:
        return inner.as_bytes() if isinstance(inner, Message) else _payload(part)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, MessageError):
        return b""


def _text(part: "Message[str, str]") -> str:
    """Decode a part. Raises BadDocument if it is not text."""
    try:
        declared = part.get_content_charset()
    except (ValueError, LookupError):
        declared = None
    return decode(_payload(part), declared)
