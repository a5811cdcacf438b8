"""Sources that are cut off, and a program that is killed, in the middle: nothing is lost or wrongly removed.

What did not change is neither fetched nor embedded again: the servers count.
"""

import random
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.databases import PostgresWorld
from tests.connectors.proxy import Proxy, before
from tests.connectors.repositories import over_http as git_over_http
from tests.connectors.served import SERVED
from tests.connectors.servers import postgres_server
from tests.connectors.sites import FeedWorld, Site, SiteWorld, site
from tests.e2e.project import INGESTOR, Project
from tests.waiting import wait

DOCUMENTS = 12
SOME = 40_000  # bytes: more than a listing, and much less than all documents
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
    "webdav": partial(_files, "webdav"),
    "http": partial(_files, "http"),
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


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


@pytest.mark.parametrize("kind", MAKES)
def test_killed_and_cut_off_in_the_middle(kind: str, tmp_path: Path) -> None:
    with MAKES[kind](tmp_path) as cut:
        world = cut.world
        for number in range(DOCUMENTS):
            world.put(f"docs/{number}.md", _text(number))
        project = _project(tmp_path / "project", cut)
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
        fresh = _project(tmp_path / "fresh", cut)
        fresh.json("sync")
        assert project.essence() == fresh.essence()


def _project(folder: Path, cut: Cut) -> Project:
    source = {"name": "docs", "collection": "docs", **cut.source}
    return Project(folder, {"sources": [source], "chunking": {"strategy": "fixed", "size": 2000}})
