"""A server that takes connections and never answers must not hold up the end of the program.

Each would be waited for a minute or longer; that the program ends within ``SOON`` is the bound of a hang, not
of a time.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.proxy import Proxy, before
from tests.connectors.served import in_s3
from tests.e2e.project import Daemon, Project
from tests.serving import silent
from tests.waiting import wait

SOON = 45.0

pytestmark = pytest.mark.slow


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


def _project(folder: Path, source: dict[str, Any]) -> Project:
    return Project(folder, {"sources": [{"name": "docs", "collection": "docs", **source}]})


def _ends(daemon: Daemon) -> None:
    try:
        assert daemon.stop(seconds=SOON) == 0
    finally:
        daemon.kill()


@pytest.mark.parametrize("kind", ["s3", "http", "sftp", "git", "postgres"])
def test_a_listing_that_gets_no_answer(kind: str, mute: Proxy, tmp_path: Path) -> None:
    for package in NEEDS.get(kind, ()):
        pytest.importorskip(package)
    project = _project(tmp_path / "project", _sources(mute.port, tmp_path / "clone")[kind])
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


def test_a_document_that_does_not_come(tmp_path: Path) -> None:
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    with in_s3(tmp_path) as world:
        for name in ("a", "b", "c"):
            world.put(f"{name}.md", f"# {name}\n\nA house by the river.\n".encode())
        world.proxy.mute = "/b.md"
        options = {**world.source["options"], "config_kwargs": {"read_timeout": 600}}
        project = _project(tmp_path / "project", {"kind": "files", **world.source, "options": options})
        daemon = project.start(as_people_do=True)  # a forked one ends without atexit
        try:
            wait(world.proxy.heard.is_set)
            wait(lambda: project.poll("status")["sources"]["docs"]["settled"] == 2)
        finally:
            _ends(daemon)
        world.proxy.relent()
        assert project.json("sync")["documents"]["added"] == 1
