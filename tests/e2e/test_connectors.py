"""Sources through the whole program: a source at rest equals one indexed from scratch, whatever happened."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.connectors.databases import DatabaseWorld, PostgresWorld
from tests.connectors.laws import World
from tests.connectors.mailboxes import mail_world
from tests.connectors.program_worlds import ShelfWorld, table_world
from tests.connectors.proxy import before
from tests.connectors.pushing import PushedWorld, endpoints
from tests.connectors.repositories import GitWorld, over_http
from tests.connectors.servers import postgres_server
from tests.connectors.sites import FeedWorld, SiteWorld, site
from tests.connectors.stores import ServedWorld, in_s3, s3_server
from tests.e2e.project import Project, running
from tests.pipeline.packed import zipped
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
def test_collection_at_rest_equals_a_fresh_one(kind: str, tmp_path: Path) -> None:
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


def test_archive_without_the_option_names_it(project: Project) -> None:
    (project.docs / "a.zip").write_bytes(zipped({"one.md": "First words."}))
    assert project.json("sync")["documents"]["unsupported"] == 1
    assert "`archives: true`" in project.call("status").stdout


LOADERS = Path(__file__).parents[1] / "connectors/loaders.py"


def code(folder: Path, name: str, **arguments: str) -> Project:
    shutil.copy(LOADERS, folder)
    source = {"kind": "python", "call": f"loaders:{name}", "folder": str(folder), "arguments": arguments}
    return project_of(folder, source)


def test_code_that_prints_and_silences_logs_does_not_disturb_the_answer(tmp_path: Path) -> None:
    found = code(tmp_path, "noisy", text="# A house\n\nBy the river.\n").json("sync")
    assert found["documents"]["added"] == 1


@pytest.mark.slow
def test_hanging_requests_do_not_delay_the_end(tmp_path: Path) -> None:
    project = code(tmp_path, "hanging", pids=str(tmp_path / "pid"))
    with running(project, as_people_do=True) as daemon:  # a forked one ends without atexit
        pid = int(wait(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
        assert daemon.stop() == 0, daemon.said()
    wait(lambda: not Path(f"/proc/{pid}").exists())
