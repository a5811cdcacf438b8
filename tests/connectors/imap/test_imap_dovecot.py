"""Against a real mail server: they run where dovecot is installed."""

from collections.abc import Iterator

import pytest

from ingestor.connectors.imap.connector import Imap, ImapOptions
from ingestor.ports import NeedsHuman, PartialScan, Stale
from tests.connectors.laws import ConnectorLaws, World, fetched, listed
from tests.connectors.mailboxes import MailWorld, mail_world

pytestmark = pytest.mark.slow

MAIL = b"Subject: River\r\n\r\nA house by the river.\r\n"


@pytest.fixture
def world() -> Iterator[MailWorld]:
    with mail_world() as world:
        yield world


def other(world: MailWorld, **options: object) -> Imap:
    return Imap(ImapOptions.model_validate({**world.source, **options}))


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


def test_reading_and_flags_keep_the_version(world: MailWorld) -> None:
    world.put("a.md", MAIL)
    before = listed(world.bare)
    world.bare.fetch(*before.values())
    assert "Seen" not in world.flags("a.md")
    world.flag("a.md", r"\Seen", r"\Flagged", "$Label1", "Deleted")
    assert listed(world.bare) == before
    world.flag("a.md", r"\Deleted")
    assert listed(world.bare) == {}


def test_recreated_folder_has_new_message_numbers(world: MailWorld) -> None:
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


def test_folder_that_vanishes_while_the_source_is_listed_is_unknown(world: MailWorld) -> None:
    for folder in ("Entwürfe", "Archive/2026/ß", "Trash", "Archive/2025"):
        world.put(f"{folder}/x.md", MAIL)
    folders = {"Entwürfe", "Archive/2026/ß"}
    chosen = other(world, folders=["Entw*", "Archive/*"], exclude=["*/2025"])
    scan = chosen.scan()
    seen = [next(scan)]
    [left] = folders - {seen[0].key.rsplit("/", 2)[0]}
    world.drop(left)
    with pytest.raises(PartialScan) as raised:
        seen.extend(scan)
    assert (raised.value.unknown, len(seen)) == ((left,), 1)
    with pytest.raises(NeedsHuman, match=f"no folder '{left}'"):
        listed(other(world, folders=sorted(folders)))


ODD = [b"", b"\r\n", "Subject: Übung \xe4\r\n\r\nGrüße\r\n".encode("latin-1"), b"no header at all\r\n"]
ODD += [b"x: {5}\r\n\r\nTAG OK done\r\n* 1 FETCH (UID 1 BODY[] {3}\r\n", b")\r\n"]


def test_odd_mails_come_as_they_are(world: MailWorld) -> None:
    for number, data in enumerate(ODD):
        world.put(f"{number}.md", data)
    items = listed(world.bare).values()
    assert [(world.bare.fetch(item).data, item.size) for item in items] == [(data, len(data)) for data in ODD]


def test_untrusted_certificate_is_refused(world: MailWorld, monkeypatch: pytest.MonkeyPatch) -> None:
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
