"""Mails whose headers, parts and encodings take long, go deep, or lie."""

import base64

from tests.corpus.case import Case, Make, files
from tests.hostile import SLOW_MAIL
from tests.pipeline.packed import mailed, zipped

_HEAD = b"From: a@b.c\nDate: Mon, 1 Jan 2024 00:00:00 +0000\nSubject: s\nMIME-Version: 1.0\n"


def _mail(head: bytes, body: bytes = b"Body\n") -> bytes:
    return _HEAD + head + b"\n\n" + body


def _deep(depth: int) -> bytes:
    parts = b"".join(
        b'--%d\nContent-Type: multipart/mixed; boundary="%d"\n\n' % (n, n + 1) for n in range(depth)
    )
    return _mail(b'Content-Type: multipart/mixed; boundary="0"', parts + b"--%d\n\ntext\n" % depth)


def _forwarded(depth: int) -> bytes:
    return _mail(
        b"Content-Type: message/rfc822", (_HEAD + b"Content-Type: message/rfc822\n\n") * depth + b"\ntext"
    )


def _parts(count: int, part: bytes) -> bytes:
    return _mail(
        b'Content-Type: multipart/mixed; boundary="x"', (b"--x\n" + part + b"\n") * count + b"--x--\n"
    )


def _encoded(how: bytes, body: bytes, kind: bytes = b"text/plain; charset=utf-8") -> bytes:
    return _mail(b"Content-Type: " + kind + b"\nContent-Transfer-Encoding: " + how, body)


def _bomb() -> bytes:
    return base64.encodebytes(zipped({f"{n}.txt": "0" * 20_000_000 for n in range(6)}))


_MADE: dict[str, Make] = {
    "!semicolons.eml": lambda: SLOW_MAIL,
    "file-name.eml": lambda: _mail(b'Content-Disposition: attachment; filename="' + b";" * 1_000_000),
    "parameters.eml": lambda: _mail(b"Content-Type: text/plain" + b"; a=b" * 200_000),
    "pieces.eml": lambda: _mail(
        b"Content-Disposition: attachment" + b"".join(b"; filename*%d=a" % n for n in range(50_000))
    ),
    "quotes.eml": lambda: _mail(b'Content-Type: text/plain; charset="' + b'\\"' * 500_000 + b'"'),
    "comments.eml": lambda: b"From: " + b"(" * 500_000 + b"\nSubject: s\n\nBody\n",
    "groups.eml": lambda: _mail(b"To: " + b"a:" * 300_000),
    "addresses.eml": lambda: _mail(b"To: " + b'"a" <a@b.c>, ' * 300_000),
    "words.eml": lambda: _mail(b"Subject: " + b"=?utf-8?b?w6Q=?= " * 100_000),
    "broken-words.eml": lambda: _mail(b"Subject: " + b"=?" * 1_000_000),
    "headers.eml": lambda: _mail(b"X-A: b\n" * 1_000_000 + b"X-B: c"),
    "long-header.eml": lambda: _mail(b"X-A: " + b"a" * 20_000_000),
    "folded.eml": lambda: _mail(b"X-A: a" + b"\n b" * 1_000_000),
    "received.eml": lambda: _mail(
        b"Received: from a by b; Mon, 99 Foo 99999 99:99:99 +9999\n" * 50_000 + b"X: y"
    ),
    "dates.eml": lambda: _mail(b"Date: Mon, 1 Jan 999999999999999999999 00:00:00 +999999999\nDate: \xff\xfe"),
    "!deep.eml": lambda: _deep(5000),
    "!forwarded.eml": lambda: _forwarded(2000),
    "!crowd.eml": lambda: _parts(60_000, b"Content-Disposition: attachment; filename=a.txt\n\na"),
    "crowd-inline.eml": lambda: _parts(60_000, b"Content-Type: text/plain\n\na"),
    "unended.eml": lambda: _mail(b'Content-Type: multipart/mixed; boundary="x"', b"--x\n" * 500_000),
    "no-boundary.eml": lambda: _mail(b"Content-Type: multipart/mixed", b"--\n" * 500_000),
    "long-boundary.eml": lambda: _mail(
        b'Content-Type: multipart/mixed; boundary="' + b"x" * 1_000_000 + b'"', (b"--" + b"x" * 999) * 9999
    ),
    "charset.eml": lambda: _encoded(b"8bit", b"\xff\xfe\x80 text", b"text/plain; charset=unheard-of\x00"),
    "codec.eml": lambda: _encoded(b"8bit", b"text", b"text/plain; charset=zlib_codec"),
    "idna.eml": lambda: _encoded(b"8bit", b"a" * 2_000_000, b"text/plain; charset=idna"),
    "punycode.eml": lambda: _encoded(
        b"8bit", b"a" * 200_000 + b"-" + b"b" * 200_000, b"text/plain; charset=punycode"
    ),
    "base64.eml": lambda: _encoded(b"base64", b"=!?" * 3_000_000),
    "quoted.eml": lambda: _encoded(b"quoted-printable", b"=\n" * 2_000_000 + b"=" * 2_000_000),
    "uuencoded.eml": lambda: _encoded(b"x-uuencode", b"begin 666 /etc/passwd\n" * 100_000),
    "!html.eml": lambda: _encoded(b"8bit", b"<div>" * 300_000, b"text/html"),
    "!bomb.eml": lambda: _parts(
        1,
        b"Content-Type: application/zip\nContent-Disposition: attachment; filename=a.zip\n"
        b"Content-Transfer-Encoding: base64\n\n" + _bomb(),
    ),
    "names.eml": lambda: mailed({"../../up.txt": "a", "/etc/passwd": "b", "a\u202eb.txt": "c", "!": "d"}),
    "!controls.eml": lambda: _mail(b"Subject: \x1b[31mred\x07\x00\xe2\x80\xae\nX-\x00: \x01"),
    "only-head.eml": lambda: b"From: a@b.c\nSubject: no body",
    "from-lines.mbox": lambda: b"From a@b Tue Jan  2 03:04:05 2024\n" * 200_000,
    "escaped.mbox": lambda: (
        b"From a@b Tue Jan  2 03:04:05 2024\nSubject: s\n\n" + b">" * 5_000_000 + b"From x\n"
    ),
    "ids.mbox": lambda: (
        (b"From a@b Tue Jan  2 03:04:05 2024\nMessage-ID: <" + b"../" * 50_000 + b">\n\nb\n\n") * 9
    ),
}


def cases() -> list[Case]:
    return files(_MADE)
