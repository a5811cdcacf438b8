"""Reads the headers, bodies and attachments of a mail through Python's standard library.

Malformed headers and parts are read as far as possible. Only a message with far too many or too deeply nested
parts is refused.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime
from itertools import chain
from mimetypes import guess_extension
from typing import TypeVar

from ingestor.parsers.mail.bodies import MailBody, best, html_body
from ingestor.parsers.shared.decode import codec, decode
from ingestor.ports import BadDocument

_BOUNDARIES = 1000  # parts with parts; each makes reading all that follows slower
_DEEPEST = 100  # parts in each other whose texts are read
_LONGEST = 10_000  # characters of a header that are read
_SIGNATURES = ("application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature")
_COMMON = ("text/plain", "text/html")
_NO_BODIES = ("text/rfc822-headers", "text/x-amp-html")
_MEDIA = ("image", "audio", "video")
_SURROGATES = re.compile("[\ud800-\udfff]")
# Errors of the standard library for malformed mails; RecursionError for deep nesting.
_MALFORMED = (
    *(ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError),
    MessageError,
)
_T = TypeVar("_T")


def read(data: bytes) -> "Message[str, str]":
    """Parse a message. Raises BadDocument if its parts are too many or nested too deep."""
    if data.lower().count(b"boundary=") > _BOUNDARIES:
        raise BadDocument(f"has more than {_BOUNDARIES:,} nested parts; exclude it")
    try:
        return message_from_bytes(data)
    except RecursionError as error:
        raise BadDocument("has parts that are nested too deeply; exclude it") from error


def _attempt(function: Callable[[], _T], default: _T) -> _T:
    """Return the result of ``function``, or ``default`` if the mail is so malformed that the call fails."""
    try:
        return function()
    except _MALFORMED:
        return default


# --- headers ------------------------------------------------------------------------------------------------


def header(message: "Message[str, str]", name: str) -> str:
    """Return the value of a header as one line of decoded text; "" if the message lacks the header."""
    values = (str(value) for key, value in message.raw_items() if key.lower() == name.lower())
    return " ".join(_decode(next(values, "")[:_LONGEST]).split())


def _decode(value: str) -> str:
    """Decode a header: encoded words (RFC 2047) and bare UTF-8 become text, invalid bytes become U+FFFD."""
    value = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    def decode_words() -> str:
        words = [
            (
                word if isinstance(word, str) else word.decode(codec(name) or "utf-8", "replace"),
                name and "utf-8",
            )
            for word, name in decode_header(value)
        ]
        return str(make_header(words))

    return _SURROGATES.sub("\ufffd", _attempt(decode_words, value))


def addresses(message: "Message[str, str]", name: str) -> list[tuple[str, str]]:
    """Return the name and the address of each person in a header; one of the two may be ""."""
    pairs: list[tuple[str, str]] = _attempt(lambda: getaddresses([header(message, name)]), [])
    return [pair for pair in pairs if any(pair)]


def date(message: "Message[str, str]") -> str:
    """Return the header ``Date`` in ISO 8601 with the sender's offset; unchanged if it cannot be parsed."""
    written = header(message, "Date")
    return _attempt(lambda: parsedate_to_datetime(written).isoformat(), written)


# --- parts --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Attachment:
    name: str
    data: bytes
    content_type: str


def bodies(part: "Message[str, str]", depth: int = 0) -> Sequence[MailBody]:
    """Return the bodies in a part of a message, but only the best of several alternatives.

    A text that is neither plain nor HTML, such as an invitation, is a body unless it is an alternative of
    these. Attachments, and parts nested too deep, are left out. Raises BadDocument if a part is not text.
    """
    payload = _inner_parts(part)
    kind = part.get_content_type()
    if kind != "message/rfc822" and isinstance(payload, list):
        parts = [inner for inner in payload if isinstance(inner, Message)] if depth < _DEEPEST else []
        if kind != "multipart/alternative":
            return [*chain.from_iterable(bodies(inner, depth + 1) for inner in parts)]
        common = [inner for inner in parts if inner.get_content_type() in _COMMON or inner.is_multipart()]
        return best([bodies(inner, depth + 1) for inner in common or parts])
    is_text = kind.startswith(("text/", "multipart/")) and kind not in _NO_BODIES  # multipart: without parts
    if not is_text or _is_attachment(part):
        return []
    text = decode(_payload(part), _attempt(part.get_content_charset, None))
    return [html_body(text) if kind == "text/html" else MailBody(text)] if text.strip() else []


def attachments(message: "Message[str, str]") -> Iterator[Attachment]:
    """Yield the attachments of a message, except inline media and cryptographic signatures."""
    for number, part in enumerate(filter(_is_attachment, _leaves(message)), 1):
        kind = part.get_content_type()
        is_shown = part.get_content_disposition() != "attachment" or part.get("Content-ID") is not None
        if kind in _SIGNATURES or (part.get_content_maintype() in _MEDIA and is_shown):
            continue
        extension = ".eml" if kind == "message/rfc822" else guess_extension(kind) or ""
        yield Attachment(_name(part) or f"attachment-{number}{extension}", _payload(part), kind)


def _inner_parts(part: "Message[str, str]") -> object:
    """Return the nested parts of a part, or None. For a text, ``get_payload`` raises with some charsets."""
    return part.get_payload() if part.is_multipart() else None


def _leaves(message: "Message[str, str]") -> Iterator["Message[str, str]"]:
    """Yield the parts of a message that contain no parts, in order. Attached messages are not opened."""
    todo = [message]
    while todo:
        part = todo.pop()
        payload = _inner_parts(part)
        if part.get_content_type() != "message/rfc822" and isinstance(payload, list):
            todo += [inner for inner in reversed(payload) if isinstance(inner, Message)]
        else:
            yield part


def _is_attachment(part: "Message[str, str]") -> bool:
    if part.get_content_disposition() == "attachment" or part.get_content_type() == "message/rfc822":
        return True
    return part.get_content_maintype() not in ("text", "multipart") or bool(_name(part))


def _name(part: "Message[str, str]") -> str:
    return " ".join(_decode(_attempt(part.get_filename, None) or "").split())


def _payload(part: "Message[str, str]") -> bytes:
    """Return the decoded bytes of a part, or the source of an attached message; b"" if it is malformed."""
    parts = _inner_parts(part)
    inner = parts[0] if isinstance(parts, list) and parts else None
    if part.get_content_type() == "message/rfc822" and isinstance(inner, Message):
        return _attempt(inner.as_bytes, b"")
    payload = _attempt(lambda: part.get_payload(decode=True), None)
    return payload if isinstance(payload, bytes) else b""
