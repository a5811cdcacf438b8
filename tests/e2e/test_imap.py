"""Mail folders through the whole program, against a real mail server: runs where dovecot is installed."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.connectors.mailboxes import PASSWORD, MailWorld, mail_world
from tests.e2e.project import Project
from tests.pipeline.packed import mailed

pytestmark = pytest.mark.slow


@pytest.fixture
def world() -> Iterator[MailWorld]:
    with mail_world() as world:
        yield world


def project_of(folder: Path, world: MailWorld, name: str = "project", **options: object) -> Project:
    source = {"name": "mail", "collection": "docs", "kind": "imap", **world.source, **options}
    return Project(folder / name, {"sources": [source]})


def texts(project: Project) -> Counter[str]:
    """By folder and what follows the message's number."""
    found = (
        unquote(str(meta["source"])).partition("@")[2].partition("/")[2]
        for _, _, meta, _ in project.records()
    )
    return Counter(f"{source.partition(';')[0]}{'!'.join(['', *source.split('!')[1:]])}" for source in found)


def letter(number: int) -> bytes:
    return f"Subject: Letter {number}\r\n\r\nA house by the river {number}.\r\n".encode()


def test_attachments_moves_and_folders_made_anew(world: MailWorld, tmp_path: Path) -> None:
    project = project_of(tmp_path, world)
    world.put("work/a", mailed({"offer.md": "# Offer\n\nA bridge of wood.", "plan.txt": "A plan."}))
    world.put("work/b", letter(1))
    world.put("c", letter(2))
    assert project.json("sync")["documents"]["added"] == 5
    assert texts(project) == {"work": 2, "work!/offer.md": 1, "work!/plan.txt": 1, "INBOX": 1}
    [record] = [meta for _, _, meta, _ in project.records() if meta["title"] == "Letter 2"]
    assert (record["folder"], record["file_name"], record["content_type"]) == (
        "INBOX",
        "1.eml",
        "message/rfc822",
    )

    world.move("work/a", "Ablage & ß/a")
    moved = project.json("sync")
    assert (moved["documents"]["moved"], moved["documents"]["unchanged"]) == (3, 2)
    assert moved["embedded"]["texts"] == 0
    assert texts(project) == {
        "work": 1, "Ablage & ß": 1, "Ablage & ß!/offer.md": 1, "Ablage & ß!/plan.txt": 1, "INBOX": 1,
    }  # fmt: skip

    world.drop("work")
    world.put("work/b again", letter(1))
    renumbered = project.json("sync")
    assert (renumbered["documents"]["moved"], renumbered["embedded"]["texts"]) == (1, 0)

    world.flag("Ablage & ß/a", r"\Deleted")
    assert project.json("sync")["documents"]["removed"] == 3
    fresh = project_of(tmp_path, world, "fresh")
    fresh.json("sync")
    assert project.essence() == fresh.essence()


def test_what_cuts_in_takes_nothing_away(world: MailWorld, tmp_path: Path) -> None:
    project = project_of(tmp_path, world)
    for number in range(20):
        world.put(f"{number % 2}/{number}", letter(number))
    project.json("sync")
    before = project.essence()
    for number in range(20, 30):
        world.put(f"{number % 2}/{number}", letter(number) * 200)
    for after in (300, 2000, 5000, 20_000):
        world.proxy.cut(after)
        project.call("sync")
        assert not before - project.essence(), f"cut after {after} bytes"
    world.proxy.relent()
    project.json("sync")
    fresh = project_of(tmp_path, world, "fresh")
    fresh.json("sync")
    assert project.essence() == fresh.essence()
    assert sum(project.essence().values()) > sum(before.values())


def test_odd_mails_are_documents_or_have_a_reason_and_no_secret_is_told(
    world: MailWorld, tmp_path: Path
) -> None:
    odd = [
        b"",
        "Subject: \xdcbung \xe4\r\n\r\nGr\xfc\xdfe\r\n".encode("latin-1"),
        b"Subject: x\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n",
        b"no header at all\r\n",
        b"Subject: =?utf-8?b?/////?=\r\nDate: never\r\nFrom: <<>>\r\n\r\nwords\r\n",
        letter(1),
    ]
    for number, data in enumerate(odd):
        world.put(f"odd/{number}", data)
    world.put("large/a", letter(2) + (b"y" * 998 + b"\r\n") * 30_000)
    project = project_of(tmp_path, world, max_size="1MB")
    found = project.json("sync", code=None)["documents"]
    assert (found["added"], found["quarantined"]) == (len(odd), 1)
    status = project.call("status")
    assert "max_size is 1,000,000" in status.stdout

    world.deny()
    refused = project.call("sync")
    assert refused.returncode != 0
    assert "check `username` and `password`" in refused.stderr + project.call("status").stdout
    said = status.stdout + refused.stderr + refused.stdout
    assert PASSWORD not in said
    secret = PASSWORD.encode()
    files = [path for path in project.folder.rglob("*") if path.is_file() and path != project.config]
    assert files
    assert not [path for path in files if secret in path.read_bytes()]
