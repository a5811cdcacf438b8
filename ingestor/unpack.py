"""What is in an archive, a mailbox or a mail: members with harmless names, unpacked within limits.

Members are written one after another to a file without a name, so that any of them can be read again at
once, by any thread, and nothing of an archive is ever written under a name that the archive chose. Limits
are checked against what an archive says of itself first, and then against what really comes out of it.
"""

import bz2
import gzip
import io
import lzma
import os
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from tempfile import TemporaryFile
from typing import IO, Protocol
from weakref import finalize

from ingestor import detect
from ingestor.fingerprint import digest
from ingestor.members import Member, is_wanted, named_apart, refusal, within_limits
from ingestor.model import Blob
from ingestor.parsers import message as mail
from ingestor.ports import BadDocument

_HEADER = 2**20  # bytes that tarfile may read at once
_CHUNK = 2**20
_XZ_MEMORY = 2**27
_STEP = 2**16
_TAPES = {"application/x-tar", "application/gzip", "application/x-bzip2", "application/x-xz"}
_ARCHIVE = re.compile(r"\.(zip|tar|tgz|tbz2?|txz|tar\.(gz|bz2|xz))$", re.IGNORECASE)
_MAIL = re.compile(r"\.(eml|mbox)$", re.IGNORECASE)
_DAMAGED = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError,
    NotImplementedError, RuntimeError, OverflowError,
)  # fmt: skip
_FROM = re.compile(rb"^From [^\r\n]*\d\d:\d\d[^\r\n]*\r?\n", re.MULTILINE)
_ESCAPED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)
_MESSAGE_ID = re.compile(rb"^message-id:\s*<?([^>\s]+)", re.MULTILINE | re.IGNORECASE)
_PARTS = re.compile(rb"boundary=", re.IGNORECASE)


class Unpacked:
    """``members`` by name. Closed when nobody holds it any more."""

    def __init__(self, spool: IO[bytes], members: Iterable[Member]) -> None:
        spool.flush()
        self._spool = spool
        finalize(self, spool.close)
        self.members = {member.name: member for member in named_apart(members)}

    def read(self, member: Member) -> bytes:
        """Raises BadDocument when the member has a problem."""
        if member.problem is not None:
            raise BadDocument(member.problem)
        return os.pread(self._spool.fileno(), member.size, member.start)


def may_hold(name: str, archives: bool) -> bool:
    """Whether the name is that of something with documents in it."""
    return bool(_MAIL.search(name) or (archives and _ARCHIVE.search(name)))


def is_document(name: str) -> bool:
    """Whether what holds documents is one itself, as a mail is."""
    return name.lower().endswith(".eml")


def unpack(blob: Blob) -> Unpacked | None:
    """None when there is nothing to unpack, whatever the name says. Raises BadDocument."""
    kind = detect.content_type(blob)
    try:
        if kind == "application/zip":
            return _spooled(_of_zip, blob.data)
        if kind in _TAPES:
            return _of_tar(blob.data, kind)
    except _DAMAGED as error:
        raise BadDocument(f"the archive is damaged ({error}); replace it by a sound one") from error
    if kind == "message/rfc822":
        return _spooled(_of_mail, blob.data)
    return _spooled(_of_mbox, blob.data) if kind == "application/mbox" else None


class _Source(Protocol):
    def __call__(self, data: bytes, spool: IO[bytes]) -> Iterator[Member]: ...


def _spooled(source: _Source, data: bytes) -> Unpacked:
    spool = TemporaryFile()  # noqa: SIM115 - closed with what is returned
    try:
        return Unpacked(spool, list(source(data, spool)))
    except BaseException:
        spool.close()
        raise


def _of_zip(data: bytes, spool: IO[bytes]) -> Iterator[Member]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = [info for info in archive.infolist() if not info.is_dir()]
        within_limits(len(files), sum(info.file_size for info in files), len(data))
        for info in files:
            name = _zip_name(info)
            if not is_wanted(name):
                continue
            problem = _zip_refusal(info)
            try:
                content = b"" if problem else _unzipped(archive, info)
            except _DAMAGED as error:
                content, problem = (
                    b"",
                    f"damaged in its archive ({error}); replace the archive by a sound one",
                )
            yield _member(spool, name, content, _zip_time(info), problem=problem, mark=f"{info.CRC:08x}")


def _of_tar(data: bytes, kind: str) -> Unpacked:
    spool = TemporaryFile()  # noqa: SIM115 - closed with what is returned
    try:
        _decompress(data, kind, spool)
        return Unpacked(spool, list(_tar_members(spool)))
    except BaseException:
        spool.close()
        raise


def _decompress(data: bytes, kind: str, spool: IO[bytes]) -> None:
    total = 0
    for chunk in _chunks(data, kind):
        total += len(chunk)
        within_limits(0, total, len(data))
        spool.write(chunk)


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
    else:
        yield data


def _of_xz(data: bytes) -> Iterator[bytes]:
    """Its header says how much memory unpacking takes, which may be anything."""
    decompressor = lzma.LZMADecompressor(memlimit=_XZ_MEMORY)
    while not decompressor.eof:
        chunk = decompressor.decompress(data, _CHUNK)
        if not chunk and decompressor.needs_input and not data:
            raise EOFError("it is cut off")
        data = b""
        yield chunk


class _Careful:
    """A file that reads no more at once than a sound header needs."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.tell, self.seek = file.tell, file.seek

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _HEADER:
            raise tarfile.ReadError("a header of it is too large")
        return self._file.read(size)


def _tar_members(spool: IO[bytes]) -> Iterator[Member]:
    spool.seek(0)
    count = 0
    with tarfile.open(fileobj=_Careful(spool), mode="r:") as archive:  # type: ignore[call-overload]
        for info in archive:
            count += 1
            within_limits(count, 0, 1)
            if not info.isreg() or info.sparse is not None or not is_wanted(info.name):
                continue
            problem = refusal(info.size)
            content = b"" if problem else os.pread(spool.fileno(), info.size, info.offset_data)
            if len(content) < info.size and not problem:
                raise tarfile.ReadError("it is cut off")
            version = f"{digest(content)}.{info.mtime:.0f}"
            yield Member(info.name, version, info.size, float(info.mtime), None, info.offset_data, problem)


def _of_mail(data: bytes, spool: IO[bytes]) -> Iterator[Member]:
    if not _PARTS.search(data):
        return  # nothing can be attached
    for found in mail.attachments(mail.read(data)):
        kind = found.content_type if found.content_type == "message/rfc822" else None
        name = found.name.replace("/", "_")
        if kind and not name.lower().endswith(".eml"):
            name += ".eml"
        yield _member(spool, name, found.data, None, kind, refusal(len(found.data)))


def _of_mbox(data: bytes, spool: IO[bytes]) -> Iterator[Member]:
    begins = [match.span() for match in _FROM.finditer(data)]
    within_limits(len(begins), len(data), len(data))
    for (_, start), (end, _) in zip(begins, [*begins[1:], (len(data), 0)], strict=True) if begins else ():
        content = _ESCAPED_FROM.sub(rb"\1", data[start:end].rstrip(b"\r\n") + b"\n")
        head = re.split(rb"\r?\n\r?\n", content, maxsplit=1)[0]
        found = _MESSAGE_ID.search(head)
        name = found[1][:200].decode("ascii", "replace").replace("/", "_") if found else digest(content)
        yield _member(spool, f"{name}.eml", content, None, "message/rfc822", refusal(len(content)))


def _member(
    spool: IO[bytes],
    name: str,
    content: bytes,
    modified: float | None,
    content_type: str | None = None,
    problem: str | None = None,
    mark: str = "",
) -> Member:
    start = spool.tell()
    spool.write(content)
    version = f"?{mark}" if problem else digest(content)
    if modified is not None:
        version += f".{modified:.0f}"
    return Member(name, version, len(content), modified, content_type, start, problem)


def _zip_refusal(info: zipfile.ZipInfo) -> str | None:
    if info.flag_bits & 1:
        return "encrypted in its archive; put it there without a password, or beside it"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "compressed in a way that is not read; zip it in the usual way (deflate)"
    return refusal(info.file_size)


def _unzipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """In small steps: one that is larger may inflate to anything before zipfile cuts it to size."""
    with archive.open(info) as stream:
        return b"".join(iter(lambda: stream.read(_STEP), b""))


def _zip_name(info: zipfile.ZipInfo) -> str:
    """Archives that don't say their names are UTF-8 have often written them so."""
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
