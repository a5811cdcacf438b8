"""Documents that mean harm, or came to harm; each with the reason for which it must be quarantined.

``python -m tests.hostile FOLDER`` writes them, to try them out by hand.
"""

import bz2
import io
import random
import sys
import tarfile
import zipfile
from pathlib import Path

from tests.parsers.files import docx, epub, odf, paragraph, pdf, zipped

GARBAGE = random.Random(1).randbytes(50_000)
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
BODY = [[(50, 700, 12, "Some text that is long enough to be a paragraph")]] * 3
# Python's reader of mails takes time with the square of this header's length.
SLOW_MAIL = (
    b'From: a@b.c\nSubject: x\nContent-Type: multipart/mixed; boundary="' + b";" * 10**6 + b"\n\nBody\n"
)
LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>'
SPY = '<!DOCTYPE x [<!ENTITY b SYSTEM "file:///etc/passwd">]>'
MANY = (
    '<table:table><table:table-row table:number-rows-repeated="900"><table:table-cell '
    'table:number-columns-repeated="900"><text:p>word</text:p></table:table-cell></table:table-row></table:table>'
)
LOCKED = {
    "META-INF/encryption.xml": '<e xmlns:n="http://www.w3.org/2001/04/xmlenc#">'
    '<n:CipherReference URI="OEBPS/a.xhtml"/></e>'
}
LOCK = b"/Encrypt<</Filter/Standard/V 1/R 2/P -1/O(%b)/U(%b)>>/ID[(a)(b)]/Info" % (b"x" * 32, b"y" * 32)


def documents() -> dict[str, tuple[bytes, str]]:
    """File name to content and a pattern of the reason."""
    sound = docx(paragraph("sound"))
    return {
        "bomb.docx": (docx("", styles="<w:x>" + " " * 60_000_000 + "</w:x>"), r"a part of 60,.* too large"),
        "crowd.docx": (_crowd(50_001), r"unpacks to .* parts, so it is probably a decompression bomb"),
        "deep.docx": (docx("<w:sdt>" * 10_000 + "</w:sdt>" * 10_000), "nested too deeply"),
        "laughs.docx": (_declaring(LAUGHS), "declares entities"),
        "spy.docx": (_declaring(SPY), "declares entities"),
        "cut.docx": (sound[: len(sound) // 2], "is damaged or cut off"),
        "flipped.docx": (_flipped(sound), "is damaged"),
        "no-part.docx": (zipped({"word/document2.xml": "<x/>"}), "its part .* is missing"),
        "encrypted.docx": (OLE + "EncryptedPackage".encode("utf-16-le"), "encrypted: save it without"),
        "old.doc": (OLE + "WordDocument".encode("utf-16-le"), "is damaged or cut off"),
        "encrypted.odt": (
            zipped({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": GARBAGE,
                    "META-INF/manifest.xml": "<m><encryption-data/></m>"}), "is encrypted",
        ),
        "many.ods": (odf("spreadsheet", MANY), r"results in at least [\d,]+ chunks for only [\d,]+ bytes"),
        "deep.ods": (odf("spreadsheet", "<table:table>" * 10_000 + "</table:table>" * 10_000), "too deeply"),
        "locked.epub": (epub({"a.xhtml": "<p>x</p>"}, ["a.xhtml"], LOCKED), "digital rights"),
        "encrypted.pdf": (pdf(BODY).replace(b"/Info", LOCK), "is encrypted; save it without a password"),
        "garbage.pdf": (b"%PDF-1.7\n" + GARBAGE, "damaged or cut-off PDF"),
        "cut.pdf": (pdf(BODY)[:200], "damaged or cut-off PDF"),
        "garbage.docx": (GARBAGE, "binary data of no known format"),
        "picture.pdf": (b"\x89PNG\r\n\x1a\n" + GARBAGE, "looks like an image"),
        "slow.eml": (SLOW_MAIL, "took more than 1 s"),
        "nested.zip": (_nested(), "too much for|took more than"),
        "program.txt": (b"\x7fELF\x02\x01\x01" + GARBAGE, "a program or library"),
    }  # fmt: skip


def misbehaving() -> dict[str, tuple[bytes, str]]:
    """For tests.bad_parser in place of the reader of RTF; limits of 2 seconds and 500 MB."""
    return {
        "hang.rtf": (rb"{\rtf1 hang", "took more than 4 s"),
        "eat.rtf": (rb"{\rtf1 eat", "needed more than 0.5 GB of memory"),
        "crash.rtf": (rb"{\rtf1 segfault", r"crashed \(SIGSEGV\)"),
        "abort.rtf": (rb"{\rtf1 abort", r"crashed \(SIGABRT\)"),
        "recurse.rtf": (rb"{\rtf1 recurse", "nested too deeply"),
    }


def _crowd(entries: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for at in range(entries):
            archive.writestr(f"{at}", "")
        archive.writestr("word/document.xml", "<x/>")
    return file.getvalue()


def _nested() -> bytes:
    """Each part by itself is within all limits, and so is what they are packed in."""
    tape = tarfile.TarInfo("zeros.txt")
    tape.size = 30_000_000
    part = bz2.compress(tape.tobuf() + bytes(30_000_000 + 1024))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for at in range(4):
            archive.writestr(f"{at}.tar.bz2", part)
    return file.getvalue()


def _declaring(declaration: str) -> bytes:
    return zipped({"word/document.xml": f"{declaration}<x>&b;</x>"})


def _flipped(data: bytes) -> bytes:
    """With a wrong byte inside of the compressed main part."""
    at = data.index(b"word/document.xml") + 40
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


if __name__ == "__main__":
    for name, (content, _) in documents().items():
        Path(sys.argv[1], name).write_bytes(content)
