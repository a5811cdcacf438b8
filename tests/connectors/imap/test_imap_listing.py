"""What is listed and fetched from a server that speaks by a script."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime

import pytest

from ingestor.connectors.imap import session as sessions
from ingestor.connectors.imap.connector import ImapOptions
from ingestor.model import Item
from ingestor.ports import BadDocument, NeedsHuman, PartialScan, Stale, Transient
from tests.connectors.imap_script import PASSWORD, SCRIPT, Scripted, scripted
from tests.connectors.laws import listed
from tests.waiting import LONG

MAIL = b"x: y\r\n\r\nz"
KEY = "INBOX/17/7.eml"


def test_messages_are_listed_and_read_with_few_commands() -> None:
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


def test_message_older_than_the_limit_is_left_out() -> None:
    with scripted() as server:
        assert listed(server.connector(since="2026-01-02")).keys() == {KEY}
        assert listed(server.connector(since="3650d")).keys() == {"INBOX/17/4.eml", KEY}


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
def test_folder_that_cant_be_seen_is_unknown(answers: dict[str, bytes]) -> None:
    """The answers to EXAMINE are those of one of two folders."""
    of_one = {"EXAMINE": 'EXAMINE "A b c"'}
    seen: list[str] = []
    with scripted({of_one.get(command, command): said for command, said in answers.items()}) as server:
        scan = server.connector(folders=["*"]).scan()
        with pytest.raises(PartialScan, match="its known messages stay") as raised:
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


def test_empty_folder_is_not_asked_about() -> None:
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
def test_message_that_does_not_come(answers: dict[str, bytes], kind: type[Exception]) -> None:
    with scripted(answers) as server, pytest.raises(Transient) as raised:
        server.connector().fetch(Item(KEY, "17/7", "imap://x", 9))
    assert isinstance(raised.value, Stale) == (kind is Stale)


def test_folder_that_is_open_is_opened_again_before_a_message_is_missed() -> None:
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


def _structures(*uids: int, kind: bytes = b'"text" "plain"') -> bytes:
    line = b"* %d FETCH (UID %d BODYSTRUCTURE (" + kind + b' NIL NIL NIL "7bit" 1 1 NIL NIL NIL NIL))\r\n'
    return b"".join(line % (number, uid) for number, uid in enumerate(uids, 1)) + b"TAG OK done\r\n"


ASKED = "UID FETCH 4:203 (UID BODYSTRUCTURE)"


def test_structure_of_many_messages_takes_one_command() -> None:
    with scripted({ASKED: _structures(4, 7)}) as server:
        connector = server.connector()
        items = listed(connector)
        assert [connector.is_simple(item) for item in items.values()] == [True, True]
        assert connector.is_simple(Item("INBOX/17/9.eml", "17/9", "imap://x")) is False, "it was not told of"
        assert [command for command in server.heard if "STRUCTURE" in command] == [ASKED]
        assert not any("BODY.PEEK" in command for command in server.heard)


def test_listing_asks_for_structures_again() -> None:
    """A message that came since then has a number among those that were asked about."""
    with scripted({ASKED: _structures(4)}) as server:
        connector = server.connector()
        items = listed(connector)
        assert connector.is_simple(items["INBOX/17/4.eml"])
        assert not connector.is_simple(items[KEY])
        server.script = {**server.script, "UID FETCH 7:206 (UID BODYSTRUCTURE)": _structures(7)}
        assert connector.is_simple(listed(connector)[KEY])


@pytest.mark.parametrize(
    "answer",
    [
        b"TAG NO [UNAVAILABLE] later\r\n",
        b"TAG BAD what?\r\n",
        b"TAG OK done\r\n",
        _structures(4, kind=b'"image" "png"'),
    ],
)
def test_message_may_have_attachments_unless_the_server_says_otherwise(answer: bytes) -> None:
    with scripted({ASKED: answer}) as server:
        connector = server.connector()
        assert not connector.is_simple(listed(connector)["INBOX/17/4.eml"])
        assert listed(connector).keys() == {"INBOX/17/4.eml", KEY}, "the connection is still of use"


def test_folder_that_was_made_again_says_nothing_of_the_messages_before() -> None:
    with scripted({ASKED: _structures(4)}) as server:
        assert not server.connector().is_simple(Item("INBOX/16/4.eml", "16/4", "imap://x"))
        assert not any("STRUCTURE" in command for command in server.heard)


PLAIN = {"host": "imap.example.org", "username": "ada@example.org", "password": PASSWORD}


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


def test_few_connections_serve_many_threads() -> None:
    item = Item(KEY, "17/7", "imap://x", 9)
    with scripted() as server:
        connector = server.connector()
        ready = threading.Barrier(12)

        def fetch(_: int) -> bytes:
            ready.wait(LONG)
            return connector.fetch(item).data

        with ThreadPoolExecutor(12) as pool:
            assert list(pool.map(fetch, range(12))) == [MAIL] * 12
        assert 1 <= server.most <= 4
        assert server.heard.count("AUTHENTICATE PLAIN") == server.most


def test_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
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
        assert server.changed.wait_for(lambda: server.open == 0, LONG)


def test_server_that_left_meanwhile_is_called_again() -> None:
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
def test_refused_login_is_not_repeated_for_each_message(
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
