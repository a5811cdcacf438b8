"""The guard before Chroma through the whole program: with a token, for its own commands and for readers."""

import chromadb
import pytest
from chromadb.config import Settings
from chromadb.errors import AuthorizationError

from tests.e2e.project import Project
from tests.waiting import wait

TOKEN = "s3cret-of-the-tests"


@pytest.fixture
def with_token(project: Project) -> Project:
    (project.folder / "token").write_text(f"{TOKEN}\n")
    project.settings = {"chroma": {"path": "./chroma", "port": project.port, "token": "file:token"}}
    project.configure()
    (project.docs / "a.txt").write_text("words of the harbour")
    return project


def test_a_token_is_sent_by_our_commands_and_asked_of_readers(with_token: Project) -> None:
    project = with_token
    daemon = project.start()
    try:
        wait(lambda: project.settled(1))
        status = project.json("status")
        assert status["collections"]["docs"]["healthy"]
        assert status["guard"].startswith("host and origin checks, token")
        assert f"Chroma's port: {status['guard']}" in " ".join(project.call("status").stdout.split())
        assert f"Chroma's port: {status['guard']}" in daemon.said()
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
    finally:
        daemon.kill()
    assert TOKEN not in daemon.said()


def test_commands_without_a_daemon_know_the_token_too(with_token: Project) -> None:
    assert with_token.json("sync")["documents"]["added"] == 1
    assert with_token.json("query", "harbour")["hits"][0]["document"] == "words of the harbour"
    assert with_token.json("status")["guard"] == ""
    assert with_token.json("verify")["checked"] == 1
