"""The service port of a real daemon: metrics, readiness and assistants; rights, with and without a token."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import chromadb
import httpx
import pytest
from chromadb.config import Settings
from chromadb.errors import AuthorizationError

from ingestor.chroma import processes
from ingestor.service import assistants
from tests.connectors.folders import run_python
from tests.e2e.project import Project, running
from tests.endpoint import Reply, embedding, serving
from tests.environments import readers
from tests.serving import free_port
from tests.waiting import wait

pytestmark = pytest.mark.timeout(900)
ROOT = Path(__file__).parent.parent.parent
LOADERS = ROOT / "tests/connectors/loaders.py"


def make_served(folder: Path, source: dict[str, Any] | None = None, **http: Any) -> Project:
    found = Project(folder / "project", {"http": {"port": free_port(), **http}}, source or {})
    for name in ("harbour", "bridge", "library"):
        (found.docs / f"{name}.txt").write_text(f"All that is known about the {name}.\n")
    return found


def get(of: Project, path: str) -> httpx.Response | None:
    try:
        address = f"http://127.0.0.1:{of.settings['http']['port']}{path}"
        return httpx.get(address, timeout=30, trust_env=False)
    except httpx.TransportError:
        return None


def status(of: Project, path: str) -> int:
    found = get(of, path)
    return found.status_code if found else 0


def figure(of: Project, series: str) -> float | None:
    found = get(of, "/metrics")
    lines = found.text.splitlines() if found else []
    return next((float(line.split()[-1]) for line in lines if line.startswith(f"{series} ")), None)


def asked(of: Project, about: str) -> list[str]:
    """The document that a reader of the collection gets for a question in words."""
    found: list[str] = read(of, Path(sys.executable), f"All that is known about the {about}.")[1]
    return found


def read(of: Project, python: Path, question: str) -> Any:
    command = [str(python), "-c", READER, str(of.port), question]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=of.folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_running_daemon_is_detected_and_queried_and_a_stopped_chroma_seen(tmp_path: Path) -> None:
    here = make_served(tmp_path)
    with running(here) as daemon:
        settled = 'ingestor_documents{collection="docs",source="docs",state="settled"}'
        wait(lambda: figure(here, settled) == 3)
        assert status(here, "/healthz") == 200
        wait(lambda: status(here, "/readyz") == 200)
        assert figure(here, 'ingestor_lag_seconds{source="docs"}') == 0
        wait(lambda: figure(here, 'ingestor_document_changes_total{kind="added",source="docs"}') == 3)
        for stage in ("read", "chunk", "write"):
            assert (figure(here, f'ingestor_stage_seconds_total{{stage="{stage}"}}') or 0) > 0
        assert asked(here, "bridge")[0].strip() == "All that is known about the bridge."
        pid = processes.listener(here.port)
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            wait(lambda: figure(here, "ingestor_chroma_up") == 0)
            assert status(here, "/readyz") == 503
        finally:
            os.kill(pid, signal.SIGCONT)
        wait(lambda: figure(here, "ingestor_chroma_up") == 1)
        (here.docs / "bridge.txt").unlink()
        wait(lambda: figure(here, settled) == 2)
        assert daemon.stop() == 0, daemon.said()
    assert "the service port listens at http://127.0.0.1:" in daemon.said()


def test_port_in_use_is_reported_and_documents_are_indexed(tmp_path: Path) -> None:
    here = make_served(tmp_path)
    place = f"127.0.0.1:{here.settings['http']['port']}"
    with socket.create_server(("127.0.0.1", here.settings["http"]["port"])), running(here) as daemon:
        wait(lambda: here.settled(3))
        wait(lambda: "In step" in daemon.said())
        assert here.poll("status")["no_service"] == f"{place} is taken by another program"
        assert "huggingface_server" not in str(stored_function(here))
        assert daemon.stop() == 0
    assert f"the service port is not open: port {here.settings['http']['port']} is taken by" in daemon.said()
    assert "Traceback" not in daemon.said()
    assert place not in daemon.said(), "the page there is another program's"
    with running(here):
        wait(lambda: place in str(stored_function(here)))
        assert here.poll("status")["no_service"] == ""


def stored_function(of: Project) -> Any:
    """What embeds the questions of readers, as the collection has it; None while there is none."""
    url = "/api/v2/tenants/default_tenant/databases/default_database/collections"
    try:
        found = httpx.get(f"http://127.0.0.1:{of.port}{url}", timeout=30, trust_env=False)
    except httpx.TransportError:
        return None
    return [each["configuration_json"]["embedding_function"] for each in found.json()] if found else None


def test_listing_and_embedding_server_that_hang_are_seen(tmp_path: Path) -> None:
    """tests/service/test_port.py has the figures of each."""
    shutil.copy(LOADERS, tmp_path)
    arguments = {"pids": str(tmp_path / "pid")}
    hanging = {"kind": "python", "call": "loaders:hanging", "folder": str(tmp_path), "arguments": arguments}
    here = make_served(tmp_path)
    sources = [{"name": "docs", "kind": "folder", "path": "./docs"}, {"name": "slow", **hanging}]
    here.settings["sources"] = [{**source, "collection": "docs"} for source in sources]
    with serving(lambda body: Reply(hang=True) if "bridge" in str(body) else embedding(body)) as server:
        model = {"kind": "openai", "base_url": server.base_url, "model": "m", "retries": 0}
        here.settings["embedding"] = model
        here.configure()
        with running(here) as daemon:
            wait(lambda: figure(here, 'ingestor_source_listing_started_timestamp_seconds{source="slow"}'))
            assert figure(here, 'ingestor_source_last_listing_timestamp_seconds{source="slow"}') is None
            for growing in ("ingestor_embedding_batch_seconds", 'ingestor_lag_seconds{source="docs"}'):
                first = wait(lambda name=growing: figure(here, name))
                wait(lambda name=growing, first=first: (figure(here, name) or 0) > first)
            assert (figure(here, "ingestor_embedding_queue_texts") or 0) > 0
            answer = get(here, "/readyz")
            assert answer is not None
            assert not answer.json()["ready"]
            assert "a source was never listed completely" in answer.json()["reasons"]
            assert status(here, "/healthz") == 200, "a restart would not help"
            assert daemon.stop() == 0, daemon.said()


READER = """
import importlib.util
import json
import sys

import chromadb

others = [name for name in ("torch", "sentence_transformers", "ingestor") if importlib.util.find_spec(name)]
client = chromadb.HttpClient(port=int(sys.argv[1]))
collection = client.get_collection("docs")
found = collection.query(query_texts=[sys.argv[2]], n_results=1)["documents"][0]
print(json.dumps([others, found]))
"""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_reader_with_chroma_alone_searches_by_words(tmp_path: Path) -> None:
    """With the real model, which this process has and the reader's has not. Makes an environment: slow."""
    python = readers("chromadb==1.5.9")
    here = make_served(tmp_path)
    here.settings["embedding"] = {"model": "all-MiniLM-L6-v2"}
    here.configure()
    with running(here):
        wait(lambda: here.settled(3))
        others, found = read(here, python, "Where does the road cross the river?")
    assert (others, [text.strip() for text in found]) == ([], ["All that is known about the bridge."])


# tests/service/test_assistants.py has the tools, and tests/test_examples.py ``ingestor mcp`` beside a daemon


@pytest.mark.skipif(find_spec("mcp") is None, reason="the package mcp is not installed")
def test_assistant_server_needs_the_service_port_and_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = make_served(tmp_path)
    here.settings["http"] = False
    here.configure()
    done = here.call("mcp")
    assert (done.returncode, "http: false" in done.stderr) == (2, True), done.stderr
    monkeypatch.setattr(assistants, "find_spec", lambda name: None)
    done = here.call("mcp")
    assert (done.returncode, "pip install 'chroma-ingestor[mcp]'" in done.stderr) == (4, True), done.stderr


# --- Rights: the guard in front of Chroma with a token, and files that only their user may read ---


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
