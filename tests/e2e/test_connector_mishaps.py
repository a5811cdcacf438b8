"""Sources behind servers that go and come back, and a program that is killed while it reads them."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.served import SERVED
from tests.e2e.project import Daemon, Project
from tests.waiting import wait

DOCUMENTS = 40
SOME = 60_000  # bytes: more than a listing, and much less than all documents

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def _text(number: int, word: str = "river") -> bytes:
    paragraphs = (f"A house by the {word}, page {page} of {number}." for page in range(150))
    return f"# Title {number}\n\n{chr(10).join(paragraphs)}\n".encode()


@pytest.fixture(params=["s3", "sftp", "smb"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    make, packages = SERVED[request.param]
    for package in packages:
        pytest.importorskip(package)
    with make(tmp_path) as world:
        for number in range(DOCUMENTS):
            world.put(f"docs/{number}.md", _text(number))
        yield world


@pytest.fixture
def project(world: Any, tmp_path: Path) -> Project:
    return _project(world, tmp_path / "project")


def _project(world: Any, folder: Path) -> Project:
    source = {"name": "docs", "collection": "docs", "kind": "files", "scan_every": "2s", **world.source}
    return Project(folder, {"sources": [source]})


def _changed(world: Any) -> int:
    """How many documents there are then: another number, which is settled only after the changes are seen."""
    world.put("docs/1.md", _text(1, "harbour"))
    world.delete("docs/2.md")
    world.move("docs/3.md", "moved/3.md")
    world.put("docs/new.md", _text(1000))
    world.put("docs/newer.md", _text(1001))
    return DOCUMENTS + 1


def _as_from_scratch(project: Project, world: Any) -> None:
    last = project.json("sync")
    assert (last["documents"]["failed"], last["embedded"]["texts"]) == (0, 0)
    fresh = _project(world, project.folder.with_name("fresh"))
    fresh.json("sync")
    assert project.essence() == fresh.essence()


def test_the_server_goes_in_the_middle_and_comes_back(world: Any, project: Project) -> None:
    world.proxy.budget = SOME
    daemon = project.start()
    try:
        wait(world.proxy.spent.is_set)
        if world.server:
            world.server.kill()
        time.sleep(3)
        assert daemon.process.poll() is None
        if world.server:
            world.server.start()
        world.proxy.relent()
        wait(lambda: project.settled(DOCUMENTS), 120)
        documents = _changed(world)
        wait(lambda: project.settled(documents), 120)
        assert daemon.stop() == 0
    finally:
        daemon.kill()
    _as_from_scratch(project, world)


def test_connections_that_break_off_again_and_again(world: Any, project: Project) -> None:
    """Each brings a part of what there is to read."""
    world.proxy.cut(SOME)
    daemon = project.start()
    try:
        wait(lambda: project.settled(DOCUMENTS), 240)
        assert daemon.stop() == 0
    finally:
        daemon.kill()
    world.proxy.relent()
    _changed(world)
    wait(lambda: project.call("sync").returncode == 0, 300)
    _as_from_scratch(project, world)


def test_a_sync_finds_the_server_gone_in_the_middle(world: Any, project: Project) -> None:
    if world.server is None:
        pytest.skip("s3fs tries again for minutes before each document is given up")
    world.proxy.budget = SOME
    done = project.call("sync")
    assert done.returncode != 0
    assert world.secret not in done.stderr
    world.proxy.relent()
    _changed(world)
    wait(lambda: project.call("sync").returncode == 0, 300)  # what failed often is tried again later
    _as_from_scratch(project, world)


def _started(project: Project) -> Daemon | None:
    """None while the Chroma of the one that was killed has not noticed yet, and holds the folder."""
    daemon = project.start()
    wait(lambda: daemon.process.poll() is not None or "Chroma listens" in daemon.said())
    return daemon if daemon.process.poll() is None else None


def test_kill_nine_in_the_middle(world: Any, project: Project) -> None:
    for kill in range(3):
        world.proxy.budget = SOME
        daemon = wait(lambda: _started(project))
        wait(lambda: world.proxy.spent.is_set() or project.settled(DOCUMENTS), 200)
        daemon.kill()
        world.proxy.relent()
        world.put(f"docs/{kill}.md", _text(kill, "lantern"))
    _changed(world)
    wait(lambda: project.call("sync").returncode == 0, 300)
    _as_from_scratch(project, world)
