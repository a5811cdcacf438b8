import gzip
import io
import zipfile
from pathlib import PurePosixPath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ingestor.core.content_types import TEXT_KINDS, code_language, is_text
from ingestor.model import Blob
from ingestor.parsers.shared.detect import content_type, is_binary, parser_kind, with_type
from ingestor.parsers.shared.file_names import file_name, suffix
from ingestor.ports import BadDocument
from ingestor.registry import kinds


def zipped(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            content = "application/epub+zip" if name == "mimetype" else "x" * 5000
            archive.writestr(name, content)
    return file.getvalue()


def ole(*entries: str) -> bytes:
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500) + b"".join(map(utf16, entries))


def utf16(text: str) -> bytes:
    return text.encode("utf-16-le")


def late(method: int, *names: str) -> bytes:
    """An OpenDocument sheet whose member ``mimetype`` comes last."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, "x" * 5000)
        archive.writestr("mimetype", f"{ODF}.spreadsheet", method)
    return file.getvalue()


PDF = b"%PDF-1.4\n1 0 obj\n\0\nendobj\nstartxref\n9\n%%EOF\n"
ODF = "application/vnd.oasis.opendocument"
OFFICE = "application/vnd.openxmlformats-officedocument"


def test_content_type_follows_from_name_bytes_and_declaration() -> None:
    for name, data, declared, expected in [
        ("a.md", b"# x", None, "text/markdown"),
        ("A.MARKDOWN", b"# x", None, "text/markdown"),
        ("a.py", b"x = 1", None, "text/x-python"),
        ("a.rst", b"Title\n=====", None, "text/x-rst"),
        ("a.json", b"{}", None, "application/json"),
        ("Makefile", b"all:", None, "text/x-makefile"),
        ("notes", b"words", None, "text/plain"),
        ("1:2,S", b"Received: by x\n from y\r\nFrom: a@b\r\nDate: now\r\n\r\nText", None, "message/rfc822"),
        ("notes", b"From: here\nto there\n\nDate: now", None, "text/plain"),
        ("a.txt", b".. _a:\n\nTitle\n=====\n", None, "text/x-rst"),
        ("a.txt", b"=====\nTitle\n=====\n\nIt has ``code``.\n", None, "text/x-rst"),
        ("a.txt", b"=======\n Title\n=======\r\n\r\nSee :ref:`this`.\r\n", None, "text/x-rst"),
        ("a.txt", b"Text.\n\nTitle\n~~~~~~~\n\nAs follows::\n\n  code\n", None, "text/x-rst"),
        ("a.txt", "Prüfung\n-------\n\n:class:`A.b`\n".encode(), None, "text/x-rst"),
        ("a.txt", b"Title\n=====\n\nPlain, with `one' and ``two'' quotes.\n", None, "text/plain"),
        ("a.txt", b"A long title\n=====\n\nwith ``code``\n", None, "text/plain"),
        ("a.txt", b"no title\n\nwith ``code`` and :ref:`x`\n", None, "text/plain"),
        ("a.txt", b"two\nlines\n=====\n\nwith ``code``\n", None, "text/plain"),
        ("a.txt", b"-----\n=====\n\nwith ``code``\n", None, "text/plain"),
        ("README", b"Title\n=====\n\nwith ``code``\n", None, "text/plain"),
        ("a.txt", b"Title\n=====\n", None, "text/plain"),
        ("a.unknown", b"words", None, "text/plain"),
        ("empty.md", b"", None, "text/markdown"),
        ("page", b"<!DOCTYPE html><p>", None, "text/html"),
        ("feed", b"\xef\xbb\xbf<?xml version='1.0'?>", None, "application/xml"),
        ("tool", b"#!/usr/bin/env python3\n", None, "text/x-python"),
        ("tool", b"#!/bin/sh\n", None, "text/x-shellscript"),
        # what the source declares beats the name, unless it says nothing or can't be
        ("a.php", b"<p>", "text/html; charset=utf-8", "text/html"),
        ("a.md", b"# x", "text/plain", "text/markdown"),
        ("a.md", b"# x", "application/octet-stream", "text/markdown"),
        ("a", b"{}", "application/vnd.api+json", "application/vnd.api+json"),
        ("a.txt", b"words", "application/pdf", "text/plain"),
        # what the bytes are beats both
        ("a.txt", b"%PDF-1.7\n", "text/plain", "application/pdf"),
        ("a.txt", b"{\\rtf1 x}", None, "application/rtf"),
        ("a.md", gzip.compress(b"x", mtime=0), None, "application/gzip"),
        ("a", b"\x7fELF\x02\x01\x01\x00", None, "application/x-executable"),
        ("a.txt", b"\x89PNG\r\n\x1a\n\x00", None, "image/png"),
        ("a", b"\xff\xd8\xff\xe0", None, "image/jpeg"),
        ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\x00", None, "application/x-ole-storage"),
        ("a.docx", ole("EncryptionInfo", "EncryptedPackage"), None, "application/x-ole-encrypted"),
        ("a", ole("WordDocument"), None, "application/msword"),
        ("a", ole("Book"), None, "application/vnd.ms-excel"),
        ("a", ole("__substg1.0_001A"), None, "application/vnd.ms-outlook"),
        ("a.zip", zipped("xl/workbook.xml"), None, f"{OFFICE}.spreadsheetml.sheet"),
        ("a.docx", zipped("a.txt"), None, f"{OFFICE}.wordprocessingml.document"),
        ("a.xlsb", zipped("xl/workbook.bin"), None, "application/vnd.ms-excel.sheet.binary.macroenabled.12"),
        ("a", b"GIF89a\x01\x00\x01\x00", None, "image/gif"),
        ("a.txt", b"GIF89a is a picture format", None, "text/plain"),
        ("a.txt", b"words\x00\x00words", None, "application/octet-stream"),
        ("a.zip", zipped("readme.txt"), None, "application/zip"),
        ("a.zip", zipped(), None, "application/zip"),
        ("a", zipped("mimetype", "OEBPS/a.xhtml"), None, "application/epub+zip"),
        (
            "a.zip", zipped("[Content_Types].xml", "word/document.xml"), None,
            f"{OFFICE}.wordprocessingml.document",
        ),
        # what stands elsewhere than in the first bytes
        ("a.pdf", bytes(128) + PDF, None, "application/pdf"),
        ("a.txt", b"HTTP/1.1 200 OK\r\n\r\n" + PDF, None, "application/pdf"),
        ("a.txt", b"a PDF begins with %PDF-1.7", None, "text/plain"),
        ("a.bin", bytes(1025) + PDF, None, "application/octet-stream"),
        ("a", late(zipfile.ZIP_STORED, "content.xml", "META-INF/manifest.xml"), None, f"{ODF}.spreadsheet"),
        ("a", late(zipfile.ZIP_DEFLATED, "content.xml", "META-INF/manifest.xml"), None, f"{ODF}.spreadsheet"),
        ("a", zipped("content.xml", "META-INF/manifest.xml"), None, f"{ODF}.text"),
        ("a", zipped("META-INF/container.xml"), None, "application/epub+zip"),
        ("a.zip", zipped("book/META-INF/container.xml", "b/word/document.xml"), None, "application/zip"),
        ("a.zip", late(zipfile.ZIP_STORED, "readme.txt"), None, "application/zip"),
        # UTF-16 is full of NUL bytes and text all the same
        ("a.txt", "\ufeffwords".encode("utf-16-le"), None, "text/plain"),
        ("a.txt", "many words".encode("utf-16-le"), None, "text/plain"),
    ]:  # fmt: skip
        assert content_type(Blob(data, name, declared)) == expected


def test_content_type_selects_the_parser() -> None:
    for type_, kind in [
        ("text/markdown", "markdown"), ("text/plain", "text"), ("text/html", "html"),
        ("text/x-anything", "text"), ("application/json", "json"), ("application/pdf", "pdf"),
        ("application/epub+zip", "epub"), (f"{OFFICE}.wordprocessingml.document", "docx"),
        ("application/vnd.oasis.opendocument.spreadsheet-template", "odf"), ("application/atom+xml", "xml"),
    ]:  # fmt: skip
        assert parser_kind(type_) == kind


def test_unsupported_format_is_named_with_advice() -> None:
    for type_, look in [
        ("application/x-ole-encrypted", "an Office document that is encrypted: save it without a password"),
        ("image/svg+xml", "an image"),
        ("video/mp4", "a video"),
        ("application/wasm", "a binary file or archive"),
        ("application/octet-stream", "binary data of no known format"),
    ]:
        with pytest.raises(BadDocument, match=f"looks like {look} .*exclude it, or convert it"):
            parser_kind(type_)


def test_content_type_names_the_language() -> None:
    for type_, language in [
        ("text/x-python", "python"), ("text/x-c++", "c++"), ("text/javascript", "javascript"),
        ("application/yaml", "yaml"), ("application/x-ipynb+json", None), ("text/x-rst", None),
        ("text/plain", None), ("application/pdf", None),
    ]:  # fmt: skip
        assert code_language(type_) == language


@pytest.mark.parametrize("content_type", ["application/zip", "application/gzip", "application/x-tar"])
def test_archive_without_the_option_names_the_option(content_type: str) -> None:
    with pytest.raises(BadDocument, match=r"an archive .* `archives: true`"):
        parser_kind(content_type)


@given(st.binary(max_size=300), st.text(max_size=20), st.none() | st.text(max_size=20))
def test_any_blob_has_a_type_that_is_read_or_refused(data: bytes, name: str, declared: str | None) -> None:
    kind = content_type(Blob(data, name, declared))
    try:
        read_by = parser_kind(kind)
    except BadDocument:
        read_by = None
    assert read_by or not is_text(kind)


def test_few_nul_bytes_among_text_are_damage() -> None:
    for data, expected in [
        (b"# Fees\n\nA text\0 with one NUL byte.\n", "text/markdown"),
        ("Größe\0 und Maß".encode("cp1252"), "text/markdown"),
        (b"a line of a log\n" * 100 + b"\0" * 15, "text/markdown"),
        (b"a line of a log\n" + b"\0" * 15, "application/octet-stream"),
        (b"\x00\x01\x02 and some words of text", "application/octet-stream"),
    ]:
        assert content_type(Blob(data, "a.md", None)) == expected


TYPES = (
    ("docs/*.txt", "text/x-rst"), ("*.TXT", "text/plain"), ("*.inc", "text/x-php"), ("notes*", "text/org"),
)  # fmt: skip


def test_config_sets_the_type_of_text_by_name() -> None:
    for key, data, expected in [
        ("docs/a.txt", b"plain", "text/x-rst"), ("docs/deeper/a.txt", b"plain", "text/x-rst"),
        ("other/a.txt", b"plain", "text/plain"), ("docs/a.TXT", b".. _a:\n\nTitle\n=====\n", "text/plain"),
        ("b.zip/!/c/notes.md", b"plain", "text/org"), ("lib/a.inc", b"<html>", "text/x-php"),
        ("notes.pdf", b"%PDF-1.7", "application/pdf"), ("notes", b"a\0b", "application/octet-stream"),
    ]:  # fmt: skip
        name = key.rpartition("/")[2]
        assert content_type(with_type(Blob(data, name, None), key, TYPES)) == expected


def test_binary_parsers_do_not_depend_on_names() -> None:
    assert [kind for kind in kinds("parsers") if is_binary(kind)] == [
        "docx", "epub", "odf", "office97", "pdf", "pptx", "rtf", "xlsx",
    ]  # fmt: skip


def test_every_parser_of_text_can_be_named() -> None:
    for kind, type_ in TEXT_KINDS.items():
        assert parser_kind(type_) == kind
    assert {kind for kind in kinds("parsers") if not is_binary(kind)} - TEXT_KINDS.keys() == {
        "code", "image", "mail",
    }  # fmt: skip


@given(st.text(alphabet="/.aé", max_size=12))
@example("https://x/y/")
@example("a/.hidden")
@example("a/b.")
@example("a/..")
def test_names_and_suffixes_are_those_of_pathlib(key: str) -> None:
    assert file_name(key) == PurePosixPath(key).name
    assert suffix(file_name(key)) == PurePosixPath(key).suffix
