"""Pausing a source and going on with it, with and without a daemon."""

from pathlib import Path

import pytest

from tests.e2e.project import Project
from tests.waiting import wait


def write(project: Project, *names: str, text: str = "A house by the river.") -> None:
    for name in names:
        (project.docs / f"{name}.md").write_text(f"# {name}\n\n{text}\n")


def test_nothing_is_done_for_a_paused_source_until_it_is_resumed(tmp_path: Path) -> None:
    project = Project(tmp_path)
    write(project, "a", "b")
    project.json("sync")
    before = project.essence()
    assert project.json("pause", "docs") == {"paused": ["docs"]}
    write(project, "a", text="Another text.")
    write(project, "c")
    (project.docs / "b.md").unlink()
    done = project.json("sync")
    assert done["paused"] == ["docs"]
    assert done["embedded"]["texts"] == 0
    assert project.essence() == before
    [problem] = project.json("plan")["problems"]
    assert problem == {"document": "docs", "reason": "paused"}
    assert "ingestor resume docs" in project.call("status").stdout

    assert project.json("resume") == {"resumed": ["docs"]}
    assert project.json("resume") == {"resumed": []}
    found = project.json("sync")["documents"]
    assert (found["added"], found["changed"], found["removed"]) == (1, 1, 1)
    assert project.essence() == project.fresh().essence()


def test_a_source_that_is_not_in_the_config(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.json("sync")
    done = project.call("pause", "notes")
    assert done.returncode == 2
    assert "no source 'notes' in the config; known: docs" in done.stderr


@pytest.mark.slow
def test_a_change_of_the_config_waits_while_paused_and_a_daemon_hears_of_both(tmp_path: Path) -> None:
    project = Project(tmp_path)
    write(project, *"abcdefgh")
    daemon = project.start()
    try:
        wait(lambda: project.settled(8))
        project.json("pause")
        project.settings |= {"chunking": {"strategy": "fixed", "size": 20}, "rechunk": "in_place"}
        project.configure()
        wait(lambda: project.poll("status")["sources"]["docs"]["due"] == 8)
        write(project, "i")  # the watcher hints at once; nothing may follow
        assert project.json("status")["sources"]["docs"]["due"] == 8
        project.json("resume")
        wait(lambda: project.settled(9))
        assert daemon.stop() == 0
    finally:
        daemon.kill()
    assert project.essence() == project.fresh().essence()
