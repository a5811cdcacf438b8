"""Sources through the whole program: a source at rest equals one indexed from scratch, whatever happened."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.connectors.databases import DatabaseWorld, PostgresWorld
from tests.connectors.laws import World
from tests.connectors.mailboxes import PASSWORD, MailWorld, mail_world
from tests.connectors.program_worlds import table_world
from tests.connectors.proxy import before
from tests.connectors.pushing import PushedWorld, endpoints
from tests.connectors.repositories import GitWorld, over_http
from tests.connectors.servers import postgres_server
from tests.connectors.shelves import ShelfWorld
from tests.connectors.sites import FeedWorld, SiteWorld, site
from tests.connectors.stores import ServedWorld, in_s3, s3_server
from tests.e2e.project import Project, running
from tests.pipeline.packed import mailed, tarred, zipped
from tests.waiting import wait

Made = tuple[World, dict[str, object]]


@contextmanager
def _git(folder: Path) -> Iterator[Made]:
    world = GitWorld(folder / "origin")
    yield world, {"kind": "git", "url": str(world.root), "cache": str(folder / "clone")}


@contextmanager
def _files(folder: Path) -> Iterator[Made]:
    source: dict[str, object] = {"url": f"file://{folder}/served/root"}
    yield ServedWorld(folder / "served", **source), {"kind": "files", **source}


@contextmanager
def _s3(folder: Path) -> Iterator[Made]:
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    with s3_server() as server:
        world = in_s3(server)
        yield world, {"kind": "files", **world.source}


@contextmanager
def _sql(folder: Path) -> Iterator[Made]:
    pytest.importorskip("sqlalchemy")
    world = DatabaseWorld(folder / "database")
    yield world, {"kind": "sql", **world.source}


@contextmanager
def _postgres(folder: Path) -> Iterator[Made]:
    pytest.importorskip("sqlalchemy")
    pytest.importorskip("psycopg")
    with postgres_server() as server, before(server.port) as proxy:
        world = PostgresWorld(server.folder, server.port, proxy)
        yield world, {"kind": "sql", **world.source}


@contextmanager
def _git_http(folder: Path) -> Iterator[Made]:
    with over_http(folder / "origin") as world:
        yield world, {"kind": "git", **world.source, "cache": str(folder / "clone")}


@contextmanager
def _python(folder: Path) -> Iterator[Made]:
    world = ShelfWorld(folder / "shelf")
    yield world, {"kind": "python", **world.source, "folder": str(world.source["folder"])}


@contextmanager
def _push(folder: Path) -> Iterator[Made]:
    with endpoints() as served:
        world = PushedWorld(folder / "root", served)
        yield world, {"kind": "push", **world.source}


@contextmanager
def _imap(folder: Path) -> Iterator[Made]:
    del folder
    with mail_world() as world:
        yield world, {"kind": "imap", **world.source}


@contextmanager
def _web(folder: Path) -> Iterator[Made]:
    with site() as server:
        world = SiteWorld(server, folder / "cache", "links")
        yield world, {"kind": "web", **world.source}


@contextmanager
def _feed(folder: Path) -> Iterator[Made]:
    with site() as server:
        world = FeedWorld(server, folder / "state")
        yield world, {"kind": "feed", **world.source}


@contextmanager
def _langchain(folder: Path) -> Iterator[Made]:
    pytest.importorskip("langchain_community")
    world = table_world(folder / "table")
    yield world, {"kind": "langchain", **world.source}


@contextmanager
def _llamahub(folder: Path) -> Iterator[Made]:
    pytest.importorskip("llama_index.core")
    world = ShelfWorld(folder / "shelf")
    arguments = {"input_dir": str(world.root), "recursive": True}
    yield world, {"kind": "llamahub", "reader": "SimpleDirectoryReader", "arguments": arguments}


MAKES: dict[str, Callable[[Path], AbstractContextManager[Made]]] = {
    "git": _git,
    "git-http": _git_http,
    "postgres": _postgres,
    "imap": _imap,
    "files": _files,
    "s3": _s3,
    "sql": _sql,
    "python": _python,
    "langchain": _langchain,
    "llamahub": _llamahub,
    "push": _push,
    "web": _web,
    "feed": _feed,
}
QUICK = "files"
KINDS = [kind if kind == QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in MAKES]


def project_of(folder: Path, source: dict[str, object], name: str = "project") -> Project:
    whole = {"name": "docs", "collection": "docs", **source}
    return Project(folder / name, {"sources": [whole]})


@pytest.mark.parametrize("kind", KINDS)
def test_at_rest_it_is_as_from_scratch(kind: str, tmp_path: Path) -> None:
    with MAKES[kind](tmp_path) as (world, source):
        _follow(world, source, tmp_path)


def _follow(world: World, source: dict[str, object], tmp_path: Path) -> None:
    project = project_of(tmp_path, source)
    project.settings["chroma"] = {"path": "./chroma", "embedded": True}
    project.configure()
    for number in range(4):
        world.put(f"docs/{number}.md", f"# Title {number}\n\nA house by the river {number}.\n".encode())
    assert project.json("sync")["documents"]["added"] == 4
    unchanged = project.json("sync")
    assert (unchanged["documents"]["unchanged"], unchanged["embedded"]["texts"]) == (4, 0)

    world.put("docs/new.md", b"# New\n\nA bridge.\n")
    world.put("docs/1.md", b"# Title 1\n\nA lantern in the harbour.\n")
    world.delete("docs/2.md")
    world.move("docs/3.md", "moved/3.md")
    found = project.json("sync")["documents"]
    edited = {"added": 1, "changed": 1, "removed": 1}
    if source["kind"] == "imap":  # a message never changes: another one takes its place
        edited = {"added": 2, "removed": 2}
    assert {key: count for key, count in found.items() if count} == {"moved": 1, "unchanged": 1, **edited}
    assert project.essence() == project.fresh().essence()

    before = project.essence()
    world.fail()
    assert project.call("sync").returncode != 0
    assert project.essence() == before, "nothing is removed while the source can't be reached"


BREAKS_OFF = """
from pathlib import Path

def pages():
    for number in range(20):
        if number == 3 and Path(__file__).with_name("broken").exists():
            raise ConnectionResetError("cut off")
        yield {"key": str(number), "text": f"# Page {number}\\n\\nA garden in winter {number}.\\n"}
"""


@pytest.mark.slow
def test_a_listing_that_is_cut_off_removes_nothing(tmp_path: Path) -> None:
    (tmp_path / "pages.py").write_text(BREAKS_OFF)
    source: dict[str, object] = {"kind": "python", "call": "pages:pages", "folder": str(tmp_path)}
    project = project_of(tmp_path, source)
    assert project.json("sync")["documents"]["added"] == 20
    before = project.essence()
    (tmp_path / "broken").touch()
    done = project.call("sync")
    assert done.returncode != 0
    assert "cut off" in done.stderr
    assert project.essence() == before
    (tmp_path / "broken").unlink()
    assert project.json("sync")["documents"]["unchanged"] == 20


@pytest.mark.slow
def test_rows_that_are_written_are_indexed_long_before_the_next_listing(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    world = DatabaseWorld(tmp_path / "database", cursor="version", poll="100ms")
    for number in range(4):
        world.put(f"{number}.md", f"# Title {number}\n\nA house by the river.\n".encode())
    source = {"kind": "sql", "scan_every": "1h", **world.source}
    project = project_of(tmp_path, source)
    with running(project) as daemon:
        wait(lambda: project.settled(4))
        world.put("new.md", b"# New\n\nA bridge.\n")
        wait(lambda: project.settled(5))
        world.put("1.md", b"# Title 1\n\nA lantern in the harbour.\n")
        wait(lambda: "harbour" in project.call("query", "lantern").stdout)
        assert daemon.stop() == 0, daemon.said()
    fresh = project_of(tmp_path, source, "fresh")
    fresh.json("sync")
    assert project.essence() == fresh.essence()


# --- Archives and mails through the real program: members come, change and go as files do ---


def places(project: Project) -> list[str]:
    return sorted(
        {str(Path(meta["source"]).relative_to(project.docs)) for _, _, meta, _ in project.records()}
    )


@pytest.mark.slow
def test_members_are_kept_exactly_in_step(project: Project) -> None:
    project.source["archives"] = True
    project.configure()
    (project.docs / "a.zip").write_bytes(
        zipped({"one.md": "# One\n\nFirst words.", "d/two.md": "Second words."})
    )
    (project.docs / "b.tgz").write_bytes(tarred({"three.txt": "Third words."}, "w:gz"))
    (project.docs / "mail.eml").write_bytes(
        mailed({"four.md": "Fourth words.", "in.zip": zipped({"5.md": "Fifth."})})
    )
    assert project.json("sync")["documents"]["added"] == 9
    members = ["a.zip!/d/two.md", "a.zip!/one.md", "b.tgz!/three.txt", "mail.eml"]
    assert places(project) == [*members, "mail.eml!/four.md", "mail.eml!/in.zip!/5.md"]

    quiet = project.json("sync")
    assert (quiet["documents"]["unchanged"], sum(quiet["records"].values())) == (9, 0)

    (project.docs / "a.zip").write_bytes(
        zipped({"one.md": "# One\n\nOther words.", "e/two.md": "Second words.", "new.md": "New words."})
    )
    changed = project.json("sync")
    assert changed["embedded"]["texts"] == 2, "a renamed member is not embedded again"
    counted = ("added", "changed", "moved", "removed", "quarantined")
    assert [changed["documents"][count] for count in counted] == [1, 1, 1, 0, 0]
    assert project.essence() == project.fresh().essence()

    (project.docs / "a.zip").unlink()
    (project.docs / "mail.eml").rename(project.docs / "moved.eml")
    assert project.json("sync")["records"] == {"added": 0, "replaced": 0, "patched": 3, "dropped": 3}
    assert project.essence() == project.fresh("again").essence()


@pytest.mark.slow
def test_a_broken_archive_is_one_document_with_a_reason(project: Project) -> None:
    project.source["archives"] = True
    project.configure()
    sound = zipped({"one.md": "First words.", "two.md": "Second words."})
    (project.docs / "a.zip").write_bytes(sound)
    project.json("sync")
    (project.docs / "a.zip").write_bytes(sound[:-30])
    assert project.json("sync", code=None)["documents"]["quarantined"] == 1
    assert "the archive is damaged" in project.call("status").stdout
    assert places(project) == ["a.zip!/one.md", "a.zip!/two.md"]


def test_without_the_option_an_archive_says_what_would_open_it(project: Project) -> None:
    (project.docs / "a.zip").write_bytes(zipped({"one.md": "First words."}))
    assert project.json("sync")["documents"]["unsupported"] == 1
    assert "`archives: true`" in project.call("status").stdout


# --- Code of others, through the whole program: whatever they do, it goes on, and it ends ---
LOADERS = Path(__file__).parents[1] / "connectors/loaders.py"


def code(folder: Path, name: str, **arguments: str) -> Project:
    shutil.copy(LOADERS, folder)
    source = {"kind": "python", "call": f"loaders:{name}", "folder": str(folder), "arguments": arguments}
    return project_of(folder, source)


def test_code_that_prints_and_silences_logs_does_not_disturb_the_answer(tmp_path: Path) -> None:
    found = code(tmp_path, "noisy", text="# A house\n\nBy the river.\n").json("sync")
    assert found["documents"]["added"] == 1


@pytest.mark.slow
def test_what_hangs_does_not_hold_up_the_end(tmp_path: Path) -> None:
    project = code(tmp_path, "hanging", pids=str(tmp_path / "pid"))
    with running(project, as_people_do=True) as daemon:  # a forked one ends without atexit
        pid = int(wait(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
        assert daemon.stop() == 0, daemon.said()
    wait(lambda: not Path(f"/proc/{pid}").exists())


# --- Mail folders through the whole program, against a real mail server: runs where dovecot is installed ---


@pytest.fixture
def world() -> Iterator[MailWorld]:
    with mail_world() as world:
        yield world


def mail_project(folder: Path, world: MailWorld, name: str = "project", **options: object) -> Project:
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


@pytest.mark.slow
def test_attachments_moves_and_folders_made_anew(world: MailWorld, tmp_path: Path) -> None:
    project = mail_project(tmp_path, world)
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
    fresh = mail_project(tmp_path, world, "fresh")
    fresh.json("sync")
    assert project.essence() == fresh.essence()


@pytest.mark.slow
def test_what_cuts_in_takes_nothing_away(world: MailWorld, tmp_path: Path) -> None:
    project = mail_project(tmp_path, world)
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
    fresh = mail_project(tmp_path, world, "fresh")
    fresh.json("sync")
    assert project.essence() == fresh.essence()
    assert sum(project.essence().values()) > sum(before.values())


@pytest.mark.slow
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
    project = mail_project(tmp_path, world, max_size="1MB")
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
