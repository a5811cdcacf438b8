"""Determines the content type of a blob, and the parser that reads it.

The first bytes decide, then the type that the source declares, then the name: a PDF called notes.txt is a
PDF. The option ``types`` of the config, which gives types to names, overrides everything but the first bytes.
"""

import re
import sys
import zlib
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from importlib.util import find_spec

from ingestor.core.content_types import (
    ARCHIVES,
    ENTRIES,
    EXTENSIONS,
    FILE_NAMES,
    LATE,
    MEMBERS,
    PARSERS,
    PICTURES,
    PROSE,
    READ_BY_NAME,
    SIGNATURES,
    TEXTUAL,
    UNKNOWN,
    UNREAD_FORMATS,
    WEAK_SIGNATURES,
    XML_KINDS,
    ZIPPED,
    is_text,
)
from ingestor.core.fingerprint import fingerprint
from ingestor.model import Blob, Fingerprint
from ingestor.parsers.shared.decode import utf16_without_mark
from ingestor.parsers.shared.file_names import file_name, suffix
from ingestor.ports import BadDocument, Unsupported

Types = tuple[tuple[str, str], ...]  # file name patterns, and the content type that each means

_HEAD = 8192  # bytes that are searched for NUL
_SOME_TEXT = 8  # bytes beside which one NUL is damage
_BINARY = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f]")
_TAIL = 1_000_000  # bytes in which a zip's directory names its members
# A mail begins with a header, and has these two.
_HEADER = re.compile(
    rb"(?:return-path|received|delivered-to|from|to|date|subject|message-id|mime-version|x-[\w-]+): "
)
_MAIL = (re.compile(rb"^from: ", re.M), re.compile(rb"^(?:date|subject|message-id): ", re.M))
# Head of a member in a zip: offsets of its method, its packed size and the length of its extra field.
_MEMBER_FIELDS = ((8, 10), (18, 22), (28, 30))
_MEMBER_HEAD = 30 + len(b"mimetype")
_PLAIN_XML = ("application/xml", "text/xml")
_MAN = re.compile(rb"^\.(?:TH|Dd|Dt) +\S", re.M)
_PAGE = re.compile(r"\.[1-9]\w{0,3}$")  # of a manual: its section
_ENTRY = b"PK\x01\x02"  # the mark of a member in a zip's directory
_ENTRY_HEAD = 46  # bytes before its name
_DECLARED = 100  # bytes of a declared type
_LATE_MIMETYPE = re.compile(rb"PK\x03\x04.{22}\x08\0.{2}mimetype", re.DOTALL)
_BEHIND = 1024 + len(b"%PDF-1.7")  # bytes in which PDF readers look for the beginning of a PDF
_PDF = re.compile(rb"%PDF-[12]\.\d")
_PDF_END = 2048  # bytes at whose end a PDF says where its index begins
_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")  # of UTF-16 and UTF-32

# reStructuredText has a title, which is a line with a rule under it, and markup that other texts hardly have
_RULE = re.compile(rb"([=\-~^*\"#+'`.:_])\1{3,}")
_ANY_RULE = re.compile(rb"([!-/:-@\[-`{-~])\1*")
_MARKUP = re.compile(
    rb"^\.\.[ ](?:[a-z:+-]+::|_[^:\n]+:|\[\w|\|)"  # a directive, a target, a footnote or a substitution
    rb"|:[a-z][a-z0-9:+-]{0,50}:`[^`\n]"  # a role
    rb"|(?<![`\w])``(?=\S)[^`\n]*\S``(?![`\w])"  # a literal
    rb"|::[ \t]*\n[ \t]*\n[ \t]+\S",  # a block that is announced
    re.M,
)
# Both together suffice without a title: a directive or a target, and a line of underlines.
_DIRECTIVE = re.compile(rb"^\.\. (?:[a-z-]+::|_[\w -]+:)", re.M)
_LINE = re.compile(rb"^([=~^*-])\1{3,}\s*$", re.M)
RULES = tuple(pattern.pattern for pattern in (_RULE, _MARKUP, _DIRECTIVE, _LINE))


def content_type(blob: Blob) -> str:
    """Return a blob's MIME type by its first bytes, declared type, name and first words. Never raises."""
    head = blob.data[:_HEAD]
    signed = _signature_type(head, SIGNATURES)
    if signed == "application/zip":
        return _zip_type(blob.data) or ZIPPED.get(suffix(file_name(blob.name.lower())), signed)
    if signed == "application/x-ole-storage":
        data = blob.data.lower()  # programs write the names of entries in any case
        return next((kind for entry, kind in ENTRIES if entry in data), signed)
    if signed:
        return signed
    if _PDF.search(head, 0, _BEHIND) and b"startxref" in blob.data[-_PDF_END:]:
        return "application/pdf"  # behind the header of a mail gateway, a printer or an old Macintosh
    if b"\0" in head and (weakly := _signature_type(head, WEAK_SIGNATURES)):
        return weakly
    if _is_binary(head):
        return UNKNOWN
    declared = (blob.content_type or "").partition(";")[0].strip().lower()
    tells = is_text(declared) and declared != "text/plain"  # more than the name, and fits the content
    named = blob.configured_type or (declared if tells else None) or _type_of_name(blob.name)
    if named == "text/plain" and not blob.configured_type and looks_restructured(head):
        return "text/x-rst"  # manuals are often written so in files called .txt
    if named is None and _MAN.search(head) and _PAGE.search(blob.name):
        return "text/troff"
    kind = named or _type_of_words(head)
    known = (known for pattern, known in XML_KINDS if re.search(pattern, head))
    return next(known, kind) if kind in _PLAIN_XML else kind


def with_type(blob: Blob, key: str, types: Types) -> Blob:
    """Return the blob with the content type that the config's ``types`` give it.

    ``types``: (pattern, type) pairs, of which the first match counts. A pattern with a slash is matched
    against the whole ``key``, other patterns against the name.
    """
    if not types:
        return blob
    name = key.rpartition("/")[2]
    fits = (kind for pattern, kind in types if fnmatchcase(key if "/" in pattern else name, pattern))
    return replace(blob, configured_type=next(fits, None))


@cache
def rules() -> Fingerprint:
    """Return a fingerprint of all rules for types and parsers. When it changes, documents are read again."""
    tables = (RULES, PARSERS, EXTENSIONS, FILE_NAMES, SIGNATURES, WEAK_SIGNATURES, MEMBERS, PROSE, TEXTUAL)
    rows = [
        sorted(map(repr, t.items() if isinstance(t, dict) else t)) for t in (*tables, XML_KINDS, PICTURES)
    ]
    return fingerprint([reads_pictures(), _SOME_TEXT, *rows])


def parser_of(blob: Blob) -> str:
    """Return the kind of the parser that reads a blob.

    Raises Unsupported if there is no such parser. Raises BadDocument instead if the name or the declared type
    promises a format that is read: a report.pdf that is no PDF must be damaged.
    """
    try:
        return parser_kind(content_type(blob))
    except Unsupported as error:
        if _promises(blob):
            raise BadDocument(str(error)) from error
        raise


def parser_of_name(key: str) -> str | None:
    """Return the kind of parser that a name suggests, or None. The content may decide otherwise."""
    return PARSERS.get(_type_of_name(key) or "")


def _promises(blob: Blob) -> bool:
    """Return whether the name or the declared type of a blob belongs to a format that some parser reads."""
    named = _type_of_name(blob.name)
    declared = (blob.content_type or "").partition(";")[0].strip().lower()
    ending = suffix(file_name(blob.name.lower()))[1:]
    return ending in READ_BY_NAME or bool({named, declared} & PARSERS.keys()) or is_text(named or "")


def is_binary(parser: str) -> bool:
    """Return whether a parser reads no text formats, so that the first bytes alone identify its documents."""
    return parser in PARSERS.values() and parser not in {
        kind for pattern, kind in PARSERS.items() if is_text(pattern)
    }


def parser_kind(content_type: str) -> str:
    """Return the kind of the parser for a content type. Raises Unsupported, with advice, if there is none."""
    if content_type in PARSERS:
        return PARSERS[content_type]
    if content_type in PICTURES:
        if reads_pictures():
            return "image"
        raise Unsupported(
            f"looks like an image ({content_type}); OCR would read text in it: {sys.executable} -m pip"
            " install rapidocr; else exclude it"
        )
    if is_text(content_type):
        return {"json": "json", "xml": "xml"}.get(content_type.rpartition("+")[2], "text")
    if content_type in ARCHIVES:
        raise Unsupported(
            f"an archive ({content_type}), which is not opened: set `archives: true` on its source to read"
            " what is in it (.zip, .tar, also compressed), or exclude it"
        )
    raise Unsupported(
        f"looks like {_look(content_type)} ({content_type}), which no installed parser reads;"
        " exclude it, or convert it to text, Markdown or HTML"
    )


@cache
def reads_pictures() -> bool:
    """Return whether OCR is available: whether rapidocr is installed."""
    return find_spec("rapidocr") is not None


def _signature_type(head: bytes, signatures: tuple[tuple[int, bytes, str], ...]) -> str | None:
    match = _pattern(signatures).match(head)
    return signatures[match.lastindex - 1][2] if match and match.lastindex else None


@cache
def _pattern(signatures: tuple[tuple[int, bytes, str], ...]) -> re.Pattern[bytes]:
    """Compile a pattern with one group for each signature (offset, bytes, type); the first match wins."""
    return re.compile(
        b"|".join(b".{%d}(%s)" % (at, re.escape(magic)) for at, magic, _ in signatures), re.DOTALL
    )


def _is_binary(head: bytes) -> bool:
    """Return whether the first bytes are binary data. A few NUL bytes in text are damage and do not count."""
    if b"\0" not in head or head.startswith(_MARKS) or utf16_without_mark(head):
        return False
    few = max(len(head) >= _SOME_TEXT, len(head) // 100)
    return head.count(0) > few or _BINARY.search(head) is not None


def _zip_type(data: bytes) -> str | None:
    """Return the content type of a zip file; None if it is unknown.

    ODF and EPUB state it in the member ``mimetype``; other formats have a member with a known name.
    """
    if data.startswith(b"mimetype", 30):
        return _mimetype(data, 0)
    kind_of_member = next((kind for member, kind in MEMBERS if _has_member(data, member)), None)
    late = _LATE_MIMETYPE.search(data) if kind_of_member in LATE else None
    return (_mimetype(data, late.start()) if late else None) or kind_of_member


def _has_member(data: bytes, name: bytes) -> bool:
    """Return whether the directory of a zip names a member that begins with ``name``."""
    at = data.find(name, max(0, len(data) - _TAIL))
    while at >= 0:
        if data.startswith(_ENTRY, max(0, at - _ENTRY_HEAD)):
            return True
        at = data.find(name, at + 1)
    return False


def _mimetype(data: bytes, at: int) -> str | None:
    """Return the content of the zip member ``mimetype`` at offset ``at``; None if it is no such type."""
    method, size, extra = (int.from_bytes(data[at + a : at + b], "little") for a, b in _MEMBER_FIELDS)
    start = at + _MEMBER_HEAD + extra
    packed = data[start : start + (min(size, _DECLARED) or _DECLARED)]
    try:
        plain = zlib.decompressobj(-15).decompress(packed, _DECLARED) if method else packed
    except zlib.error:
        return None
    declared = plain.decode("ascii", "replace").strip()
    return declared if declared.startswith("application/") else None


def _type_of_name(name: str) -> str | None:
    name = file_name(name.lower())
    return FILE_NAMES.get(name) or EXTENSIONS.get(suffix(name)[1:])


def _type_of_words(head: bytes) -> str:
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
    return UNREAD_FORMATS.get(content_type) or plain.get(family) or "a binary file or archive"


# --- reStructuredText --------------------------------------------------------------------------------------


def looks_restructured(head: bytes) -> bool:
    """Return whether a text looks like reStructuredText.

    ``head``: the first bytes of the text, in an encoding that extends ASCII.
    """
    if _DIRECTIVE.search(head) and _LINE.search(head):
        return True
    text = head.replace(b"\r\n", b"\n")
    rows = [b"", *(line.rstrip() for line in text.split(b"\n"))]
    return bool(_MARKUP.search(text)) and any(map(_is_title, rows, rows[1:], rows[2:]))


def _is_title(above: bytes, title: bytes, below: bytes) -> bool:
    """Return whether three lines form an underlined title: the line above must be blank or the same rule.

    The rule below must be at least as long as the title.
    """
    if not title or _ANY_RULE.fullmatch(title) or not _RULE.fullmatch(below) or above not in (b"", below):
        return False
    indented = title[:1].isspace() and above != below
    return not indented and len(below) >= len(title.strip().decode("utf-8", "replace"))
