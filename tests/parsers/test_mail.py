from email.message import EmailMessage

import pytest

from ingestor.model import Document
from ingestor.parsers.mail.message import attachments
from ingestor.parsers.mail.message import read as parts_of
from tests.parsers.laws import kinds, read


def parse(data: bytes) -> Document:
    return read(data, "a.eml")


def test_subject_is_decoded() -> None:
    for written, subject in [
        ("=?gb2312?B?1tDO?= =?gb2312?B?xOZn?=", "中文鎔"),
        ("=?utf-8?q?Gr=C3?= =?utf-8?q?=BC=C3=9Fe?=", "Grüße"),
        ("a =?utf-8?q?=C3=BC?= b =?koi8-r?b?5Q==?= c", "a ü b Е c"), ("Grüße", "Grüße"),
        ("=?utf-8?b?A?=", "=?utf-8?b?A?="), ("=?utf-8?q?=ff?=", "\ufffd"),
    ]:  # fmt: skip
        assert parse(f"Subject: {written}\n\nx".encode()).title == subject


def made(**parts: str) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = "S"
    for subtype, text in parts.items():
        (message.add_alternative if message.get_payload() else message.set_content)(text, subtype=subtype)
    return message


def test_body_is_the_best_alternative() -> None:
    for message, expected in [
        (made(plain="text", html="<p>page"), [("paragraph", "text")]),
        (
            made(html="<h1>A</h1><p>page<nav>all"),
            [("heading", "A"), ("paragraph", "page"), ("paragraph", "all")],
        ),
        (made(plain=" \n", html="<p>page"), [("paragraph", "page")]),
        (made(), []),
        (made(plain="text", calendar="BEGIN:VCALENDAR\nSUMMARY:An invitation"), [("paragraph", "text")]),
        (made(calendar="SUMMARY:Call"), [("paragraph", "SUMMARY:Call")]),
    ]:
        assert kinds(parse(message.as_bytes()))[1:] == expected


def test_character_set_with_a_null_is_ignored() -> None:
    head = b"Subject: S\nContent-Transfer-Encoding: 8bit\nContent-Type: text/plain; charset=none\0\n\n"
    assert parse(head + "Gebühr".encode()).text == "S\n\nGebühr"


@pytest.mark.parametrize(
    ("declared", "charset", "text"),
    [
        *((charset, charset, text) for charset, text in (
            ("iso-2022-jp", "日本語"), ("koi8-r", "Съешь"), ("gb2312", "中文"), ("utf-8", "Größe"),
            ("us-ascii", "plain"))),
        *((wrong, "utf-8", "Größe") for wrong in ("us-ascii", "no-such")),
    ],
)  # fmt: skip
def test_body_is_decoded_and_a_wrong_character_set_ignored(declared: str, charset: str, text: str) -> None:
    head = f"Subject: S\nContent-Type: text/plain; charset={declared}\n\n".encode()
    assert parse(head + text.encode(charset)).text == f"S\n\n{text}"
    assert parse(head.replace(declared.encode(), b"\xff") + b"x").text == "S\n\nx"


def test_message_without_its_parts_is_plain_text() -> None:
    assert parse(b"Subject: S\nContent-Type: multipart/mixed\n\ntext\n").text == "S\n\ntext"


def test_attachments_are_separated_from_the_text() -> None:
    message = made(plain="text", html='<img src="cid:1">')
    message.add_attachment(b"%PDF-", maintype="application", subtype="pdf", filename="größe.pdf")
    message.add_attachment("notes", filename="notes.txt")
    message.add_attachment(made(plain="forwarded"))
    message.add_attachment(b"sig", maintype="application", subtype="pgp-signature", filename="s.asc")
    message.add_attachment(b"GIF8", maintype="image", subtype="gif", cid="1", disposition="inline")
    message.add_attachment(b"GIF8", maintype="image", subtype="gif", cid="2", filename="image001.gif")
    found = {a.name: (a.data, a.content_type) for a in attachments(parts_of(message.as_bytes()))}
    assert found.keys() == {"größe.pdf", "notes.txt", "attachment-3.eml"}
    assert found["größe.pdf"] == (b"%PDF-", "application/pdf")
    assert found["notes.txt"][0] == b"notes\n"
    assert parse(found["attachment-3.eml"][0]).text == "S\n\nforwarded"
    assert parse(message.as_bytes()).text == "S\n\ntext"
