"""Documents pushed to a running daemon, as a script or a webhook does."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.pushing import TOKEN, Caller
from tests.e2e.project import Daemon, Project, remote, running
from tests.serving import free_port
from tests.waiting import wait

PAGE = "# Harbour\n\nA lantern in the harbour.\n"


@pytest.fixture
def caller() -> Caller:
    return Caller(free_port())


@pytest.fixture
def project(tmp_path: Path, caller: Caller) -> Project:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    inbox = {"name": "inbox", "kind": "push", "folder": str(tmp_path / "pushed"), "token": "file:../token"}
    docs = {"name": "docs", "kind": "folder", "path": str(tmp_path / "project/docs"), "watch": "off"}
    sources = [{**inbox, "port": caller.port, "collection": "docs"}, {**docs, "collection": "docs"}]
    return Project(tmp_path / "project", {"scan_every": "1h", "sources": sources})


def source(project: Project, name: str) -> dict[str, Any]:
    found: dict[str, Any] = project.json("status")["sources"][name]
    return found


def documents(project: Project) -> dict[str, Any]:
    """One record's metadata a document, by source."""
    found = remote(project).get_collection("docs").get()
    return {meta["source"]: meta for meta in found["metadatas"]}


def test_pushed_documents_are_indexed_and_deleted_ones_removed(
    project: Project, daemon: Daemon, caller: Caller
) -> None:
    wait(caller.is_answered)
    assert caller.put("notes/a.md", PAGE.encode()).status == 201
    facts = json.dumps({"author": "Ada", "source": "https://wiki.example.org/b"})
    kind = {"Content-Type": "text/html", "Metadata": facts}
    assert caller.put("b", b"<h1>Bridge</h1><p>Over the river.</p>", **kind).status == 201
    wait(lambda: source(project, "inbox")["settled"] == 2)
    found = documents(project)
    assert found.keys() == {"notes/a.md", "https://wiki.example.org/b"}
    page = found["https://wiki.example.org/b"]
    assert (page["author"], page["content_type"], page["title"]) == ("Ada", "text/html", "Bridge")

    assert caller.delete("notes/a.md").status == 204
    wait(lambda: documents(project).keys() == {"https://wiki.example.org/b"})

    daemon.kill()
    assert project.json("sync")["documents"]["unchanged"] == 1, (
        "without the endpoint the file is read all the same"
    )
    whole = "".join(path.read_text(errors="replace") for path in project.folder.rglob("*.log"))
    assert "documents can be pushed to" in whole
    assert TOKEN not in whole + project.call("status").stdout
    assert all(TOKEN.encode() not in path.read_bytes() for path in (project.folder / "state").glob("*"))


def test_look_hastens_another_source(project: Project, daemon: Daemon, caller: Caller) -> None:
    wait(caller.is_answered)
    wait(lambda: source(project, "docs")["last_scan"])
    (project.docs / "a.txt").write_text("some words")
    wait(lambda: project.poll("status")["running"])
    assert source(project, "docs")["settled"] == 0, "nobody watches, and the next listing is an hour away"
    asked = f"http://127.0.0.1:{caller.port}/look?source=docs"
    command = ["curl", "--silent", "--fail", "-X", "POST", "-H", f"Authorization: Bearer {TOKEN}", asked]
    subprocess.run(command, check=True, capture_output=True)
    wait(lambda: source(project, "docs")["settled"] == 1)


@pytest.mark.slow
def test_changed_config_is_served_on_the_same_port(project: Project, daemon: Daemon, caller: Caller) -> None:
    wait(caller.is_answered)
    caller.put("a.md", PAGE.encode())
    config = project.config.read_text()
    project.config.write_text(config.replace("file:../token", "${UNSET:-an0ther}"))
    fresh = Caller(caller.port, {"Authorization": "Bearer an0ther"})
    wait(fresh.is_answered)
    assert caller.put("b.md", PAGE.encode()).status == 401
    assert fresh.put("b.md", PAGE.encode()).status == 201
    wait(lambda: source(project, "inbox")["settled"] == 2)
    assert "is not open" not in daemon.said()


@pytest.mark.slow
def test_pushed_documents_reach_both_collections_during_a_rebuild(
    project: Project, caller: Caller, tmp_path: Path
) -> None:
    project.settings["rechunk"] = "swap"
    project.configure()
    with running(project) as daemon:
        wait(caller.is_answered)
        for number in range(60):
            caller.put(f"{number}.md", f"# Page {number}\n\n{'A garden in winter. ' * 40}\n".encode())
        wait(lambda: source(project, "inbox")["settled"] == 60)
        project.settings["chunking"] = {"strategy": "recursive", "size": 30}
        project.configure()
        for number in range(60, 90):
            assert caller.put_sometime(f"{number}.md", b"# Late\n\nA late page.\n") == 201
        wait(lambda: source(project, "inbox")["settled"] == 90 and not source(project, "inbox")["due"])
        assert "is not open" not in daemon.said()
        assert daemon.stop() == 0
    project.json("sync")
    fresh = Project(tmp_path / "fresh", project.settings)
    fresh.json("sync")
    assert project.essence() == fresh.essence()
