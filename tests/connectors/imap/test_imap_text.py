"""What IMAP servers write is understood: names of folders, lists, messages, structures."""

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ingestor.connectors.imap import text
from ingestor.connectors.imap.text import Line, Message


@pytest.mark.parametrize(
    ("raw", "readable"),
    [
        (b"INBOX", "INBOX"),
        (b"inbox", "INBOX"),
        (b"Entw&APw-rfe", "Entwürfe"),
        (b"&ZeVnLIqe-/&U,BTFw-", "日本語/台北"),
        (b"&2D3eAA-", "😀"),
        (b"Q&-A", "Q&A"),
        (b"a&AGI-c", "raw:a&AGI-c"),  # what needs no base64 is in base64
        (b"half &2D0-", "raw:half &2D0-"),  # half a character
        (b"open &AP", "raw:open &AP"),
        (b"a&AAo-b", "raw:a&AAo-b"),  # a line feed
        (b"raw:x", "raw:raw:x"),
        (b"Entw\xfcrfe", r"raw:Entw\xFCrfe"),
        ("Entwürfe".encode(), "raw:Entwürfe"),
    ],
)
def test_names_of_folders_are_decoded_and_encoded(raw: bytes, readable: str) -> None:
    assert text.readable(raw) == readable
    assert text.raw_name(readable) == (b"INBOX" if readable == "INBOX" else raw)


@given(st.binary(min_size=1, max_size=12) | st.text("&-ab,AQ+/ü", min_size=1).map(str.encode))
@example(b"&-&-")
def test_folder_name_is_encoded_and_decoded(raw: bytes) -> None:
    readable = text.readable(raw)
    assert text.raw_name(readable) == (b"INBOX" if raw.upper() == b"INBOX" else raw)
    readable.encode("utf-8")


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_readable_folder_name_is_the_name_that_people_see(name: str) -> None:
    assert text.readable(text.raw_name(name)) in (name, f"raw:{name}", "INBOX")


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        ([b'(\\HasNoChildren) "/" INBOX'], [b"INBOX"]),
        ([b'() NIL "a \\"b\\" \\\\"'], [b'a "b" \\']),
        ([b'() "\\\\" a\\b'], [b"a\\b"]),
        ([(b'() "/" {3}', b"a\nb"), b""], [b"a\nb"]),
        ([b'(\\NoSelect \\HasChildren) "." a', b'(\\nonexistent) "." b', b'() "." a.c'], [b"a.c"]),
        ([None], []),
    ],
)
def test_lists_of_folders_are_parsed(lines: list[Line], names: list[bytes]) -> None:
    assert text.folders(lines) == names


def test_value_in_place_of_a_list_is_an_error() -> None:
    with pytest.raises(ValueError, match="lists a folder in an unknown form"):
        text.folders([b"nonsense"])


JULY = datetime(1996, 7, 17, 9, 44, 25, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'1 (UID 5 RFC822.SIZE 7 INTERNALDATE "17-Jul-1996 02:44:25 -0700" FLAGS ())', Message(5, 7, JULY)),
        (b'2 (RFC822.SIZE 7 FLAGS (\\Seen \\deleted) UID 5 INTERNALDATE "x")', Message(5, 7, None, True)),
        (b"3 (FLAGS (UID 9 RFC822.SIZE 8) UID 5 RFC822.SIZE 7)", Message(5, 7)),
        (b"4 (FLAGS ($Deleted \\Deletedx) UID 5 RFC822.SIZE 7)", Message(5, 7)),
        (b"5 (UID 5 FLAGS (\\Seen))", None),
        (b"6 (FLAGS (\\Seen))", None),
        (None, None),
        ((b"7 (UID 5 BODY[] {1}", b"x"), None),
    ],
)
def test_lists_of_messages_are_parsed(line: Line, message: Message | None) -> None:
    assert list(text.messages([line])) == ([message] if message else [])


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([(b"1 (UID 5 BODY[] {3}", b"abc"), b")"], b"abc"),
        ([(b"1 (BODY[] {3}", b"abc"), b" UID 5)"], b"abc"),
        ([(b"1 (FLAGS () BODY[] {3}", b"abc"), b" UID 6)"], None),
        ([(b"1 (UID 6 BODY[] {3}", b"abc"), b")", (b"2 (UID 5 BODY[] {1}", b"x"), b")"], b"x"),
        ([b"2 (UID 5 FLAGS (\\Seen))", (b"1 (UID 5 BODY[] {0}", b""), b")"], b""),
        ([b'1 (UID 5 BODY[] "")'], b""),
        ([b'1 (UID 5 BODY[] "a \\"b\\"")'], b'a "b"'),
        ([b"1 (UID 5 BODY[] NIL)"], None),
        ([(b"1 (BODY[] {3}", b"abc"), b")", b"2 (UID 5 FLAGS ())"], None),
        ([None], None),
    ],
)
def test_body_is_read_from_its_response(lines: list[Line], found: bytes | None) -> None:
    assert text.body(lines, 5) == found


@pytest.mark.parametrize(
    ("patterns", "taken", "left"),
    [
        (["INBOX"], ["INBOX"], ["INBOX/a", "XINBOX", "inbo"]),
        (["[Gmail]/All Mail"], ["[Gmail]/All Mail"], ["G/All Mail"]),
        (["Archive/*", "Sent*"], ["Archive/a/b", "Sent", "Sent Items"], ["Archive", "Unsent"]),
        (["*"], ["", "a", "a/b"], []),
        ([], [], ["", "a"]),
    ],
)
def test_patterns_select_mailboxes(patterns: list[str], taken: list[str], left: list[str]) -> None:
    chosen = text.matcher(patterns)
    assert [name for name in [*taken, *left] if chosen(name)] == taken


@pytest.mark.parametrize(
    ("given", "address"),
    [
        (("ada", "h", None, "INBOX", 1, 2), "imap://ada@h/INBOX;UIDVALIDITY=1/;UID=2"),
        (("ada@h", "h", 143, "a b/ü;", 1, 2), "imap://ada%40h@h:143/a%20b/%C3%BC%3B;UIDVALIDITY=1/;UID=2"),
        (("ada", "::1", 993, "x", 1, 2), "imap://ada@[::1]:993/x;UIDVALIDITY=1/;UID=2"),
    ],
)
def test_address_is_written_from_its_parts(
    given: tuple[str, str, int | None, str, int, int], address: str
) -> None:
    assert text.address(*given) == address


TEXT = b'("text" "plain" ("charset" "utf-8" "format" "flowed") NIL NIL "7bit" 12 1 NIL NIL NIL NIL)'
HTML = b'("TEXT" "HTML" ("CHARSET" "utf-8") NIL NIL "quoted-printable" 99 3 NIL ("inline" NIL) NIL NIL)'
BOTH = b"(" + TEXT + HTML + b' "alternative" ("boundary" "b") NIL NIL NIL)'


@pytest.mark.parametrize(
    ("structure", "simple"),
    [
        (TEXT, True), (HTML, True), (BOTH, True), (TEXT.replace(b'"plain"', b'"calendar"'), True),
        (TEXT.replace(b'"text"', b'"image"'), False),
        (BOTH.replace(b'"TEXT" "HTML"', b'"application" "pdf"'), False),
        (BOTH.replace(b'"TEXT" "HTML"', b'"message" "rfc822"'), False),
        (TEXT.replace(b'"format" "flowed"', b'"Name" "a.txt"'), False),
        (HTML.replace(b'("inline" NIL)', b'("inline" ("filename" "a.html"))'), False),
        (HTML.replace(b'("inline" NIL)', b'("inline" ("filename*0*" "utf-8\'\'a"))'), False),
        (HTML.replace(b'("inline" NIL)', b'("ATTACHMENT" NIL)'), False),
        (TEXT.replace(b'"text"', b"NIL"), False), (TEXT.replace(b'"text"', b"text"), False),
        (TEXT.replace(b'"utf-8"', b'"\\"utf-8"'), False), (b"NIL", False), (b"()", False),
    ],
)  # fmt: skip
def test_structure_without_attachments_is_recognized(structure: bytes, simple: bool) -> None:
    found = text.without_attachments([b"3 (UID 5 BODYSTRUCTURE " + structure + b")"])
    assert list(found) == ([5] if simple else [])


NOT_UNDERSTOOD: list[list[Line]] = [
    [b"3 (BODYSTRUCTURE " + TEXT + b")"], [b"3 (UID 5)"],
    [b"3 (BODYSTRUCTURE " + TEXT.replace(b"utf-8", b"UID 5") + b")"],
    [(b'3 (UID 5 BODYSTRUCTURE ("text" "plain" ("charset" {3}', b"abc"), b") " + TEXT[30:] + b")"],
    [b") UID 5 BODYSTRUCTURE " + TEXT + b")"], [None],
]  # fmt: skip


@given(st.binary(max_size=60))
def test_structure_of_any_form_is_parsed_without_an_error(data: bytes) -> None:
    list(text.without_attachments([b"3 (UID 5 BODYSTRUCTURE " + data + b")"]))
    assert [lines for lines in NOT_UNDERSTOOD if list(text.without_attachments(lines))] == []
