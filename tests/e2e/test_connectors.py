"""Sources other than folders, through the whole program: at rest it is as from scratch, whatever happened."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.connectors.databases import DatabaseWorld, PostgresWorld
from tests.connectors.laws import World
from tests.connectors.mailboxes import mail_world
from tests.connectors.program_worlds import table_world
from tests.connectors.proxy import before
from tests.connectors.pushing import PushedWorld, endpoints
from tests.connectors.repositories import GitWorld, over_http
from tests.connectors.servers import postgres_server
from tests.connectors.shelves import ShelfWorld
from tests.connectors.sites import FeedWorld, SiteWorld, site
from tests.connectors.stores import ServedWorld, in_s3, s3_server
from tests.e2e.project import Project
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
    fresh = project_of(tmp_path, source, "fresh")
    fresh.json("sync")
    assert project.essence() == fresh.essence()

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
    daemon = project.start()
    try:
        wait(lambda: project.settled(4))
        world.put("new.md", b"# New\n\nA bridge.\n")
        wait(lambda: project.settled(5))
        world.put("1.md", b"# Title 1\n\nA lantern in the harbour.\n")
        wait(lambda: "harbour" in project.call("query", "lantern").stdout)
        assert daemon.stop() == 0, daemon.said()
    finally:
        daemon.kill()
    fresh = project_of(tmp_path, source, "fresh")
    fresh.json("sync")
    assert project.essence() == fresh.essence()
