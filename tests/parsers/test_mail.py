from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Blob, Document
from ingestor.parsers.mail.message import attachments, read
from ingestor.parsers.mail.parser import PLUGIN
from ingestor.ports import BadDocument
from ingestor.registry import Options
from tests.parsers.laws import obeys_laws, texts

PARSER = PLUGIN.build(Options())


def parse(data: bytes) -> Document:
    document = obeys_laws(PARSER, Blob(data, "a.eml"))
    assert document is not None
    return document


def kinds(document: Document) -> list[tuple[str, str]]:
    return [(b.kind, t) for b, t in zip(document.blocks, texts(document), strict=True)]


@pytest.mark.parametrize(
    ("written", "subject"),
    [
        ("=?gb2312?B?1tDO?= =?gb2312?B?xOZn?=", "中文鎔"),
        ("=?utf-8?q?Gr=C3?= =?utf-8?q?=BC=C3=9Fe?=", "Grüße"),
        ("a =?utf-8?q?=C3=BC?= b =?koi8-r?b?5Q==?= c", "a ü b Е c"),
        ("Grüße", "Grüße"),
        ("=?utf-8?b?A?=", "=?utf-8?b?A?="),
        ("=?utf-8?q?=ff?=", "\ufffd"),
    ],
)
def test_subject_is_decoded(written: str, subject: str) -> None:
    assert parse(f"Subject: {written}\n\nx".encode()).title == subject


def made(**parts: str) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = "S"
    for subtype, text in parts.items():
        (message.add_alternative if message.get_payload() else message.set_content)(text, subtype=subtype)
    return message


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (made(plain="text", html="<p>page"), [("paragraph", "text")]),
        (
            made(html="<h1>A</h1><p>page<nav>all"),
            [("heading", "A"), ("paragraph", "page"), ("paragraph", "all")],
        ),
        (made(plain=" \n", html="<p>page"), [("paragraph", "page")]),
        (made(), []),
    ],
)
def test_body_is_the_best_alternative(message: EmailMessage, expected: list[tuple[str, str]]) -> None:
    assert kinds(parse(message.as_bytes()))[1:] == expected


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        ("iso-2022-jp", "日本語"),
        ("koi8-r", "Съешь"),
        ("gb2312", "中文"),
        ("utf-8", "Größe"),
        ("us-ascii", "plain"),
    ],
)
def test_body_in_each_character_set_is_decoded(charset: str, text: str) -> None:
    head = f"Subject: S\nContent-Type: text/plain; charset={charset}\n\n".encode()
    assert parse(head + text.encode(charset)).text == f"S\n\n{text}"


def test_wrong_character_set_is_not_believed() -> None:
    head = b"Subject: S\nContent-Type: text/plain; charset=us-ascii\n\n"
    assert parse(head + "Größe".encode()).text == "S\n\nGröße"
    assert parse(head.replace(b"us-ascii", b"no-such") + "Größe".encode()).text == "S\n\nGröße"


def test_attachments_are_separated_from_the_text() -> None:
    message = made(plain="text", html='<img src="cid:1">')
    message.add_attachment(b"%PDF-", maintype="application", subtype="pdf", filename="größe.pdf")
    message.add_attachment("notes", filename="notes.txt")
    message.add_attachment(made(plain="forwarded"))
    message.add_attachment(b"sig", maintype="application", subtype="pgp-signature", filename="s.asc")
    message.add_attachment(b"GIF8", maintype="image", subtype="gif", cid="1", disposition="inline")
    message.add_attachment(b"GIF8", maintype="image", subtype="gif", cid="2", filename="image001.gif")
    found = {a.name: (a.data, a.content_type) for a in attachments(read(message.as_bytes()))}
    assert found.keys() == {"größe.pdf", "notes.txt", "attachment-3.eml"}
    assert found["größe.pdf"] == (b"%PDF-", "application/pdf")
    assert found["notes.txt"][0] == b"notes\n"
    assert parse(found["attachment-3.eml"][0]).text == "S\n\nforwarded"
    assert parse(message.as_bytes()).text == "S\n\ntext"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no header at all",
        b"Subject: " + b"a" * 500_000,
        b"Subject: =?utf-8?b?" + b"A" * 100_001 + b"?=\n\nx",
        b"Subject: =?no-such?q?x?= =?utf-8?b?!!?=\nDate: never\nFrom: <<<>>>\nTo: ((((\n\nx",
        b"From: " + b"(" * 20_000 + b"\n\nx",
        b"To: " + b"a@b, " * 20_000 + b"\n\nx",
        b"Content-Type: text/plain; charset=\xff\n\nx",
        b"Content-Type: text/plain\nContent-Transfer-Encoding: base64\n\n!!!",
        b"Content-Type: multipart/mixed\n\nno boundary",
        b"Content-Type: multipart/mixed; boundary=x\n\n--x\n\n--x\n",
        b"Subject: S\n\n" + b">" * 500_000,
        b"Subject: S\n\n" + b"> x\n" * 50_000,
    ],
    ids=range(13),
)
def test_odd_mails_are_read(data: bytes) -> None:
    parse(data)


@pytest.mark.parametrize(
    "data",
    [
        b"".join(b"Content-Type: multipart/mixed; boundary=%d\n\n--%d\n" % (i, i) for i in range(5000)),
        b"Content-Type: message/rfc822\n\n" * 5000,
    ],
    ids=range(2),
)
def test_deep_nesting_is_refused(data: bytes) -> None:
    with pytest.raises(BadDocument, match="nested"):
        PARSER.parse(Blob(data, "a.eml"))


HEADERS = [
    "Subject: a",
    "From: x <y@z>",
    "Content-Type: multipart/mixed; boundary=b",
    "--b",
    "--b--",
    "",
    "> q",
]
HEADERS += [
    "Content-Type: text/html",
    "Content-Type: message/rfc822",
    "Content-Transfer-Encoding: base64",
    "<p>x",
]
HEADERS += ["Content-Disposition: attachment; filename=a", "Date: 1", " folded", "=?utf-8?q?=ff?=", "\udcff"]


@given(st.lists(st.sampled_from(HEADERS), max_size=30))
def test_laws_hold_for_any_lines(lines: list[str]) -> None:
    data = "\n".join(lines).encode("utf-8", "surrogateescape")
    obeys_laws(PARSER, Blob(data, "a.eml"), sound=False)
    list(attachments(read(data)))


@given(st.binary(max_size=200))
def test_laws_hold_for_any_bytes(data: bytes) -> None:
    obeys_laws(PARSER, Blob(data, "a.eml"), sound=False)
