"""Against a real mail server: they run where dovecot is installed."""

import imaplib
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ingestor.connectors.imap.connector import Imap, ImapOptions
from ingestor.core.listings.comparison import VersionTable
from ingestor.model import Blob
from ingestor.pipeline.containers import Containers, Downloads
from ingestor.ports import BadDocument, NeedsHuman, Stale, Transient
from tests.connectors.laws import ConnectorLaws, World, fetched, listed
from tests.connectors.mailboxes import PASSWORD, MailWorld, mail_world
from tests.pipeline.packed import mailed, unpack

pytestmark = pytest.mark.slow

MAIL = b"Subject: River\r\n\r\nA house by the river.\r\n"


@pytest.fixture
def world() -> Iterator[MailWorld]:
    with mail_world() as world:
        yield world


def other(world: MailWorld, **options: object) -> Imap:
    return Imap(ImapOptions.model_validate({**world.source, **options}))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is sent from now on, whoever sends it."""
    lines: list[str] = []
    send = imaplib.IMAP4.send

    def noting(self: imaplib.IMAP4, data: bytes) -> None:
        lines.append(data.decode("latin-1").rstrip().partition(" ")[2])
        send(self, data)

    monkeypatch.setattr(imaplib.IMAP4, "send", noting)
    return lines


class TestLaws(ConnectorLaws):
    def test_fetch_gives_the_bytes_and_the_name(self, world: World) -> None:
        """A mail server makes every line end CR LF and stores no NUL; a message is called by its number."""
        data = (bytes(set(range(1, 256)) - {10, 13}) + b"\r\n") * 5000
        world.put("sub/a.bin.md", data)
        blob = fetched(world.connector, listed(world.connector)["sub/a.bin.md"])
        assert (blob.data, blob.name) == (data, "1.eml")

    @pytest.mark.parametrize(
        "name",
        ["a b", "ünïcødé 文書", "% & ' \" $x", "back\\slash", "e\u0301", "[Gmail]", "a&b", "*"],
    )
    def test_any_name_can_be_listed_and_fetched(self, world: World, name: str) -> None:
        """It is folders that have names."""
        world.put(f"{name}/a.md", b"here")
        [item] = world.connector.scan()
        item.key.encode("utf-8")
        assert dict(item.extra)["folder"] == name
        assert fetched(world.connector, item).data == b"here"


def test_unchanged_message_is_not_read(world: MailWorld, asked: list[str]) -> None:
    for number in range(20):
        world.put(f"{number % 3}/{number}.md", MAIL)
    before = listed(world.bare)
    asked.clear()
    assert listed(world.bare) == before
    assert Counter(line.split()[0] for line in asked) == {"LIST": 1, "EXAMINE": 4, "UID": 3}, "INBOX is empty"
    assert not any("BODY" in line for line in asked)
    world.bare.fetch(next(iter(before.values())))
    assert len([line for line in asked if "BODY" in line]) == 1


ALTERNATIVE = (
    b"Subject: x\r\nMIME-Version: 1.0\r\nContent-Type: multipart/alternative; boundary=b\r\n\r\n"
    b"--b\r\nContent-Type: text/plain\r\n\r\nWords.\r\n--b\r\nContent-Type: text/html\r\n\r\n<p>Words.\r\n"
    b"--b--\r\n"
)


def test_each_mail_is_downloaded_once_and_those_without_attachments_not_for_a_listing(
    world: MailWorld, asked: list[str]
) -> None:
    for name, data in {"a": MAIL, "b": ALTERNATIVE, "c": mailed({"x.md": "X"}), "d": b""}.items():
        world.put(f"{name}.md", data)
    bare = world.bare
    containers = Containers(bare.fetch, True, unpack, is_simple=bare.is_simple, downloads=Downloads())

    def downloads() -> int:
        return len([line for line in asked if "BODY.PEEK" in line])

    items = {item.key: item for item in containers.expand(bare.scan(), VersionTable({}))}
    assert [key.partition("/!/")[2] for key in items] == ["", "", "", "x.md", ""]
    assert downloads() == 1
    for item in items.values():
        containers.fetch(item)
    assert downloads() == 4
    assert len([line for line in asked if "BODYSTRUCTURE" in line]) == 1


def test_reading_changes_nothing_and_flags_are_no_change(world: MailWorld) -> None:
    world.put("a.md", MAIL)
    before = listed(world.bare)
    world.bare.fetch(*before.values())
    assert "Seen" not in world.flags("a.md")
    world.flag("a.md", r"\Seen", r"\Flagged", "$Label1", "Deleted")
    assert listed(world.bare) == before
    world.flag("a.md", r"\Deleted")
    assert listed(world.bare) == {}


def test_a_folder_made_anew_numbers_its_messages_anew(world: MailWorld) -> None:
    world.put("work/a.md", MAIL)
    [before] = listed(world.bare).values()
    world.drop("work")
    world.put("work/b.md", b"another")
    [after] = listed(world.bare).values()
    assert before.key.rpartition("/")[2] == after.key.rpartition("/")[2] == "1.eml"
    assert before.version != after.version
    with pytest.raises(Stale):
        world.bare.fetch(before)
    assert world.bare.fetch(after).data == b"another"


def test_a_folder_that_vanishes_while_the_source_is_listed(world: MailWorld) -> None:
    for folder in ("a", "b"):
        world.put(f"{folder}/x.md", MAIL)
    scan = other(world, folders=["a", "b"]).scan()
    seen = [next(scan)]
    [left] = {"a", "b"} - {seen[0].key[0]}
    world.drop(left)
    with pytest.raises(Transient) as raised:
        seen.extend(scan)
    assert raised.value.unknown == (left,)  # type: ignore[attr-defined]
    assert len(seen) == 1
    with pytest.raises(NeedsHuman, match=f"no folder '{left}'"):
        listed(other(world, folders=["a", "b"]))


def test_folders_are_chosen_by_name(world: MailWorld) -> None:
    for folder in ("INBOX", "Entwürfe", "Archive/2025", "Archive/2026/ß", "Trash"):
        world.put(f"{folder}/x.md", MAIL)
    chosen = {item.key.rsplit("/", 2)[0] for item in other(world, exclude=["Trash", "*/2025"]).scan()}
    assert chosen == {"INBOX", "Entwürfe", "Archive/2026/ß"}
    [item] = listed(other(world, folders=["Entw*"])).values()
    assert "/Entw%C3%BCrfe;UIDVALIDITY=" in item.uri


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\r\n",
        "Subject: Übung \xe4\r\n\r\nGrüße\r\n".encode("latin-1"),
        b"Subject: x\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n",
        b"no header at all\r\n",
        b"x: {5}\r\n\r\nTAG OK done\r\n* 1 FETCH (UID 1 BODY[] {3}\r\n",
        b")\r\n",
    ],
)
def test_odd_mails_come_as_they_are(world: MailWorld, data: bytes) -> None:
    world.put("a.md", data)
    [item] = listed(world.bare).values()
    assert world.bare.fetch(item).data == data
    assert item.size == len(data)


def test_a_large_message(world: MailWorld, asked: list[str]) -> None:
    data = MAIL + (b"y" * 998 + b"\r\n") * 30_000
    world.put("a.md", data)
    [item] = listed(world.bare).values()
    asked.clear()
    with pytest.raises(BadDocument, match=r"30,0\d\d,\d\d\d bytes; max_size is 20,000,000"):
        other(world, max_size="20MB").fetch(item)
    assert asked == []
    assert world.bare.fetch(item).data == data


def test_the_certificate_is_looked_at(world: MailWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.put("a.md", MAIL)
    ways: list[dict[str, object]] = [{"tls": True, "port": world.server.tls_port}, {"tls": "starttls"}]
    for way in ways:
        with pytest.raises(NeedsHuman, match=r"certificate of .* can't be trusted \(self-signed"):
            listed(other(world, **way))
    monkeypatch.setenv("SSL_CERT_FILE", str(world.server.certificate))
    for way in ways:
        connector = other(world, **way)
        [item] = listed(connector).values()
        assert connector.fetch(item).data == MAIL
    with pytest.raises(NeedsHuman, match="can't be trusted"):
        listed(other(world, host="localhost", **ways[0]))


@pytest.mark.parametrize("who", [{"password": "wr0ng-Päss"}, {"username": "eve"}])
def test_a_wrong_password(world: MailWorld, who: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    with pytest.raises(NeedsHuman, match=r"AUTHENTICATIONFAILED.*check `username` and `password`") as raised:
        listed(other(world, **who))
    assert not any(secret in str(raised.value) + caplog.text for secret in (PASSWORD, "wr0ng"))


def test_connections_that_are_cut_and_a_server_that_comes_back(world: MailWorld) -> None:
    for number in range(5):
        world.put(f"{number}.md", MAIL)
    items = list(listed(world.bare).values())
    world.bare.fetch(items[0])
    world.server.server.kill()
    for _ in range(2):
        with pytest.raises(Transient, match="can't be read now"):
            listed(world.bare)
        with pytest.raises(Transient, match="can't be read now"):
            world.bare.fetch(items[1])
    world.server.server.start()
    assert listed(world.bare).keys() == {item.key for item in items}
    assert world.bare.fetch(items[1]).data == MAIL


def test_a_connection_that_dies_while_a_message_comes(world: MailWorld) -> None:
    world.put("a.md", MAIL * 100_000)
    [item] = listed(world.bare).values()
    with world.bare._sessions.one() as session:
        sound = session._imap
    read = sound.read

    def cut(size: int) -> bytes:
        data = read(1000)
        sound.sock.shutdown(socket.SHUT_RDWR)
        return data + read(size - 1000)

    sound.read = cut  # type: ignore[method-assign]
    with pytest.raises(Transient, match="can't be read now"):
        world.bare.fetch(item)
    assert world.bare.fetch(item).data == MAIL * 100_000


def test_many_threads(world: MailWorld, asked: list[str]) -> None:
    """The server takes six connections of a user; the world has one of them."""
    for number in range(60):
        world.put(f"{number % 4}/{number}.md", MAIL + f"{number}\r\n".encode())
    items = list(listed(world.connector).items())
    asked.clear()

    def fetch(named: tuple[str, object]) -> tuple[str, Blob]:
        return named[0], world.connector.fetch(named[1])  # type: ignore[arg-type]

    with ThreadPoolExecutor(16) as pool:
        for name, blob in pool.map(fetch, items):
            assert blob.data == MAIL + name.split("/")[1].replace(".md", "\r\n").encode()
    assert len([line for line in asked if line.startswith("AUTHENTICATE")]) <= 3
