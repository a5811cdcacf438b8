"""Unpacks archives, mailboxes and mails, with the containers in them, one member after the other.

A confined process runs this module (sandbox/work.py), because archives may be hostile. No file is written,
and only one member of a container is in memory at a time. Limits are compared with the declared sizes first,
then with the real sizes.
"""

import bz2
import gzip
import io
import lzma
import os
import re
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from tempfile import TemporaryFile
from weakref import finalize

from ingestor.archives.members import (
    DEEPEST,
    LARGEST,
    MOST_BYTES,
    MOST_MEMBERS,
    BrokenContainer,
    Budget,
    FoundMember,
    Member,
    TooMuch,
    is_harmless,
    is_wanted,
    namer,
    refusal,
)
from ingestor.core.fingerprint import digest
from ingestor.model import INSIDE, Blob
from ingestor.parsers.mail import message as mail
from ingestor.parsers.shared import detect
from ingestor.ports import BadDocument


class Unpacked:
    """The members of an opened outermost container. Their bytes are in a temporary file.

    ``members``: the members by name. ``broken``: why inner containers could not be opened, by their name. The
    file is deleted with the last reference to the object.
    """

    def __init__(self) -> None:
        self._spool = TemporaryFile(buffering=0)  # noqa: SIM115 - as long as this
        self._starts: dict[str, int] = {}
        self._size = self._count = 0  # bytes and number of all members so far, also of dropped ones
        self.close = finalize(self, self._spool.close)
        self.members: dict[str, Member] = {}
        self.broken: dict[str, str] = {}

    def add(self, members: Sequence[Member], content: bytes | memoryview) -> None:
        """Add members. ``content``: the bytes of all members in order, except members with a problem.

        Raises BadDocument if the sizes do not match, OSError if the disk is full.
        """
        sizes = [0 if member.problem else member.size for member in members]
        wrong = sum(sizes) != len(content) or min(sizes, default=0) < 0
        self._count += len(members)
        if wrong or self._count > MOST_MEMBERS or self._size + len(content) > MOST_BYTES:
            raise BadDocument("the archive's list of members is invalid; exclude the archive")
        for member, size in zip(members, sizes, strict=True):
            if member.name in self.members or not is_harmless(member.name):
                raise BadDocument("names of files in the archive are unsafe or repeated; exclude the archive")
            self.members[member.name] = member
            self._starts[member.name] = self._size
            self._size += size
        self._write(content)

    def drop(self, name: str, reason: str) -> None:
        """Remove the members of an inner container that turned out to be damaged, and store the reason.

        ``name``: the inner container. No member that is not inside it may have been added after it; otherwise
        BadDocument is raised.
        """
        inside = name + INSIDE
        last = next(reversed(self.members), None)
        while last is not None and last.startswith(inside):
            self.members.popitem()
            last = next(reversed(self.members), None)
        if last != name:
            raise BadDocument("the archive's list of members is invalid; exclude the archive")
        self.broken[name] = reason

    def read(self, member: Member) -> bytes:
        """Return the bytes of a member. Raises BadDocument if the member has a problem."""
        if member.problem is not None:
            raise BadDocument(member.problem)
        return os.pread(self._spool.fileno(), member.size, self._starts[member.name])

    def _write(self, content: bytes | memoryview) -> None:
        rest = memoryview(content)
        while rest:
            rest = rest[self._spool.write(rest) :]


_HEADER = 2**20  # bytes that tarfile may read at once
_CHUNK = 2**20
_XZ_MEMORY = 2**27
_STEP = 2**16
_FRAMES = 100_000  # of zstd; each needs a decompressor, and this many take about a second
_TAR_HEADER = 512  # bytes
_PACKED = {"application/gzip", "application/x-bzip2", "application/x-xz", "application/zstd"}
_MESSAGE = "application/vnd.ms-outlook"
_CONTAINERS = {*_PACKED, _MESSAGE, "application/x-tar", "application/zip", "application/mbox"}
_ARCHIVE = re.compile(r"\.(zip|tar|tgz|tbz2?|txz|tzst|gz|bz2|xz|zst)$", re.IGNORECASE)
_TAR = re.compile(r"\.(tgz|tbz2?|txz|tzst|tar\.\w+)$", re.IGNORECASE)
_SINGLE = re.compile(r"(?<!\.tar)\.(gz|bz2|xz|zst)$", re.IGNORECASE)  # one compressed file
_MAIL = re.compile(r"\.(eml|mbox|msg)$", re.IGNORECASE)
_DAMAGED = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError,
    NotImplementedError, RuntimeError, OverflowError,
)  # fmt: skip
_FROM = re.compile(rb"^From [^\r\n]*+\r?\n", re.MULTILINE)
_FIELD = re.compile(rb">?[!-9;-~]++[ \t]*:")  # of a header
_PATCH = b" Mon Sep 17 00:00:00 2001"  # the time that git writes above every patch
_TIME = re.compile(rb"\d\d:\d\d")
_ESCAPED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)
_MESSAGE_ID = re.compile(rb"^message-id:\s*<?([^>\s]+)", re.MULTILINE | re.IGNORECASE)
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_PARTS = re.compile(rb"boundary=", re.IGNORECASE)


def may_hold(name: str, archives: bool) -> bool:
    """Return whether a file may have members, by its name.

    ``archives``: whether archives count; if not, only mails and compressed single files do.
    """
    return bool(_MAIL.search(name) or _SINGLE.search(name) or (archives and _ARCHIVE.search(name)))


def is_document(name: str) -> bool:
    """Return whether a container is also a document itself, as a mail is. ``name``: its file name."""
    return name.lower().endswith((".eml", ".msg"))


def holds_members(blob: Blob) -> bool:
    """Return whether content may have members. The test is quick, and safe for hostile bytes."""
    kind = detect.content_type(blob)
    if kind == "message/rfc822":
        return bool(_PARTS.search(blob.data))  # a mail without parts has no attachments
    return kind in _CONTAINERS


def unpack(blob: Blob, archives: bool) -> Iterator[FoundMember | BrokenContainer]:
    """Yield the members in order. The members of an inner container follow that container.

    ``archives``: whether inner archives are opened; if not, only mails are. Raises BadDocument.
    """
    yield from _tree(blob, archives, Budget(len(blob.data)), "", 1)


def _tree(
    blob: Blob, archives: bool, budget: Budget, prefix: str, depth: int
) -> Iterator[FoundMember | BrokenContainer]:
    name = namer()
    for child in _members(blob, budget):
        full = prefix + name(child.member.name)
        member = replace(child.member, name=full)
        inner = Blob(child.data, full.rpartition("/")[2], member.content_type)
        may = depth < DEEPEST and not member.problem and may_hold(full, archives)
        if not may or not holds_members(inner):
            yield FoundMember(member, child.data)
            continue
        yield FoundMember(replace(member, opened=True), child.data)
        try:
            yield from _tree(inner, archives, budget, full + INSIDE, depth + 1)
        except TooMuch:
            raise
        except BadDocument as error:
            yield BrokenContainer(full, str(error))


def _members(blob: Blob, budget: Budget) -> Iterator[FoundMember]:
    kind = detect.content_type(blob)
    try:
        if kind == "application/zip":
            yield from _of_zip(blob.data, budget)
        elif kind in _PACKED:
            stream = _Stream(_chunks(blob.data, kind), budget)
            is_tar = _TAR.search(blob.name) or stream.is_tar()
            yield from _of_tar(stream, budget) if is_tar else _of_one(blob.name, stream, budget)
        elif kind == "application/x-tar":
            yield from _of_tar(_Stream(_chunks(blob.data, kind), budget), budget)
    except _DAMAGED as error:
        raise BadDocument(
            f"the archive is damaged ({error}); replace it with an intact copy, or exclude it"
        ) from error
    if kind == "message/rfc822":
        yield from _of_mail(blob.data, budget)
    elif kind == "application/mbox":
        yield from _of_mbox(blob.data, budget)
    elif kind == _MESSAGE:
        yield from _of_message(blob.data, budget)


def _of_zip(data: bytes, budget: Budget) -> Iterator[FoundMember]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = [info for info in archive.infolist() if not info.is_dir()]
        budget.foresee(len(files), sum(info.file_size for info in files))
        for info in files:
            name = _zip_name(info)
            if not is_wanted(name):
                continue
            problem = _zip_refusal(info)
            try:
                content = b""
                if not problem:
                    with archive.open(
                        info
                    ) as stream:  # in small steps: otherwise zipfile may inflate far more
                        content = b"".join(iter(lambda: stream.read(_STEP), b""))
            except _DAMAGED as error:
                content = b""
                problem = f"is damaged in its archive ({error}); replace the archive with an intact copy"
            budget.spend(1, len(content))
            yield _member_of(name, content, _zip_time(info), problem=problem, mark=f"{info.CRC:08x}")


def _chunks(data: bytes, kind: str) -> Iterator[bytes]:
    packed = io.BytesIO(data)
    if kind == "application/gzip":
        with gzip.GzipFile(fileobj=packed) as stream:
            yield from iter(lambda: stream.read(_CHUNK), b"")
    elif kind == "application/x-bzip2":
        with bz2.BZ2File(packed) as file:
            yield from iter(lambda: file.read(_CHUNK), b"")
    elif kind == "application/x-xz":
        yield from _of_xz(data)
    elif kind == "application/zstd":
        yield from _of_zstd(data)
    else:
        yield from iter(lambda: packed.read(_CHUNK), b"")


def _of_xz(data: bytes) -> Iterator[bytes]:
    """Yield the unpacked content of an xz file. Memory is limited: the header can demand any amount."""
    decompressor = lzma.LZMADecompressor(memlimit=_XZ_MEMORY)
    while not decompressor.eof:
        chunk = decompressor.decompress(data, _CHUNK)
        if not chunk and decompressor.needs_input and not data:
            raise EOFError("truncated")
        data = b""
        yield chunk


def _of_zstd(data: bytes) -> Iterator[bytes]:
    """Yield the unpacked content of a zstd file, frame by frame.

    Memory is limited, because a frame can demand any amount. The input is read in small parts, because the
    decompressor copies the data that follows a frame, and there may be a million frames.
    """
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    packed, frames = io.BytesIO(data), 0
    part = packed.read(_STEP)
    while part:
        frames += 1
        if frames > _FRAMES:
            raise BadDocument(
                f"the archive consists of more than {_FRAMES:,} zstd frames; compress it again, or exclude it"
            )
        decompressor = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: 27})
        try:
            while not decompressor.eof:
                if not part and decompressor.needs_input and not (part := packed.read(_STEP)):
                    raise EOFError("truncated")
                chunk, part = decompressor.decompress(part, _CHUNK), b""
                if chunk:
                    yield chunk
        except zstd.ZstdError as error:
            raise ValueError(str(error)) from error
        part = decompressor.unused_data or packed.read(_STEP)


class _Stream:
    """A file object for tarfile over chunks of bytes.

    It is read forwards only, and limits the size of a header.
    """

    def __init__(self, chunks: Iterator[bytes], budget: Budget) -> None:
        self._chunks, self._budget = chunks, budget
        self._ahead, self._at = b"", 0

    def is_tar(self) -> bool:
        """Return whether a header of tar follows. The position in the stream does not change."""
        while len(self._ahead) < _TAR_HEADER and (chunk := next(self._chunks, None)) is not None:
            self._budget.spend(0, len(chunk))
            self._ahead += chunk
        return self._ahead[257:262] == b"ustar" or _is_old_tar(self._ahead[:_TAR_HEADER])

    def tell(self) -> int:
        return self._at

    def seek(self, to: int) -> None:
        if to < self._at:
            raise tarfile.ReadError("two files of the archive overlap")
        while self._at < to and (part := self._next(to - self._at)):
            self._at += len(part)

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _HEADER:
            raise tarfile.ReadError("a header in the archive is too large")
        return self.content(size)

    def content(self, size: int) -> bytes:
        """Return the next ``size`` bytes, or fewer at the end of the stream."""
        parts: list[bytes] = []
        while size and (part := self._next(size)):
            parts.append(part)
            size -= len(part)
            self._at += len(part)
        return b"".join(parts)

    def _next(self, most: int) -> bytes:
        while not self._ahead:
            chunk = next(self._chunks, None)
            if chunk is None:
                return b""
            self._budget.spend(0, len(chunk))
            self._ahead = chunk
        part, self._ahead = self._ahead[:most], self._ahead[most:]
        return part


def _of_tar(stream: _Stream, budget: Budget) -> Iterator[FoundMember]:
    with tarfile.open(fileobj=stream, mode="r:") as archive:  # type: ignore[call-overload]
        for info in archive:
            budget.spend(1, 0)
            if not info.isreg() or info.sparse is not None or not is_wanted(info.name):
                continue
            problem = refusal(info.size)
            stream.seek(info.offset_data)
            content = b"" if problem else stream.content(info.size)
            if len(content) < info.size and not problem:
                raise tarfile.ReadError("truncated")
            version = f"{digest(content)}.{info.mtime:.0f}"
            yield FoundMember(
                Member(info.name, version, info.size, float(info.mtime), None, problem), content
            )


def _is_old_tar(header: bytes) -> bool:
    """Return whether bytes are a tar header from before 1988, which has a checksum but no magic bytes."""
    try:
        tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def _of_one(name: str, stream: _Stream, budget: Budget) -> Iterator[FoundMember]:
    """Yield the single file in a compressed file.

    Its name is that of the compressed file without the extension.
    """
    content = stream.content(LARGEST + 1)
    while stream.content(_CHUNK):
        pass  # the budget ends an endless stream
    budget.spend(1, 0)
    size = stream.tell()
    yield _member_of(PurePosixPath(name).stem or "content", content, None, None, refusal(size), f"{size}")


def _of_mail(data: bytes, budget: Budget) -> Iterator[FoundMember]:
    for attachment in mail.attachments(mail.read(data)):
        kind = attachment.content_type if attachment.content_type == "message/rfc822" else None
        name = attachment.name.replace("/", "_")
        if kind and not name.lower().endswith(".eml"):
            name += ".eml"
        budget.spend(1, len(attachment.data))
        yield _member_of(name, attachment.data, None, kind, refusal(len(attachment.data)))


def _of_message(data: bytes, budget: Budget) -> Iterator[FoundMember]:
    """Yield the attachments of an Outlook message.

    If the message is damaged, no more are yielded, and no error is raised: the damage is reported when the
    message itself is parsed.
    """
    from olefile import OleFileIO

    from ingestor.parsers.office97 import (
        msg,  # imported here: it loads readers of HTML and RTF, which few containers need
    )

    with suppress(*_DAMAGED), OleFileIO(io.BytesIO(data)) as file:
        for attachment in msg.attachments(file):
            budget.spend(1, len(attachment.data))
            yield _member_of(
                attachment.name.replace("/", "_"), attachment.data, None, None, refusal(len(attachment.data))
            )


def _of_mbox(data: bytes, budget: Budget) -> Iterator[FoundMember]:
    """Yield the messages of a mailbox.

    Some programs do not escape ``From`` at the start of a line. Such a line begins a message only if it has a
    time, a header follows, and it is not of a patch inside a message.
    """
    start = None
    has_patches = _PATCH in data[: data.find(b"\n")]
    for match in _FROM.finditer(data):
        if not _TIME.search(match[0]) or (_PATCH in match[0] and not has_patches):
            continue
        if start is not None:
            if not _FIELD.match(data, match.end()):
                continue
            yield _message(data[start : match.start()], budget)
        start = match.end()
    if start is not None:
        yield _message(data[start:], budget)


def _message(data: bytes, budget: Budget) -> FoundMember:
    content = _ESCAPED_FROM.sub(rb"\1", data.rstrip(b"\r\n") + b"\n")
    budget.spend(1, len(content))
    head = _END_OF_HEAD.split(content, maxsplit=1)[0]
    match = _MESSAGE_ID.search(head)
    name = match[1][:200].decode("ascii", "replace").replace("/", "_") if match else digest(content)
    return _member_of(f"{name}.eml", content, None, "message/rfc822", refusal(len(content)))


def _member_of(
    name: str,
    content: bytes,
    modified: float | None,
    content_type: str | None = None,
    problem: str | None = None,
    mark: str = "",
) -> FoundMember:
    version = f"?{mark}" if problem else digest(content)
    if modified is not None:
        version += f".{modified:.0f}"
    member = Member(name, version, len(content), modified, content_type, problem)
    return FoundMember(member, b"" if problem else content)


def _zip_refusal(info: zipfile.ZipInfo) -> str | None:
    if info.flag_bits & 1:
        return "is encrypted in its archive; pack it without a password, or put it beside the archive"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "is compressed by an unsupported method; zip it with the usual one (deflate)"
    return refusal(info.file_size)


def _zip_name(info: zipfile.ZipInfo) -> str:
    """Return the name of a zip member. Many programs write UTF-8 without setting the flag for it."""
    if info.flag_bits & 0x800:
        return info.filename
    try:
        return info.filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        return info.filename


def _zip_time(info: zipfile.ZipInfo) -> float | None:
    try:
        return datetime(*info.date_time, tzinfo=UTC).timestamp()
    except ValueError:
        return None
