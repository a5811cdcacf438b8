from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.in_process import Ask
from tests.e2e.in_process import ask as ask
from tests.e2e.project import Daemon, Project


@pytest.fixture(scope="module", autouse=True)
def _forked(forked_chroma: None) -> None:
    """Fork Chroma in all of these tests."""


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
