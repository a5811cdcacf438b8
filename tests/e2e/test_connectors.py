"""Sources through the whole program: at rest, cut off, silent, hanging, and pushed."""

import json
import random
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.databases import DatabaseWorld, PostgresWorld
from tests.connectors.mailboxes import mail_world
from tests.connectors.proxy import Proxy, before
from tests.connectors.pushing import TOKEN, Caller
from tests.connectors.repositories import over_http as git_over_http
from tests.connectors.servers import postgres_server
from tests.connectors.sites import FeedWorld, Site, SiteWorld, site
from tests.connectors.stores import SERVED, ServedWorld, over_s3
from tests.e2e.project import INGESTOR, Daemon, Project, remote, running
from tests.hanging_mount import OPENDIR, READ, hanging_mount
from tests.pipeline.packed import zipped
from tests.serving import free_port, silent
from tests.waiting import wait

Made = tuple[Any, dict[str, Any]]


@contextmanager
def _folder(folder: Path) -> Iterator[Made]:
    source = {"url": f"file://{folder}/served/root"}
    yield ServedWorld(folder / "served", **source), {"kind": "files", **source}


@contextmanager
def _sql(folder: Path) -> Iterator[Made]:
    pytest.importorskip("sqlalchemy")
    world = DatabaseWorld(folder / "database")
    yield world, {"kind": "sql", **world.source}


@contextmanager
def _imap(folder: Path) -> Iterator[Made]:
    del folder
    with mail_world() as world:
        yield world, {"kind": "imap", **world.source}


AT_REST = {"files": _folder, "imap": _imap, "sql": _sql}


# tests/connectors/laws.py has every connector, and the servers below are compared when they were cut off
@pytest.mark.parametrize(
    "kind", ["files", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("imap", "sql"))]
)
def test_collection_at_rest_equals_a_fresh_one(kind: str, tmp_path: Path) -> None:
    with AT_REST[kind](tmp_path) as (world, source):
        project = of_source(tmp_path / "project", source, chroma={"path": "./chroma", "embedded": True})
        if kind == "imap":  # a command in this process leaves connections open; the server allows six
            project.under = ("env",)
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
        if kind == "imap":  # a message never changes: another one takes its place
            edited = {"added": 2, "removed": 2}
        assert {key: count for key, count in found.items() if count} == {"moved": 1, "unchanged": 1, **edited}
        before = project.essence()
        assert before == project.fresh().essence()
        world.fail()
        assert project.call("sync").returncode != 0
        assert project.essence() == before, "nothing is removed while the source can't be reached"


def of_source(folder: Path, source: dict[str, Any], **settings: Any) -> Project:
    return Project(folder, {"sources": [{"name": "docs", "collection": "docs", **source}], **settings})


def test_archive_without_the_option_names_it(project: Project) -> None:
    (project.docs / "a.zip").write_bytes(zipped({"one.md": "First words."}))
    assert project.json("sync")["documents"]["unsupported"] == 1
    assert "`archives: true`" in project.call("status").stdout


# --- Sources whose server stops or breaks off: no document is lost, and the program ends ---
DOCUMENTS = 12
SOME = 40_000  # bytes: more than a listing, and much less than all documents
COARSE = {"strategy": "fixed", "size": 2000}
WORDS = ("river", "house", "garden", "winter", "lantern", "harbour", "bridge", "meadow")


@dataclass
class Cut:
    """A world behind a proxy, and how often a document was sent by its server."""

    world: Any
    source: dict[str, Any]
    proxy: Proxy
    reads: Callable[[], int]


@contextmanager
def _git(folder: Path) -> Iterator[Cut]:
    with git_over_http(folder / "origin") as world:
        source = {"kind": "git", **world.source, "cache": str(folder / "clone")}
        yield Cut(world, source, world._proxy, world.reads)


@contextmanager
def _postgres(folder: Path) -> Iterator[Cut]:
    pytest.importorskip("sqlalchemy")
    pytest.importorskip("psycopg")
    with postgres_server() as server, before(server.port) as proxy:
        world = PostgresWorld(server.folder, server.port, proxy)
        yield Cut(world, {"kind": "sql", **world.source}, proxy, world.reads)


@contextmanager
def _files(how: str, folder: Path) -> Iterator[Cut]:
    make, packages = SERVED[how]
    for package in packages:
        pytest.importorskip(package)
    with make(folder) as world:
        yield Cut(world, {"kind": "files", **world.source}, world.proxy, world.reads)


@contextmanager
def _site(kind: str, make: Callable[[Site, Path], Any], folder: Path) -> Iterator[Cut]:
    with site() as server, before(server.port) as proxy:
        world = make(server, folder / "kept")
        source = {"kind": kind, **world.source}
        for name in ("start", "url"):
            if name in source:
                source[name] = _through(source[name], server.port, proxy.port)
        yield Cut(world, source, proxy, world.reads)


def _through(address: Any, port: int, proxy: int) -> Any:
    if isinstance(address, list):
        return [_through(each, port, proxy) for each in address]
    return address.replace(f":{port}/", f":{proxy}/")


MAKES: dict[str, Callable[[Path], AbstractContextManager[Cut]]] = {
    "git": _git,
    "postgres": _postgres,
    "sitemap": partial(_site, "web", SiteWorld),
    "links": partial(_site, "web", partial(SiteWorld, follow="links")),
    "feed": partial(_site, "feed", FeedWorld),
    **{how: partial(_files, how) for how in ("webdav", "http", "s3", "sftp", "smb")},
}


def _text(number: int, word: str = "") -> bytes:
    """About 10,000 bytes that can't be made much smaller."""
    chosen = random.Random(f"{number} {word}")
    lines = (f"{chosen.choice(WORDS)} {chosen.getrandbits(400):x}" for _ in range(90))
    return f"# Title {number} {word}\n\n{chr(10).join(lines)}\n".encode()


def _killed(project: Project, cut: Cut) -> None:
    """A sync that ends at once when the server has said enough."""
    cut.proxy.budget = SOME
    command = [str(INGESTOR), "sync", "--config", str(project.config)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        assert cut.proxy.spent.wait(60)
        process.kill()
    cut.proxy.relent()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", MAKES)
def test_sync_killed_and_cut_off_recovers(kind: str, tmp_path: Path) -> None:
    with MAKES[kind](tmp_path) as cut:
        world = cut.world
        for number in range(DOCUMENTS):
            world.put(f"docs/{number}.md", _text(number))
        project = of_source(tmp_path / "project", cut.source, chunking=COARSE)
        _killed(project, cut)
        wait(lambda: project.call("sync").returncode == 0, 120)
        before = {meta["source"] for _, _, meta, _ in project.records()}
        assert len(before) == DOCUMENTS

        for number in range(3, DOCUMENTS):
            world.put(f"docs/{number}.md", _text(number, "changed"))
        world.put("docs/new.md", _text(1000))
        cut.proxy.budget = SOME
        assert project.call("sync").returncode != 0
        assert cut.proxy.spent.is_set()
        assert {meta["source"] for _, _, meta, _ in project.records()} >= before
        cut.proxy.relent()
        world.delete("docs/2.md")
        _killed(project, cut)
        wait(lambda: project.call("sync").returncode == 0, 120)

        read = cut.reads()
        again = project.json("sync")
        assert again["documents"]["unchanged"] == DOCUMENTS
        assert (again["embedded"]["texts"], cut.reads()) == (0, read)
        fresh = of_source(tmp_path / "fresh", cut.source, chunking=COARSE)
        fresh.json("sync")
        assert project.essence() == fresh.essence()


# --- A server that takes connections and never answers must not hold up the end of the program ---
SOON = 45.0


@pytest.fixture
def mute() -> Iterator[Proxy]:
    with silent() as port, before(port) as proxy:
        proxy.silent = True
        yield proxy


def _sources(port: int, cache: Path) -> dict[str, dict[str, Any]]:
    address = f"http://127.0.0.1:{port}"
    waiting = {"config_kwargs": {"read_timeout": 600}}
    login = {"key": "k", "secret": "s"}
    ssh = {"port": port, "banner_timeout": 600}
    return {
        "s3": {"kind": "files", "url": "s3://docs", "options": {"endpoint_url": address, **login, **waiting}},
        "http": {"kind": "files", "url": f"{address}/docs"},
        "sftp": {"kind": "files", "url": "sftp://127.0.0.1/docs", "options": ssh},
        "git": {"kind": "git", "url": f"{address}/x.git", "cache": str(cache)},
        "postgres": {
            "kind": "sql", "url": f"postgresql+psycopg://a@127.0.0.1:{port}/a?connect_timeout=600",
            "query": "SELECT 1 AS key", "key": "key", "text": "{key}",
        },
    }  # fmt: skip


NEEDS = {"s3": ("s3fs",), "http": ("aiohttp",), "sftp": ("paramiko",), "postgres": ("sqlalchemy", "psycopg")}


def _ends(daemon: Daemon) -> None:
    try:
        assert daemon.stop(seconds=SOON) == 0
    finally:
        daemon.kill()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["s3", "http", "sftp", "git", "postgres"])
def test_listing_without_an_answer_is_transient(kind: str, mute: Proxy, tmp_path: Path) -> None:
    for package in NEEDS.get(kind, ()):
        pytest.importorskip(package)
    project = of_source(tmp_path / "project", _sources(mute.port, tmp_path / "clone")[kind])
    daemon = project.start(as_people_do=True)  # a forked one ends without atexit
    try:
        wait(lambda: mute.heard.is_set() or daemon.process.poll() is not None)
    finally:
        _ends(daemon)
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if _says(path, str(tmp_path / "clone"))]
    assert left == [], "it leaves no process behind"


def _says(path: Path, text: str) -> bool:
    try:
        return text in path.read_text(errors="replace")
    except OSError:
        return False


@pytest.mark.slow
def test_document_without_an_answer_is_transient(tmp_path: Path) -> None:
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    with over_s3(tmp_path) as world:
        for name in ("a", "b", "c"):
            world.put(f"{name}.md", f"# {name}\n\nA house by the river.\n".encode())
        world.proxy.mute = "/b.md"
        options = {**world.source["options"], "config_kwargs": {"read_timeout": 600}}
        project = of_source(tmp_path / "project", {"kind": "files", **world.source, "options": options})
        daemon = project.start(as_people_do=True)  # a forked one ends without atexit
        try:
            wait(world.proxy.heard.is_set)
            wait(lambda: project.poll("status")["sources"]["docs"]["settled"] == 2)
        finally:
            _ends(daemon)
        world.proxy.relent()
        assert project.json("sync")["documents"]["added"] == 1


# --- A source on a network file system that hangs in the kernel holds up no other source, nor the end ---


@pytest.mark.slow
@pytest.mark.parametrize("silent", [READ, OPENDIR], ids=["reading", "listing"])
def test_hanging_file_system_holds_up_no_other_source(tmp_path: Path, silent: int) -> None:
    mount = tmp_path / "mount"
    mount.mkdir()
    source = {"kind": "folder", "collection": "docs", "settle": "200ms"}
    sources = [{"name": "hung", "path": str(mount), **source}, {"name": "docs", "path": "./docs", **source}]
    project = Project(tmp_path / "project", {"sources": sources})
    names = [f"{number}.txt" for number in range(60)]

    def state(name: str) -> Any:
        return project.json("status")["sources"][name]

    with hanging_mount(mount, names, silent), running(project) as daemon:
        wait(lambda: "Chroma listens" in daemon.said())
        wait(lambda: state("hung")["listing"] if silent == OPENDIR else state("hung")["in_flight"] >= 12)
        (project.docs / "ordinary.txt").write_text("a lantern hangs beside it")
        wait(lambda: state("docs")["settled"] == 1)
        assert daemon.stop() == 0


# --- Documents pushed to a running daemon, as a script or a webhook does ---


def test_pushed_documents_are_indexed_removed_and_a_look_hastens_another_source(tmp_path: Path) -> None:
    caller = Caller(free_port())
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    inbox = {"name": "inbox", "kind": "push", "folder": str(tmp_path / "pushed"), "token": "file:../token"}
    docs = {"name": "docs", "kind": "folder", "path": str(tmp_path / "project/docs"), "watch": "off"}
    sources = [{**inbox, "port": caller.port, "collection": "docs"}, {**docs, "collection": "docs"}]
    project = Project(tmp_path / "project", {"scan_every": "1h", "sources": sources})

    def settled(source: str) -> Any:
        found = project.poll("status")["sources"][source]
        return found["last_scan"] and found["settled"]

    def documents() -> dict[str, Any]:
        found = remote(project).get_collection("docs").get()
        return {meta["source"]: meta for meta in found["metadatas"]}

    with running(project):
        wait(caller.is_answered)
        assert caller.put("notes/a.md", b"# Harbour\n\nA lantern in the harbour.\n").status == 201
        facts = json.dumps({"author": "Ada", "source": "https://wiki.example.org/b"})
        kind = {"Content-Type": "text/html", "Metadata": facts}
        assert caller.put("b", b"<h1>Bridge</h1><p>Over the river.</p>", **kind).status == 201
        wait(lambda: settled("inbox") == 2)
        assert documents().keys() == {"notes/a.md", "https://wiki.example.org/b"}
        page = documents()["https://wiki.example.org/b"]
        assert (page["author"], page["content_type"], page["title"]) == ("Ada", "text/html", "Bridge")
        assert caller.delete("notes/a.md").status == 204
        wait(lambda: documents().keys() == {"https://wiki.example.org/b"})

        assert wait(lambda: settled("docs") is not None and settled("docs") == 0)
        (project.docs / "a.txt").write_text("some words")
        assert settled("docs") == 0, "nobody watches, and the next listing is an hour away"
        asked = f"http://127.0.0.1:{caller.port}/look?source=docs"
        command = ["curl", "--silent", "--fail", "-X", "POST", "-H", f"Authorization: Bearer {TOKEN}", asked]
        subprocess.run(command, check=True, capture_output=True)
        wait(lambda: settled("docs") == 1)
    assert project.json("sync")["documents"]["unchanged"] == 2, "files need no endpoint"
    whole = "".join(path.read_text(errors="replace") for path in project.folder.rglob("*.log"))
    assert "documents can be pushed to" in whole
    assert TOKEN not in whole + project.call("status").stdout
    assert all(TOKEN.encode() not in path.read_bytes() for path in (project.folder / "state").glob("*"))
