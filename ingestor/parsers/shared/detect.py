"""What kind of content a blob holds, and which parser reads it.

The first bytes speak louder than the source's declaration, and that louder than the name: a PDF called
notes.txt is a PDF. What the config says of a name (``types``) stands above all but the first bytes.
"""

import re
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import PurePosixPath

from ingestor.core.content_types import (
    ARCHIVES,
    ENTRIES,
    EXTENSIONS,
    FILE_NAMES,
    LOOKS,
    MEMBERS,
    PARSERS,
    PROSE,
    READ_BY_NAME,
    SIGNATURES,
    TEXTUAL,
    UNKNOWN,
    WEAK_SIGNATURES,
    ZIPPED,
    is_text,
)
from ingestor.core.fingerprint import fingerprint
from ingestor.model import Blob, Fingerprint
from ingestor.parsers.shared.decode import utf16_without_mark
from ingestor.parsers.shared.rest_marks import RULES, looks_restructured
from ingestor.ports import BadDocument, Unsupported

Types = tuple[tuple[str, str], ...]  # file name patterns, and the content type that each means

_HEAD = 8192  # bytes that are searched for NUL
_TAIL = 1_000_000  # bytes in which a zip's directory names its members
# A mail begins with a header, and has these two.
_HEADER = re.compile(
    rb"(?:return-path|received|delivered-to|from|to|date|subject|message-id|mime-version|x-[\w-]+): "
)
_MAIL = (re.compile(rb"^from: ", re.M), re.compile(rb"^(?:date|subject|message-id): ", re.M))
_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")  # of UTF-16 and UTF-32


def content_type(blob: Blob) -> str:
    """The MIME type, as exactly as signature, declaration, name and first words tell. Never raises."""
    head = blob.data[:_HEAD]
    found = _signed(head, SIGNATURES)
    if found == "application/zip":
        return _zip_type(blob.data) or ZIPPED.get(PurePosixPath(blob.name.lower()).suffix, found)
    if found == "application/x-ole-storage":
        return next((kind for entry, kind in ENTRIES if entry in blob.data), found)
    if found:
        return found
    if b"\0" in head and (weakly := _signed(head, WEAK_SIGNATURES)):
        return weakly
    if _is_binary(head):
        return UNKNOWN
    named = blob.told or _declared(blob.content_type) or _named(blob.name)
    if named == "text/plain" and not blob.told and looks_restructured(head):
        return "text/x-rst"  # manuals are often written so in files called .txt
    return named or _worded(head)


def told(blob: Blob, key: str, types: Types) -> Blob:
    """With the content type of the first pattern that fits: its name, or the whole key if it has a slash."""
    name = key.rpartition("/")[2]
    fits = (kind for pattern, kind in types if fnmatchcase(key if "/" in pattern else name, pattern))
    return replace(blob, told=next(fits, None))


@cache
def rules() -> Fingerprint:
    """What types are told by, and who reads them: where these change, documents are to be read again."""
    tables = (RULES, PARSERS, EXTENSIONS, FILE_NAMES, SIGNATURES, WEAK_SIGNATURES, MEMBERS, PROSE, TEXTUAL)
    return fingerprint([sorted(map(repr, t.items() if isinstance(t, dict) else t)) for t in tables])


def parser_of(blob: Blob) -> str:
    """The kind of parser for a blob.

    Raises Unsupported when there is none, and BadDocument when there is none although the name or the source
    promises one: a file that is called report.pdf and is none is damaged.
    """
    try:
        return parser_kind(content_type(blob))
    except Unsupported as error:
        if _promises(blob):
            raise BadDocument(str(error)) from error
        raise


def _promises(blob: Blob) -> bool:
    named = _named(blob.name)
    declared = (blob.content_type or "").partition(";")[0].strip().lower()
    suffix = PurePosixPath(blob.name.lower()).suffix[1:]
    return suffix in READ_BY_NAME or bool({named, declared} & PARSERS.keys()) or is_text(named or "")


def is_binary(parser: str) -> bool:
    """Whether that parser reads no text, so that documents are told by their first bytes alone."""
    return parser in PARSERS.values() and parser not in {
        kind for found, kind in PARSERS.items() if is_text(found)
    }


def parser_kind(content_type: str) -> str:
    """The kind of parser for a content type. Raises Unsupported when there is none."""
    if content_type in PARSERS:
        return PARSERS[content_type]
    if is_text(content_type):
        return {"json": "json", "xml": "xml"}.get(content_type.rpartition("+")[2], "text")
    if content_type in ARCHIVES:
        raise Unsupported(
            f"an archive ({content_type}), which is not opened: set `archives: true` on its source to read"
            " what is in it (.zip and .tar, also compressed), or exclude it"
        )
    raise Unsupported(
        f"looks like {_look(content_type)} ({content_type}), which no installed parser reads;"
        " exclude it, or convert it to text, Markdown or HTML"
    )


def _signed(head: bytes, signatures: tuple[tuple[int, bytes, str], ...]) -> str | None:
    return next((kind for at, magic, kind in signatures if head.startswith(magic, at)), None)


def _is_binary(head: bytes) -> bool:
    return b"\0" in head and not head.startswith(_MARKS) and utf16_without_mark(head) is None


def _zip_type(data: bytes) -> str | None:
    """ODF and EPUB begin with a stored member "mimetype"; Office formats have a member of known name."""
    if data.startswith(b"mimetype", 30):
        size = int.from_bytes(data[18:22], "little")
        declared = data[38 : 38 + min(size, 100)].decode("ascii", "replace").strip()
        return declared if declared.startswith("application/") else None
    return next((kind for member, kind in MEMBERS if member in data[-_TAIL:]), None)


def _declared(declared: str | None) -> str | None:
    """What the source says, if it says more than the name does and the content can be that."""
    kind = (declared or "").partition(";")[0].strip().lower()
    return kind if is_text(kind) and kind != "text/plain" else None


def _named(name: str) -> str | None:
    path = PurePosixPath(name.lower())
    return FILE_NAMES.get(path.name) or EXTENSIONS.get(path.suffix[1:])


def _worded(head: bytes) -> str:
    start = head[:512].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "text/html"
    if start.startswith(b"<?xml"):
        return "application/xml"
    if _is_mail(head):
        return "message/rfc822"
    first = start.partition(b"\n")[0]
    if first.startswith(b"#!"):
        return "text/x-python" if b"python" in first else "text/x-shellscript"
    return "text/plain"


def _is_mail(head: bytes) -> bool:
    header = head.replace(b"\r\n", b"\n").partition(b"\n\n")[0].lower()
    return bool(_HEADER.match(header)) and all(mark.search(header) for mark in _MAIL)


def _look(content_type: str) -> str:
    family = content_type.partition("/")[0]
    plain = {"image": "an image", "audio": "a sound file", "video": "a video", "font": "a font"}
    return LOOKS.get(content_type) or plain.get(family) or "a binary file or archive"
