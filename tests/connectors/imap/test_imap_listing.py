"""A server that speaks by a script, and may refuse, break off, drip or never end."""

import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime

import pytest

from ingestor.connectors.imap import session
from ingestor.connectors.imap.connector import Imap, ImapOptions
from ingestor.model import Item
from ingestor.ports import BadDocument, NeedsHuman, PartialScan, Stale, Transient
from tests.connectors.imap_script import PASSWORD, SCRIPT, Scripted, scripted
from tests.connectors.laws import broken_off, listed
from tests.examples import every
from tests.waiting import LONG

MAIL = b"x: y\r\n\r\nz"
FIRST, KEY = "INBOX/17/4.eml", "INBOX/17/7.eml"
BOTH = {FIRST, KEY}
ITEM = Item(KEY, "17/7", "imap://x", 9)


def test_messages_are_listed_and_read_with_few_commands() -> None:
    with scripted() as server:
        connector = server.connector(folders=["inbox"])
        items = listed(connector)
        assert [(item.key, item.version, item.size) for item in items.values()] == [
            (FIRST, "17/4", 5), (KEY, "17/7", 9),
        ]  # fmt: skip
        item = items[KEY]
        assert item.uri == f"imap://ada@127.0.0.1:{server.port}/INBOX;UIDVALIDITY=17/;UID=7"
        assert item.extra == (("folder", "INBOX"),)
        assert item.modified == datetime(2026, 1, 2, tzinfo=UTC).timestamp()
        blob = connector.fetch(item)
        assert (blob.data, blob.name, blob.content_type) == (MAIL, "7.eml", "message/rfc822")
        assert [command for command in server.heard if command != "CAPABILITY"] == [
            "AUTHENTICATE PLAIN", 'LIST "" *', 'EXAMINE "INBOX"',
            "UID FETCH 1:* (UID RFC822.SIZE INTERNALDATE FLAGS)", "UID FETCH 7 (UID BODY.PEEK[])",
        ]  # fmt: skip
        assert listed(server.connector(since="2026-01-02")).keys() == {KEY}
        assert listed(server.connector(since="3650d")).keys() == BOTH


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
def test_folder_that_cannot_be_seen_is_unknown(answers: dict[str, bytes]) -> None:
    """The answers to EXAMINE are those of one of two folders."""
    of_one = {"EXAMINE": 'EXAMINE "A b c"'}
    seen: list[str] = []
    with scripted({of_one.get(command, command): said for command, said in answers.items()}) as server:
        scan = server.connector(folders=["*"]).scan()
        with pytest.raises(PartialScan, match="its known messages stay") as raised:
            seen.extend(item.key for item in scan)
    assert PASSWORD not in str(raised.value)
    if "EXAMINE" in answers:
        assert (seen, raised.value.unknown) == ([FIRST, KEY], ("A b c",))
    else:
        assert (seen, raised.value.unknown) == ([], ("A b c", "INBOX"))


def test_messages_that_go_while_they_are_listed_are_not_missed() -> None:
    fetch = SCRIPT["UID FETCH 1:*"].replace(b"* 1 FETCH", b"* 1 EXPUNGE\r\n* 1 FETCH")
    with scripted({"EXAMINE": SCRIPT["EXAMINE"].replace(b"3", b"4"), "UID FETCH 1:*": fetch}) as server:
        assert listed(server.connector()).keys() == BOTH
    with scripted({"EXAMINE": b"* 0 EXISTS\r\n* OK [UIDVALIDITY 17]\r\nTAG OK done\r\n"}) as server:
        assert listed(server.connector()) == {}
        assert not any("FETCH" in command for command in server.heard), "an empty folder is not fetched"


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
def test_message_without_an_answer_is_transient(answers: dict[str, bytes], kind: type[Exception]) -> None:
    with scripted(answers) as server, pytest.raises(Transient) as raised:
        server.connector().fetch(ITEM)
    assert isinstance(raised.value, Stale) == (kind is Stale)


def test_folder_that_is_open_is_opened_again_before_a_message_is_missed() -> None:
    with scripted() as server:
        connector = server.connector()
        connector.fetch(ITEM)
        with pytest.raises(Stale):
            connector.fetch(Item("INBOX/17/8.eml", "17/8", "imap://x", 9))
    asked = [words.partition(" (")[0] for words in server.heard if "FETCH" in words or "EXAM" in words]
    opens = 'EXAMINE "INBOX"'
    assert asked == [opens, "UID FETCH 7", "UID FETCH 8", opens, "UID FETCH 8"]


def test_too_large_message_is_not_downloaded() -> None:
    with scripted() as server:
        connector = server.connector(max_size=8)
        with pytest.raises(BadDocument, match=r"9 bytes are more than max_size \(8"):
            connector.fetch(listed(connector)[KEY])
        assert not any("BODY" in command for command in server.heard)
        with pytest.raises(BadDocument, match=r"9 bytes are more than max_size \(8"):
            connector.fetch(Item(KEY, "17/7", "imap://x", None))


def _structures(*uids: int, kind: bytes = b'"text" "plain"') -> bytes:
    line = b"* %d FETCH (UID %d BODYSTRUCTURE (" + kind + b' NIL NIL NIL "7bit" 1 1 NIL NIL NIL NIL))\r\n'
    return b"".join(line % (number, uid) for number, uid in enumerate(uids, 1)) + b"TAG OK done\r\n"


ASKED = "UID FETCH 4:203 (UID BODYSTRUCTURE)"


def test_structure_of_many_messages_takes_one_command() -> None:
    with scripted({ASKED: _structures(4, 7)}) as server:
        connector = server.connector()
        assert [connector.is_simple(item) for item in listed(connector).values()] == [True, True]
        assert connector.is_simple(Item("INBOX/17/9.eml", "17/9", "imap://x")) is False, "it was not told of"
        assert connector.is_simple(Item("INBOX/16/4.eml", "16/4", "imap://x")) is False, "of a former folder"
        assert [command for command in server.heard if "STRUCTURE" in command] == [ASKED]
        assert not any("BODY.PEEK" in command for command in server.heard)


def test_listing_requests_structures_again() -> None:
    """A message that came since then has a number among those that were asked about."""
    with scripted({ASKED: _structures(4)}) as server:
        connector = server.connector()
        items = listed(connector)
        assert connector.is_simple(items[FIRST])
        assert not connector.is_simple(items[KEY])
        server.script = {**server.script, "UID FETCH 7:206 (UID BODYSTRUCTURE)": _structures(7)}
        assert connector.is_simple(listed(connector)[KEY])


@pytest.mark.parametrize(
    "answer",
    [b"TAG NO [UNAVAILABLE] later\r\n", b"TAG BAD what?\r\n", b"TAG OK done\r\n",
     _structures(4, kind=b'"image" "png"')],
)  # fmt: skip
def test_message_may_have_attachments_unless_the_server_denies_it(answer: bytes) -> None:
    with scripted({ASKED: answer}) as server:
        connector = server.connector()
        assert not connector.is_simple(listed(connector)[FIRST])
        assert listed(connector).keys() == BOTH, "the connection is still of use"


PLAIN = {"host": "imap.example.org", "username": "ada@example.org", "password": PASSWORD}


@pytest.mark.parametrize(
    ("since", "earliest"),
    [("2026-01-31", date(2026, 1, 31)), (date(2026, 1, 31), date(2026, 1, 31)), ("30d", 2_592_000.0),
     (86_400, 86_400.0), (None, None)],
)  # fmt: skip
def test_since_is_a_day_or_a_duration(since: object, earliest: object) -> None:
    assert ImapOptions.model_validate({**PLAIN, "since": since}).since == earliest


def test_few_connections_serve_many_threads() -> None:
    with scripted() as server:
        connector = server.connector()
        ready = threading.Barrier(12)

        def fetch(_: int) -> bytes:
            ready.wait(LONG)
            return connector.fetch(ITEM).data

        with ThreadPoolExecutor(12) as pool:
            assert list(pool.map(fetch, range(12))) == [MAIL] * 12
        assert 1 <= server.most <= 4
        assert server.heard.count("AUTHENTICATE PLAIN") == server.most


def test_idle_connection_is_closed_and_a_lost_one_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted() as server:
        connector = server.connector()
        with connector._sessions.one(), connector._sessions.one():
            pass
        for connection in server.connections:
            connection.shutdown(socket.SHUT_RDWR)
        assert connector.fetch(ITEM).data == MAIL
        assert server.heard.count("AUTHENTICATE PLAIN") == 3
    monkeypatch.setattr(session, "IDLE", 0.05)
    with scripted() as server:
        connector = server.connector()
        listed(connector)
        _await_end(server)
        assert server.heard[-1] == "LOGOUT"
        assert listed(connector).keys() == BOTH, "it connects again"
        _await_end(server)


def _await_end(server: Scripted) -> None:
    with server.changed:
        assert server.changed.wait_for(lambda: server.open == 0, LONG)


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ({"": b"* BYE busy\r\n"}, Transient),
        ({"AUTHENTICATE": b"TAG NO [AUTHENTICATIONFAILED] no\r\n"}, NeedsHuman),
    ],
)
def test_refused_login_is_not_repeated_for_each_message(
    answers: dict[str, bytes], kind: type[Exception]
) -> None:
    with scripted(answers) as server:
        connector = server.connector()
        for _ in range(50):
            with pytest.raises(kind):
                connector.fetch(ITEM)
        assert len(server.connections) == 1
        with pytest.raises(kind):
            listed(connector)
        assert len(server.connections) == 2, "a listing tries again"
        server.script = SCRIPT
        assert listed(connector).keys() == BOTH
        assert connector.fetch(ITEM).data == MAIL


def _list_all(connector: Imap) -> int:
    return len(listed(connector))


def _fetch_one(connector: Imap) -> int:
    return len(connector.fetch(ITEM).data)


@pytest.mark.parametrize(("read", "found"), [(_list_all, 4), (_fetch_one, len(MAIL))])
def test_answer_that_is_cut_off_anywhere_is_none(read: Callable[[Imap], int], found: int) -> None:
    with scripted() as server:
        assert read(server.connector(folders=["*"])) == found
    for cut in every(11, range(server.said)):
        with scripted(cut=cut) as broken, pytest.raises(Transient) as raised:
            read(broken.connector(folders=["*"]))
        assert not isinstance(raised.value, PartialScan | Stale)
    with scripted(cut=server.said) as whole:
        assert read(whole.connector(folders=["*"])) == found


UNEXPECTED: list[tuple[str, bytes, type[Exception], str]] = [
    ("AUTHENTICATE", b"TAG NO [AUTHENTICATIONFAILED] No\r\n", NeedsHuman, "refuses the login of ada"),
    ("AUTHENTICATE", b"TAG NO\r\n", Transient, "read now"),
    ("AUTHENTICATE", b"TAG NO no s3cret-word\r\n", NeedsHuman, r"no \*\*\*"),
    ("AUTHENTICATE", b"TAG BAD what is s3cret-word?\r\n", NeedsHuman, "check `username` and `password`"),
    ("AUTHENTICATE", b"TAG NO [UNAVAILABLE] later\r\n", Transient, "refuses logins now"),
    ("AUTHENTICATE", b"TAG NO [LIMIT] s3cret-word\r\n", Transient, "refuses logins now"),
    ("AUTHENTICATE", b"TAG NO [ALERT] Too many connections\r\n", Transient, "refuses logins now"),
    ("AUTHENTICATE", b"* BYE s3cret-word\r\n", Transient, "read now"),
    ("AUTHENTICATE", b"nonsense s3cret-word\r\n", Transient, "read now"),
    ("", b"* BYE [UNAVAILABLE] busy\r\n", Transient, "busy"),
    ("", b"SSH-2.0-nonsense\r\n", Transient, "read now"),
    ("CAPABILITY", b"* CAPABILITY IMAP4rev1 LOGINDISABLED\r\nTAG OK done\r\n", NeedsHuman, "check `tls`"),
    ("LOGIN", b"TAG NO s3cret-word\r\n", NeedsHuman, "refuses the login of ada"),
    ("LIST", b"TAG NO [UNAVAILABLE] s3cret-word\r\n", Transient, "read now"),
    ("LIST", b"* LIST s3cret-word\r\nTAG OK done\r\n", Transient, "read now"),
    ("LIST", b'* LIST () "/" b\r\n* LIST () "/" a\r\nTAG OK done\r\n', NeedsHuman, "'INBOX'; .* has: a, b"),
    ("UID FETCH 1:*", b"* BYE s3cret-word\r\n", PartialScan, "read now"),
]


@pytest.mark.parametrize(("command", "answer", "kind", "message"), UNEXPECTED)
def test_unexpected_answer_of_the_server_is_reported(
    command: str, answer: bytes, kind: type[Exception], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    no_sasl = {"CAPABILITY": b"* CAPABILITY IMAP4rev1\r\nTAG OK done\r\n"} if command == "LOGIN" else {}
    with scripted({command: answer, **no_sasl}) as server, pytest.raises(kind, match=message) as raised:
        listed(server.connector())
    error: BaseException | None = raised.value
    assert type(error) is kind
    assert PASSWORD not in f"{error} {error.__cause__} {caplog.text}"


@pytest.mark.parametrize(
    "answer", [b"* BYE internal error\r\n", b"nonsense\r\n", b"TAG NO [SERVERBUG] no\r\n"]
)
@pytest.mark.parametrize("command", ["EXAMINE", "UID FETCH 1:*"])
def test_folder_that_fails_for_good_leaves_the_others(command: str, answer: bytes) -> None:
    lists = b'* LIST () "/" INBOX\r\n* LIST () "/" broken\r\n* LIST () "/" last\r\nTAG OK done\r\n'
    with scripted({"LIST": lists}) as server:
        server.broken = (b"broken", command, answer)
        found, error = broken_off(server.connector(folders=["*"]))
        assert error.unknown == ("broken",)
        assert {key.partition("/")[0] for key in found} == {"INBOX", "last"}


def test_connection_without_the_configured_tls_needs_a_person() -> None:
    with scripted() as server:
        with pytest.raises(NeedsHuman, match="does not offer STARTTLS"):
            listed(server.connector(tls="starttls"))
        assert server.heard == ["CAPABILITY"], "the password is not sent"
        with pytest.raises(NeedsHuman, match="does not speak TLS"):
            listed(server.connector(tls=True))
        connector = server.connector()
    with pytest.raises(Transient, match="Connection refused"):
        listed(connector)


ENDLESS = {
    "a literal of ten gigabytes": {"UID FETCH": b"* 2 FETCH (UID 7 BODY[] {10000000000}\r\nx"},
    "a literal of more than there are": {"LIST": b'* LIST () "/" {99999999999999999999}\r\n'},
    "a line without end": {"LIST": b"* LIST " + b"a" * 1_100_000},
    "lines without end": {"LIST": b"* OK and so on, and so on\r\n" * 10_000},
    "a greeting without end": {"": b"* OK " + b"a" * 1_100_000},
}


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_answer_is_cancelled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_MOST", 100_000)
    with scripted(ENDLESS[name]) as server:
        connector = server.connector()
        with pytest.raises(Transient, match=r"more than|can't be read"):
            read_all(connector)


def read_all(connector: Imap) -> list[bytes]:
    return [connector.fetch(item).data for item in connector.scan()]


@pytest.mark.parametrize(
    "command", ["CAPABILITY", "AUTHENTICATE", "LIST", "EXAMINE", "UID FETCH 1:*", "UID FETCH 4"]
)
def test_dripping_answer_is_cancelled_at_the_deadline(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "ANSWER", 0.2)
    with scripted() as server:
        server.drips = command
        with pytest.raises(Transient, match=r"can't be read now"):
            read_all(server.connector())


def test_listing_of_many_slow_folders_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingestor.connectors.imap.connector._LISTING", -1.0)
    with scripted() as server, pytest.raises(PartialScan, match="took more than") as raised:
        list(server.connector().scan())
    assert raised.value.unknown == ("INBOX",)
