r"""Parse the answers of IMAP servers: folder names, lists of messages, refusals. Pure.

The *raw* name of a folder is ASCII, with other characters in modified UTF-7 (RFC 3501, 5.1.3). Its *readable*
name is the decoded one. No two folders have the same readable name, and each converts back to the raw
name. A raw name that is not encoded as the RFC says becomes ``raw:`` and the raw name itself.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from email.utils import mktime_tz, parsedate_tz
from fnmatch import translate
from typing import Any
from urllib.parse import quote

from ingestor.connectors.shared.keys import escape, unescape

_VERBATIM = "raw:"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LISTED = re.compile(rb'\(([^)]*)\) (?:NIL|"(?:\\.|[^\\"])") (.*)', re.DOTALL)
_ABSENT = (rb"\noselect", rb"\nonexistent")
_FLAGS = re.compile(rb"FLAGS \([^()]*+\)")
_DELETED = re.compile(rb"FLAGS \((?:[^()]* )?\\Deleted[ )]", re.IGNORECASE)
_UID = re.compile(rb"\bUID (\d+)")
_SIZE = re.compile(rb"\bRFC822\.SIZE (\d+)")
_RECEIVED = re.compile(rb'\bINTERNALDATE "([^"]*)"')
_SHORT = re.compile(rb'\bBODY\[\] "((?:\\.|[^\\"])*)"')
_QUOTED = re.compile(rb'"[^"]*"')
_STRUCTURE = re.compile(rb"\d+ \(.*\bBODYSTRUCTURE \(")
_OPENERS = re.compile(rb'\((?!\()("[^"]*"|[^ ()]*)')  # the first word of each list in a BODYSTRUCTURE
_TEXT_OPENERS = {b'"text"', b'"charset"', b'"format"', b'"delsp"', b'"boundary"', b'"type"', b'"inline"'}
_ATTACHED = re.compile(rb'"(?:attachment|(?:file)?name(?:\*[^"]*)?)"')
_CODE = re.compile(r"\[(AUTH\w+|EXPIRED|PRIVACYREQUIRED|UNAVAILABLE|INUSE|LIMIT|THROTTLED|SERVERBUG)\b", re.I)
_FOREVER = ("AUTH", "EXPIRED", "PRIVACY")
_PASSING = re.compile(r"too many|temporar|throttl|rate limit|try again later|unavailable|timed? ?out", re.I)

Line = bytes | tuple[bytes, bytes] | None  # as in imaplib: a tuple ends in a literal


@dataclass(frozen=True, slots=True)
class Message:
    """A message in a listing. ``size``: bytes; ``received``: INTERNALDATE in POSIX seconds."""

    uid: int
    size: int
    received: float | None = None
    deleted: bool = False


def readable(raw: bytes) -> str:
    """Convert the raw name of a folder to its readable name."""
    name = _decode(raw)
    if name is None or _CONTROL.search(name) or name.startswith(_VERBATIM) or _encode(name) != raw:
        return _VERBATIM + escape(raw.decode("utf-8", "surrogateescape"))
    return "INBOX" if name.upper() == "INBOX" else name


def raw_name(name: str) -> bytes:
    """Convert the readable name of a folder to its raw name."""
    if name.startswith(_VERBATIM):
        return unescape(name.removeprefix(_VERBATIM)).encode("utf-8", "surrogateescape")
    return _encode(name)


def quote_argument(raw: bytes) -> str | bytes:
    """Quote the raw name of a folder for an IMAP command.

    Raises ValueError if the name has characters that no command can contain.
    """
    if re.search(rb"[\r\n\x00]", raw):
        raise ValueError(f"the folder's name has a character that IMAP forbids: {raw!r}")
    return b'"' + re.sub(rb'([\\"])', rb"\\\1", raw) + b'"'


def folders(lines: Iterable[Line]) -> list[bytes]:
    """Parse an answer to LIST.

    Return the raw names of all folders that can hold messages. Raises ValueError.
    """
    names = []
    for line in filter(None, lines):
        head, literal = line if isinstance(line, tuple) else (line, None)
        listed = _LISTED.fullmatch(head)
        if listed is None:
            raise ValueError(f"the server lists a folder in an unknown form: {line!r}")
        if not any(mark in _ABSENT for mark in listed[1].lower().split()):
            names.append(_unquote(listed[2]) if literal is None else literal)
    return names


def messages(lines: Iterable[Line]) -> Iterator[Message]:
    """Parse an answer to FETCH for UID, RFC822.SIZE, INTERNALDATE and FLAGS, and yield its messages.

    Lines without UID and size are skipped: they are notices about other messages.
    """
    for line in lines:
        if not isinstance(line, bytes):
            continue
        rest = _FLAGS.sub(b"", line)
        uid, size, received = _UID.search(rest), _SIZE.search(rest), _RECEIVED.search(rest)
        if uid and size:
            date = seconds(received[1]) if received else None
            yield Message(int(uid[1]), int(size[1]), date, bool(_DELETED.search(line)))


def body(lines: Iterable[Line], uid: int) -> bytes | None:
    """Parse an answer to FETCH for UID and BODY[]. Return the content of the message with that UID.

    Return None if the answer lacks the message.
    """
    waiting: bytes | None = None
    for line in lines:
        head, literal = line if isinstance(line, tuple) else (line or b"", None)
        if literal is None and (short := _SHORT.search(head)):
            literal = re.sub(rb"\\(.)", rb"\1", short[1])
        number = _UID.search(head)
        if literal is not None and number is None:
            waiting = literal  # its UID follows it, in the next line
        elif number is not None and int(number[1]) == uid and (literal is not None or waiting is not None):
            return waiting if literal is None else literal
        else:
            waiting = None
    return None


def without_attachments(lines: Iterable[Line]) -> Iterator[int]:
    """Parse an answer to FETCH for UID and BODYSTRUCTURE. Yield the UIDs of messages without attachments.

    All parts of such a message are text without a file name. A message whose structure cannot be parsed
    counts as one with attachments.
    """
    for line in lines:
        if not isinstance(line, bytes) or b"\\" in line or b"{" in line:
            continue
        bare, lowered = _QUOTED.sub(b'""', line), line.lower()
        uid = _UID.search(bare)
        if uid is None or not _STRUCTURE.match(bare) or _ATTACHED.search(lowered):
            continue
        if set(_OPENERS.findall(lowered.partition(b"bodystructure ")[2])) <= _TEXT_OPENERS:
            yield int(uid[1])


def seconds(date: bytes) -> float | None:
    """Return POSIX seconds of a date such as ``17-Jul-1996 02:44:25 -0700``; None if it is no date."""
    parts = parsedate_tz(date.decode("ascii", "replace"))
    try:
        return float(mktime_tz(parts)) if parts else None
    except (ValueError, OverflowError):
        return None


def in_one_line(answer: Any) -> str:
    """Return the text of a server's answer, or of an error that contains an answer, as one line."""
    answer = answer.args[0] if isinstance(answer, Exception) and answer.args else answer
    text = (
        answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer or "no reason given")
    )
    return " ".join(_CONTROL.sub(" ", text).split())


def may_pass(words: str) -> bool:
    """Return whether a refused login may succeed later without a change.

    ``words``: reason that the server gives.
    """
    code = _CODE.search(words)
    return not code[1].upper().startswith(_FOREVER) if code else bool(_PASSING.search(words))


def matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Return a function that tests whether a readable name matches one of the patterns.

    In a pattern ``*`` matches any text.
    """
    plain = (re.sub(r"[?[]", r"[\g<0>]", pattern) for pattern in patterns)
    pattern = re.compile("|".join(map(translate, plain)) or r"(?!)")
    return lambda name: bool(pattern.fullmatch(name))


def address(user: str, host: str, port: int | None, folder: str, validity: int, uid: int) -> str:
    """Return the URL of a message (RFC 5092)."""
    server = f"[{host}]" if ":" in host else host
    server += f":{port}" if port else ""
    path = quote(folder.encode("utf-8", "surrogateescape"))
    return f"imap://{quote(user, safe='')}@{server}/{path};UIDVALIDITY={validity}/;UID={uid}"


def _unquote(name: bytes) -> bytes:
    return re.sub(rb"\\(.)", rb"\1", name[1:-1]) if name[:1] == b'"' else name


def _encode(name: str) -> bytes:
    """Encode text in modified UTF-7."""

    def encode(run: re.Match[str]) -> str:
        return "&" + b64encode(run[0].encode("utf-16-be"), b"+,").rstrip(b"=").decode() + "-"

    return re.sub("[^ -~]+", encode, name.replace("&", "&-")).encode()


def _decode(raw: bytes) -> str | None:
    """Decode modified UTF-7; None for invalid bytes."""

    def decode(run: re.Match[str]) -> str:
        packed = run[1] + "=" * (-len(run[1]) % 4)
        return b64decode(packed, b"+,", validate=True).decode("utf-16-be") or "&"

    try:
        return re.sub("&([^-]*)-", decode, raw.decode("ascii"))
    except ValueError:
        return None
