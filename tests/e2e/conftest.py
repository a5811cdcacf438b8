from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import forked_chroma
from tests.e2e.in_process import Ask
from tests.e2e.in_process import ask as ask
from tests.e2e.project import Daemon, Project


@pytest.fixture(scope="module", autouse=True)
def _forked_chroma() -> Iterator[None]:
    """Of these tests alone: the same process may run others after them, which start Chroma as people do."""
    with forked_chroma.from_server():
        yield


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def daemon(project: Project) -> Iterator[Daemon]:
    """Started before the test's first document is there."""
    running = project.start()
    yield running
    running.kill()


@pytest.fixture
def embedded(project: Project) -> Project:
    """A server of each command on a free port, and no service port for readers."""
    project.settings["chroma"] = {"path": "./chroma", "embedded": True}
    project.configure()
    return project


@pytest.fixture
def synced(project: Project, ask: Ask) -> Project:
    """Two documents, and nothing left to do."""
    project.source = {"settle": "0s"}
    project.configure()
    (project.docs / "a.txt").write_text("some words")
    (project.docs / "b.txt").write_text("other words")
    assert ask("sync").code == 0
    return project
