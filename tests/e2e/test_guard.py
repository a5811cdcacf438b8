"""Rights: the guard in front of Chroma with a token, and files that only their user may read."""

import os
from pathlib import Path

import chromadb
import pytest
from chromadb.config import Settings
from chromadb.errors import AuthorizationError

from ingestor.chroma import processes
from tests.connectors.folders import run_python
from tests.e2e.project import Project, running
from tests.waiting import wait

TOKEN = "s3cret-of-the-tests"


@pytest.fixture
def with_token(project: Project) -> Project:
    (project.folder / "token").write_text(f"{TOKEN}\n")
    project.settings = {"chroma": {"path": "./chroma", "port": project.port, "token": "file:token"}}
    project.configure()
    (project.docs / "a.txt").write_text("words of the harbour")
    return project


def test_token_is_sent_by_our_commands_and_required_of_readers(with_token: Project) -> None:
    project = with_token
    with running(project) as daemon:
        wait(lambda: project.settled(1))
        status = project.json("status")
        assert status["collections"]["docs"]["healthy"]
        assert status["guard"].startswith("host and origin checks, token")
        assert f"Chroma's port: {status['guard']}" in " ".join(project.call("status", "-v").stdout.split())
        assert "Chroma's port" not in daemon.said(), "a full guard needs no line"
        assert project.json("query", "harbour")["hits"][0]["document"] == "words of the harbour"
        with pytest.raises(AuthorizationError, match="requires a token"):
            chromadb.HttpClient("127.0.0.1", project.port)
        settings = Settings(
            chroma_client_auth_provider="chromadb.auth.token_authn.TokenAuthClientProvider",
            chroma_client_auth_credentials=TOKEN,
        )
        reader = chromadb.HttpClient("127.0.0.1", project.port, settings=settings)
        assert reader.get_collection("docs").count() == 1
        assert daemon.stop() == 0
    assert TOKEN not in daemon.said()


@pytest.mark.slow
def test_commands_without_a_daemon_know_the_token_too(with_token: Project) -> None:
    assert with_token.json("sync")["documents"]["added"] == 1
    assert with_token.json("query", "harbour")["hits"][0]["document"] == "words of the harbour"
    assert with_token.json("status")["guard"] == ""
    assert with_token.json("verify")["checked"] == 1


# --- Files of the program are for its user alone, whatever the umask ---


def open_to_others(*folders: Path) -> dict[str, str]:
    """Whatever is in them that another user can get at."""
    return {
        str(path): oct(path.stat().st_mode)
        for folder in folders
        for path in (folder, *folder.rglob("*"))
        if path.stat().st_mode & 0o077
    }


@pytest.fixture
def usual_umask():  # type: ignore[no-untyped-def]
    before = os.umask(0o022)
    yield
    os.umask(before)


def with_a_push(project: Project) -> None:
    push = {"name": "sent", "kind": "push", "collection": "docs", "folder": "./sent", "host": "127.0.0.1"}
    project.settings = {"sources": [
        {"name": "docs", "kind": "folder", "path": "./docs", "collection": "docs"},
        {**push, "port": project.port + 1, "token": "x" * 40},
    ]}  # fmt: skip
    project.configure()


@pytest.mark.slow
def test_no_other_user_can_read_what_a_daemon_writes(
    project: Project, usual_umask: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_NO_USE_TO_CHROMA", "a-secret")
    with_a_push(project)
    folders = [project.folder / name for name in ("state", "chroma", "sent")]
    for folder in (folders[0], folders[2]):  # as earlier versions left them
        folder.mkdir()
        folder.chmod(0o755)
    (folders[0] / "lock").touch(0o644)
    (project.docs / "a.txt").write_text("words that only their author may read")
    daemon = project.start(as_people_do=True)
    try:
        wait(lambda: project.settled(1))
        (server,) = processes.writers_of(project.folder / "chroma" / "chroma.sqlite3")
        assert b"a-secret" in Path(f"/proc/{daemon.process.pid}/environ").read_bytes()
        assert b"a-secret" not in Path(f"/proc/{server}/environ").read_bytes()
        assert open_to_others(*folders[:2]) == {}
        assert open_to_others(*(path for path in folders[2].iterdir())) == {}
        assert daemon.said().count(f"{folders[0]}: permissions restricted to the owner") == 1
        assert project.docs.stat().st_mode & 0o777 == 0o755
    finally:
        assert daemon.stop() == 0
    assert open_to_others(*folders[:2]) == {}


def test_no_other_user_can_read_what_an_embedded_chroma_writes(project: Project, usual_umask: None) -> None:
    project.settings = {"chroma": {"path": "./chroma", "embedded": True}}
    project.configure()
    (project.docs / "a.txt").write_text("words that only their author may read")
    project.json("sync")
    assert open_to_others(project.folder / "state", project.folder / "chroma") == {}


def test_other_users_get_the_error_that_the_state_is_closed(project: Project) -> None:
    (project.folder / "state").mkdir(mode=0o700)
    (project.folder / "state").chmod(0o000)  # closed to whoever runs this
    for folder in [project.folder, *project.folder.parents][:-2]:
        folder.chmod(0o755)
    for file in project.folder.glob("*.yaml"):
        file.chmod(0o644)
    said = run_python(
        """
        import os, sys
        from pathlib import Path
        from ingestor.config.file import load
        from ingestor.queries.access import is_running
        from ingestor.ports import NeedsHuman
        config = load(Path(sys.argv[1]), {})
        if os.geteuid() == 0:
            os.setgroups([]); os.setgid(65534); os.setuid(65534)
        try:
            is_running(config)
        except NeedsHuman as error:
            print(error)
        """,
        str(project.config),
    )
    assert (
        said
        == f"{project.folder}/state is closed to this user: only the user who runs ingestor may read it\n"
    )
