"""Without a mail server: what servers write is understood, and one that speaks by a script misbehaves."""

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from ingestor.connectors.imap import session, sessions, text
from ingestor.connectors.imap.connector import Imap, ImapOptions
from ingestor.connectors.imap.text import Line, Message
from ingestor.model import Item
from ingestor.ports import BadDocument, NeedsHuman, PartialScan, Stale, Transient
from tests.connectors.imap_script import PASSWORD, SCRIPT, Scripted, scripted
from tests.connectors.laws import listed

MAIL = b"x: y\r\n\r\nz"
KEY = "INBOX/17/7.eml"
PLAIN = {"host": "imap.example.org", "username": "ada@example.org", "password": PASSWORD}


# --- what servers write ---------------------------------------------------------------------------------


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
def test_the_names_of_folders(raw: bytes, readable: str) -> None:
    assert text.readable(raw) == readable
    assert text.raw_name(readable) == (b"INBOX" if readable == "INBOX" else raw)


@given(st.binary(min_size=1, max_size=12) | st.text("&-ab,AQ+/ü", min_size=1).map(str.encode))
@example(b"&-&-")
def test_every_name_leads_back_to_its_folder(raw: bytes) -> None:
    readable = text.readable(raw)
    assert text.raw_name(readable) == (b"INBOX" if raw.upper() == b"INBOX" else raw)
    readable.encode("utf-8")


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_what_people_call_a_folder_is_what_it_is_called_here(name: str) -> None:
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
def test_lists_of_folders(lines: list[Line], names: list[bytes]) -> None:
    assert text.folders(lines) == names


def test_a_list_that_is_none_is_not_passed_over() -> None:
    with pytest.raises(ValueError, match="not the name of a folder"):
        text.folders([b"nonsense"])


JULY = datetime(1996, 7, 17, 9, 44, 25, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            b'1 (UID 5 RFC822.SIZE 7 INTERNALDATE "17-Jul-1996 02:44:25 -0700" FLAGS ())',
            Message(5, 7, JULY),
        ),
        (b'2 (RFC822.SIZE 7 FLAGS (\\Seen \\deleted) UID 5 INTERNALDATE "x")', Message(5, 7, None, True)),
        (b"3 (FLAGS (UID 9 RFC822.SIZE 8) UID 5 RFC822.SIZE 7)", Message(5, 7)),
        (b"4 (FLAGS ($Deleted \\Deletedx) UID 5 RFC822.SIZE 7)", Message(5, 7)),
        (b"5 (UID 5 FLAGS (\\Seen))", None),
        (b"6 (FLAGS (\\Seen))", None),
        (None, None),
        ((b"7 (UID 5 BODY[] {1}", b"x"), None),
    ],
)
def test_lists_of_messages(line: Line, message: Message | None) -> None:
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
def test_bodies(lines: list[Line], found: bytes | None) -> None:
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
def test_patterns(patterns: list[str], taken: list[str], left: list[str]) -> None:
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
def test_addresses(given: tuple[str, str, int | None, str, int, int], address: str) -> None:
    assert text.address(*given) == address


# --- options --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("since", "earliest"),
    [
        ("2026-01-31", date(2026, 1, 31)),
        (date(2026, 1, 31), date(2026, 1, 31)),
        ("30d", 2_592_000.0),
        (86_400, 86_400.0),
        (None, None),
    ],
)
def test_since_is_a_day_or_a_duration(since: object, earliest: object) -> None:
    assert ImapOptions.model_validate({**PLAIN, "since": since}).since == earliest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"host": "imap://h"}, "must be the name of a host"),
        ({"username": "a\nb"}, "without control characters"),
        ({"folders": []}, "at least 1"),
        ({"folders": [""]}, "must not be empty"),
        ({"since": "yesterday"}, "a day such as"),
        ({"since": "2026-13-01"}, "a day such as"),
        ({"tls": "maybe"}, "starttls"),
        ({"port": 0}, "greater than or equal to 1"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ImapOptions.model_validate({**PLAIN, **options})


# --- a server that speaks by a script -------------------------------------------------------------------


def test_what_is_listed_and_asked() -> None:
    with scripted() as server:
        connector = server.connector(folders=["inbox"])
        items = listed(connector)
        assert [(item.key, item.version, item.size) for item in items.values()] == [
            ("INBOX/17/4.eml", "17/4", 5),
            (KEY, "17/7", 9),
        ]
        assert items[KEY].uri == f"imap://ada@127.0.0.1:{server.port}/INBOX;UIDVALIDITY=17/;UID=7"
        assert items[KEY].extra == (("folder", "INBOX"),)
        assert items[KEY].modified == datetime(2026, 1, 2, tzinfo=UTC).timestamp()
        blob = connector.fetch(items[KEY])
        assert (blob.data, blob.name, blob.content_type) == (MAIL, "7.eml", "message/rfc822")
        assert [command for command in server.heard if command != "CAPABILITY"] == [
            "AUTHENTICATE PLAIN",
            'LIST "" *',
            'EXAMINE "INBOX"',
            "UID FETCH 1:* (UID RFC822.SIZE INTERNALDATE FLAGS)",
            "UID FETCH 7 (UID BODY.PEEK[])",
        ]


def test_what_came_in_before_is_left_out() -> None:
    with scripted() as server:
        assert listed(server.connector(since="2026-01-02")).keys() == {KEY}
        assert listed(server.connector(since="3650d")).keys() == {"INBOX/17/4.eml", KEY}


def _said_in_all(work: Callable[[Imap], object]) -> int:
    with scripted() as server:
        work(server.connector(folders=["*"]))
        return server.said


def test_a_listing_that_is_cut_off_anywhere_is_none() -> None:
    whole = _said_in_all(listed)
    for cut in range(whole):
        with scripted(cut=cut) as server, pytest.raises(Transient) as raised:
            listed(server.connector(folders=["*"]))
        assert not isinstance(raised.value, PartialScan)
    with scripted(cut=whole) as server:
        assert len(listed(server.connector(folders=["*"]))) == 4


def test_a_message_that_is_cut_off_anywhere_is_none() -> None:
    item = Item(KEY, "17/7", "imap://x", 9)
    whole = _said_in_all(lambda connector: connector.fetch(item))
    for cut in range(whole):
        with scripted(cut=cut) as server, pytest.raises(Transient) as raised:
            server.connector().fetch(item)
        assert not isinstance(raised.value, Stale)
    with scripted(cut=whole) as server:
        assert server.connector().fetch(item).data == MAIL


@pytest.mark.parametrize(
    ("answers", "kind", "message"),
    [
        ({"AUTHENTICATE": b"TAG NO [AUTHENTICATIONFAILED] No\r\n"}, NeedsHuman, "does not let ada in"),
        ({"AUTHENTICATE": b"TAG NO\r\n"}, Transient, "asked just now"),
        ({"AUTHENTICATE": b"TAG NO no s3cret-word\r\n"}, NeedsHuman, r"no \*\*\*"),
        (
            {"AUTHENTICATE": b"TAG BAD what is s3cret-word?\r\n"},
            NeedsHuman,
            "check `username` and `password`",
        ),
        ({"AUTHENTICATE": b"TAG NO [UNAVAILABLE] later\r\n"}, Transient, "nobody in just now"),
        ({"AUTHENTICATE": b"TAG NO [LIMIT] s3cret-word\r\n"}, Transient, "nobody in just now"),
        ({"AUTHENTICATE": b"TAG NO [ALERT] Too many connections\r\n"}, Transient, "nobody in just now"),
        ({"AUTHENTICATE": b"* BYE s3cret-word\r\n"}, Transient, "asked just now"),
        ({"AUTHENTICATE": b"nonsense s3cret-word\r\n"}, Transient, "asked just now"),
        ({"": b"* BYE [UNAVAILABLE] busy\r\n"}, Transient, "busy"),
        ({"": b"SSH-2.0-nonsense\r\n"}, Transient, "asked just now"),
        (
            {"CAPABILITY": b"* CAPABILITY IMAP4rev1 LOGINDISABLED\r\nTAG OK done\r\n"},
            NeedsHuman,
            "check `tls`",
        ),
        (
            {"CAPABILITY": b"* CAPABILITY IMAP4rev1\r\nTAG OK done\r\n", "LOGIN": b"TAG NO s3cret-word\r\n"},
            NeedsHuman,
            "does not let ada in",
        ),
        ({"LIST": b"TAG NO [UNAVAILABLE] s3cret-word\r\n"}, Transient, "asked just now"),
        ({"LIST": b"* LIST s3cret-word\r\nTAG OK done\r\n"}, Transient, "asked just now"),
        ({"LIST": b"* LIST () NIL {99999999999999999999}\r\n"}, Transient, "asked just now"),
        (
            {"LIST": b'* LIST () "/" b\r\n* LIST () "/" a\r\nTAG OK done\r\n'},
            NeedsHuman,
            "'INBOX'; it has: a, b",
        ),
        ({"UID FETCH 1:*": b"* BYE s3cret-word\r\n"}, Transient, "asked just now"),
    ],
)
def test_what_the_server_says_instead(
    answers: dict[str, bytes], kind: type[Exception], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    with scripted(answers) as server, pytest.raises(kind, match=message) as raised:
        listed(server.connector())
    error: BaseException | None = raised.value
    assert type(error) is kind
    assert PASSWORD not in str(error) + caplog.text
    assert error.__cause__ is None or PASSWORD not in str(error.__cause__)


@pytest.mark.parametrize(
    "answers",
    [
        {"EXAMINE": b"TAG NO [NONEXISTENT] no such folder\r\n"},
        {"EXAMINE": b"TAG NO [NOPERM] s3cret-word\r\n"},
        {"EXAMINE": b"* 3 EXISTS\r\nTAG OK done\r\n"},
        {"EXAMINE": SCRIPT["EXAMINE"].replace(b"3 EXISTS", b"4 EXISTS")},
        {"UID FETCH 1:*": b"TAG NO [SERVERBUG] broken\r\n"},
    ],
)
def test_a_folder_that_cant_be_seen_is_unknown(answers: dict[str, bytes]) -> None:
    """The answers to EXAMINE are those of one of two folders."""
    of_one = {"EXAMINE": 'EXAMINE "A b c"'}
    seen: list[str] = []
    with scripted({of_one.get(command, command): said for command, said in answers.items()}) as server:
        scan = server.connector(folders=["*"]).scan()
        with pytest.raises(PartialScan, match="what is known of it stays") as raised:
            seen.extend(item.key for item in scan)
    assert PASSWORD not in str(raised.value)
    if "EXAMINE" in answers:
        assert (seen, raised.value.unknown) == (["INBOX/17/4.eml", KEY], ("A b c",))
    else:
        assert (seen, raised.value.unknown) == ([], ("A b c", "INBOX"))


def test_messages_that_go_while_they_are_listed_are_not_missed() -> None:
    fetch = SCRIPT["UID FETCH 1:*"].replace(b"* 1 FETCH", b"* 1 EXPUNGE\r\n* 1 FETCH")
    answers = {"EXAMINE": SCRIPT["EXAMINE"].replace(b"3", b"4"), "UID FETCH 1:*": fetch}
    with scripted(answers) as server:
        assert listed(server.connector()).keys() == {"INBOX/17/4.eml", KEY}


def test_an_empty_folder_is_not_asked_about() -> None:
    with scripted({"EXAMINE": b"* 0 EXISTS\r\n* OK [UIDVALIDITY 17]\r\nTAG OK done\r\n"}) as server:
        assert listed(server.connector()) == {}
        assert not any("FETCH" in command for command in server.heard)


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ({"UID FETCH": b"TAG OK done\r\n"}, Stale),
        ({"UID FETCH": b"TAG NO [EXPUNGEISSUED] gone\r\n"}, Stale),
        ({"EXAMINE": SCRIPT["EXAMINE"].replace(b"17", b"18")}, Stale),
        ({"UID FETCH": b"TAG NO [UNAVAILABLE] later\r\n"}, Transient),
        ({"UID FETCH": b"TAG BAD [THROTTLED] later\r\n"}, Transient),
        ({"EXAMINE": b"TAG NO [INUSE] later\r\n"}, Transient),
        ({"UID FETCH": SCRIPT["UID FETCH"].replace(b"{9}", b"{5}")}, Transient),
    ],
)
def test_a_message_that_does_not_come(answers: dict[str, bytes], kind: type[Exception]) -> None:
    with scripted(answers) as server, pytest.raises(Transient) as raised:
        server.connector().fetch(Item(KEY, "17/7", "imap://x", 9))
    assert isinstance(raised.value, Stale) == (kind is Stale)


def test_a_folder_that_is_open_is_opened_again_before_a_message_is_missed() -> None:
    with scripted() as server:
        connector = server.connector()
        connector.fetch(Item(KEY, "17/7", "imap://x", 9))
        with pytest.raises(Stale):
            connector.fetch(Item("INBOX/17/8.eml", "17/8", "imap://x", 9))
    asked = [
        command.partition(" (")[0] for command in server.heard if "FETCH" in command or "EXAM" in command
    ]
    opens = 'EXAMINE "INBOX"'
    assert asked == [opens, "UID FETCH 7", "UID FETCH 8", opens, "UID FETCH 8"]


def test_too_large_a_message_is_not_asked_for() -> None:
    with scripted() as server:
        connector = server.connector(max_size=8)
        with pytest.raises(BadDocument, match="9 bytes; max_size is 8"):
            connector.fetch(listed(connector)[KEY])
        assert not any("BODY" in command for command in server.heard)
        with pytest.raises(BadDocument, match="9 bytes; max_size is 8"):
            connector.fetch(Item(KEY, "17/7", "imap://x", None))


def test_starttls_that_is_not_offered_sends_no_password() -> None:
    with scripted() as server, pytest.raises(NeedsHuman, match="does not offer STARTTLS"):
        listed(server.connector(tls="starttls"))
    assert server.heard == ["CAPABILITY"]


def test_tls_at_a_port_without_it() -> None:
    with scripted() as server, pytest.raises(NeedsHuman, match="does not speak TLS"):
        listed(server.connector(tls=True))


def test_nobody_is_there() -> None:
    with scripted() as server:
        connector = server.connector()
    with pytest.raises(Transient, match="Connection refused"):
        listed(connector)


def test_few_connections_serve_many_threads() -> None:
    item = Item(KEY, "17/7", "imap://x", 9)
    with scripted() as server:
        connector = server.connector()
        ready = threading.Barrier(12)

        def fetch(_: int) -> bytes:
            ready.wait(20)
            return connector.fetch(item).data

        with ThreadPoolExecutor(12) as pool:
            assert list(pool.map(fetch, range(12))) == [MAIL] * 12
        assert 1 <= server.most <= 4
        assert server.heard.count("AUTHENTICATE PLAIN") == server.most


def test_a_connection_that_nobody_needs_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "IDLE", 0.05)
    with scripted() as server:
        connector = server.connector()
        listed(connector)
        _await_end(server)
        assert server.heard[-1] == "LOGOUT"
        assert listed(connector).keys() == {"INBOX/17/4.eml", KEY}, "it connects again"
        _await_end(server)


def _await_end(server: Scripted) -> None:
    with server.changed:
        assert server.changed.wait_for(lambda: server.open == 0, 20)


def test_a_server_that_left_meanwhile_is_called_again() -> None:
    item = Item(KEY, "17/7", "imap://x", 9)
    with scripted() as server:
        connector = server.connector()
        with connector._sessions.one(), connector._sessions.one():
            pass
        for connection in server.connections:
            connection.shutdown(socket.SHUT_RDWR)
        assert connector.fetch(item).data == MAIL
        assert server.heard.count("AUTHENTICATE PLAIN") == 3


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ({"": b"* BYE busy\r\n"}, Transient),
        ({"AUTHENTICATE": b"TAG NO [AUTHENTICATIONFAILED] no\r\n"}, NeedsHuman),
    ],
)
def test_a_server_that_lets_nobody_in_is_not_asked_for_every_message(
    answers: dict[str, bytes], kind: type[Exception]
) -> None:
    item = Item(KEY, "17/7", "imap://x", 9)
    with scripted(answers) as server:
        connector = server.connector()
        for _ in range(50):
            with pytest.raises(kind):
                connector.fetch(item)
        assert len(server.connections) == 1
        with pytest.raises(kind):
            listed(connector)
        assert len(server.connections) == 2, "a listing tries again"
        server.script = SCRIPT
        assert listed(connector).keys() == {"INBOX/17/4.eml", KEY}
        assert connector.fetch(item).data == MAIL


ENDLESS = {
    "a literal of ten gigabytes": {"UID FETCH": b"* 2 FETCH (UID 7 BODY[] {10000000000}\r\nx"},
    "a literal of more than there are": {"LIST": b'* LIST () "/" {99999999999999999999}\r\n'},
    "a line without end": {"LIST": b"* LIST " + b"a" * 2_000_000},
    "lines without end": {"LIST": b"* OK and so on, and so on\r\n" * 100_000},
    "a greeting without end": {"": b"* OK " + b"a" * 2_000_000},
}


@pytest.mark.parametrize("name", ENDLESS)
def test_an_answer_without_end_is_broken_off(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_MOST", 2_000_000)
    with scripted(ENDLESS[name]) as server:
        connector = server.connector()
        with pytest.raises(Transient, match=r"more than|can't be asked"):
            read_all(connector)


def read_all(connector: Imap) -> list[bytes]:
    return [connector.fetch(item).data for item in connector.scan()]


@pytest.mark.parametrize(
    "command", ["CAPABILITY", "AUTHENTICATE", "LIST", "EXAMINE", "UID FETCH 1:*", "UID FETCH 4"]
)
def test_an_answer_that_drips_is_left_at_the_deadline(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "ANSWER", 0.5)
    with scripted() as server:
        server.drips = command
        begun = time.monotonic()
        with pytest.raises(Transient, match=r"can't be asked just now"):
            read_all(server.connector())
        assert time.monotonic() - begun < 10


def test_a_listing_of_many_slow_folders_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingestor.connectors.imap.connector._LISTING", -1.0)
    with scripted() as server, pytest.raises(PartialScan, match="took more than") as raised:
        list(server.connector().scan())
    assert raised.value.unknown == ("INBOX",)
