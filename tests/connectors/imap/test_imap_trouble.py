"""Servers that refuse, break off, drip or never end: nothing is lost, and no password is told."""

from collections.abc import Callable

import pytest

from ingestor.connectors.imap import session
from ingestor.connectors.imap.connector import Imap
from ingestor.model import Item
from ingestor.ports import NeedsHuman, PartialScan, Stale, Transient
from tests.connectors.imap_script import PASSWORD, scripted
from tests.connectors.laws import broken_off, listed
from tests.examples import every

MAIL = b"x: y\r\n\r\nz"
KEY = "INBOX/17/7.eml"


def _said_in_all(work: Callable[[Imap], object]) -> int:
    with scripted() as server:
        work(server.connector(folders=["*"]))
        return server.said


def test_listing_that_is_cut_off_anywhere_is_none() -> None:
    whole = _said_in_all(listed)
    for cut in every(5, range(whole)):
        with scripted(cut=cut) as server, pytest.raises(Transient) as raised:
            listed(server.connector(folders=["*"]))
        assert not isinstance(raised.value, PartialScan)
    with scripted(cut=whole) as server:
        assert len(listed(server.connector(folders=["*"]))) == 4


def test_message_that_is_cut_off_anywhere_is_none() -> None:
    item = Item(KEY, "17/7", "imap://x", 9)
    whole = _said_in_all(lambda connector: connector.fetch(item))
    for cut in every(3, range(whole)):
        with scripted(cut=cut) as server, pytest.raises(Transient) as raised:
            server.connector().fetch(item)
        assert not isinstance(raised.value, Stale)
    with scripted(cut=whole) as server:
        assert server.connector().fetch(item).data == MAIL


@pytest.mark.parametrize(
    ("answers", "kind", "message"),
    [
        ({"AUTHENTICATE": b"TAG NO [AUTHENTICATIONFAILED] No\r\n"}, NeedsHuman, "refuses the login of ada"),
        ({"AUTHENTICATE": b"TAG NO\r\n"}, Transient, "read now"),
        ({"AUTHENTICATE": b"TAG NO no s3cret-word\r\n"}, NeedsHuman, r"no \*\*\*"),
        (
            {"AUTHENTICATE": b"TAG BAD what is s3cret-word?\r\n"},
            NeedsHuman,
            "check `username` and `password`",
        ),
        ({"AUTHENTICATE": b"TAG NO [UNAVAILABLE] later\r\n"}, Transient, "refuses logins now"),
        ({"AUTHENTICATE": b"TAG NO [LIMIT] s3cret-word\r\n"}, Transient, "refuses logins now"),
        ({"AUTHENTICATE": b"TAG NO [ALERT] Too many connections\r\n"}, Transient, "refuses logins now"),
        ({"AUTHENTICATE": b"* BYE s3cret-word\r\n"}, Transient, "read now"),
        ({"AUTHENTICATE": b"nonsense s3cret-word\r\n"}, Transient, "read now"),
        ({"": b"* BYE [UNAVAILABLE] busy\r\n"}, Transient, "busy"),
        ({"": b"SSH-2.0-nonsense\r\n"}, Transient, "read now"),
        (
            {"CAPABILITY": b"* CAPABILITY IMAP4rev1 LOGINDISABLED\r\nTAG OK done\r\n"},
            NeedsHuman,
            "check `tls`",
        ),
        (
            {"CAPABILITY": b"* CAPABILITY IMAP4rev1\r\nTAG OK done\r\n", "LOGIN": b"TAG NO s3cret-word\r\n"},
            NeedsHuman,
            "refuses the login of ada",
        ),
        ({"LIST": b"TAG NO [UNAVAILABLE] s3cret-word\r\n"}, Transient, "read now"),
        ({"LIST": b"* LIST s3cret-word\r\nTAG OK done\r\n"}, Transient, "read now"),
        ({"LIST": b"* LIST () NIL {99999999999999999999}\r\n"}, Transient, "read now"),
        (
            {"LIST": b'* LIST () "/" b\r\n* LIST () "/" a\r\nTAG OK done\r\n'},
            NeedsHuman,
            "'INBOX'; it has: a, b",
        ),
        ({"UID FETCH 1:*": b"* BYE s3cret-word\r\n"}, PartialScan, "read now"),
    ],
)
def test_unexpected_answer_of_the_server_is_reported(
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


def test_password_is_kept_without_starttls() -> None:
    with scripted() as server, pytest.raises(NeedsHuman, match="does not offer STARTTLS"):
        listed(server.connector(tls="starttls"))
    assert server.heard == ["CAPABILITY"]


def test_tls_at_a_plain_port_needs_a_human() -> None:
    with scripted() as server, pytest.raises(NeedsHuman, match="does not speak TLS"):
        listed(server.connector(tls=True))


def test_unreachable_mail_server_is_transient() -> None:
    with scripted() as server:
        connector = server.connector()
    with pytest.raises(Transient, match="Connection refused"):
        listed(connector)


ENDLESS = {
    "a literal of ten gigabytes": {"UID FETCH": b"* 2 FETCH (UID 7 BODY[] {10000000000}\r\nx"},
    "a literal of more than there are": {"LIST": b'* LIST () "/" {99999999999999999999}\r\n'},
    "a line without end": {"LIST": b"* LIST " + b"a" * 2_000_000},
    "lines without end": {"LIST": b"* OK and so on, and so on\r\n" * 100_000},
    "a greeting without end": {"": b"* OK " + b"a" * 2_000_000},
}


@pytest.mark.parametrize("name", ENDLESS)
def test_answer_without_end_is_broken_off(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_MOST", 2_000_000)
    with scripted(ENDLESS[name]) as server:
        connector = server.connector()
        with pytest.raises(Transient, match=r"more than|can't be read"):
            read_all(connector)


def read_all(connector: Imap) -> list[bytes]:
    return [connector.fetch(item).data for item in connector.scan()]


@pytest.mark.parametrize(
    "command", ["CAPABILITY", "AUTHENTICATE", "LIST", "EXAMINE", "UID FETCH 1:*", "UID FETCH 4"]
)
def test_answer_that_drips_is_left_at_the_deadline(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "ANSWER", 0.5)
    with scripted() as server:
        server.drips = command
        with pytest.raises(Transient, match=r"can't be read now"):
            read_all(server.connector())


def test_listing_of_many_slow_folders_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingestor.connectors.imap.connector._LISTING", -1.0)
    with scripted() as server, pytest.raises(PartialScan, match="took more than") as raised:
        list(server.connector().scan())
    assert raised.value.unknown == ("INBOX",)
