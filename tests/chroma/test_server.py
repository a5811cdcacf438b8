"""The supervised server, with real servers, real strangers on its port and real kills."""

import http.client
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest

from ingestor.chroma import child, processes
from ingestor.chroma import server as chroma_server
from ingestor.chroma.folder import claim, sweep
from ingestor.ports import NeedsHuman, Transient
from ingestor.state.files import is_held, read_note
from tests.chroma.laws import many
from tests.chroma.opening import catalog, opened
from tests.serving import HOST, client_of, free_port, server
from tests.waiting import LONG, wait


def answers(port):
    connection = http.client.HTTPConnection(HOST, port, timeout=LONG)
    try:
        connection.request("GET", "/api/v2/heartbeat")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def await_reason(running):
    """A killed process closes its sockets some time before its parent can hear of its end."""
    return wait(running.poll)


def await_end(pid):
    """Of a process that is nobody's child here."""
    wait(lambda: not Path(f"/proc/{pid}").exists())


def test_server_starts_answers_and_stops(tmp_path):
    running = server(tmp_path)
    assert running.poll() is not None
    running.start()
    assert running.poll() is None
    assert answers(running.port)
    assert is_held(tmp_path / "db" / "ingestor.lock")
    assert processes.listener(running.port) == running.pid
    assert os.getpgid(running.pid) == running.pid  # a Ctrl-C in the terminal is not for it
    pid = running.pid
    for _ in range(2):
        running.stop()
    assert not answers(running.port)
    assert not Path(f"/proc/{pid}").exists()
    assert not is_held(tmp_path / "db" / "ingestor.lock")


def test_records_outlive_their_server(tmp_path):
    running = server(tmp_path)
    with running, client_of(running) as client:
        opened(client, "docs").upsert(many(20))
    with running, client_of(running) as client:
        assert opened(client, "docs").count() == 20


def test_upserts_write_nothing_to_server_log(tmp_path):
    with server(tmp_path) as running, client_of(running) as client:
        before = running.log_path.stat().st_size
        for _ in range(20):
            opened(client, "docs").upsert(many(5))
        assert running.log_path.stat().st_size == before


def test_killed_server_is_noticed_and_started_again(tmp_path):
    with server(tmp_path) as running, client_of(running) as client:
        opened(client, "docs").upsert(many(20))
        os.kill(running.pid, signal.SIGKILL)
        with pytest.raises(Transient):
            opened(client, "docs").count()
        assert await_reason(running) == "it ended by SIGKILL"
        running.restart()
        assert running.poll() is None
        assert opened(client, "docs").count() == 20
        assert is_held(tmp_path / "db" / "ingestor.lock")


@pytest.mark.parametrize("moved", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_removed_folder_is_noticed_and_created_again(tmp_path, moved):
    with server(tmp_path) as running:
        if moved:
            (tmp_path / "db").rename(tmp_path / "elsewhere")
        else:
            shutil.rmtree(tmp_path / "db")
        assert "was removed, moved or replaced" in running.poll()
        running.restart()
        assert running.poll() is None
        known = [str(os.getpid()), HOST, str(running.port), running.secret]
        assert read_note(tmp_path / "db" / "ingestor.lock") == known
    assert read_note(tmp_path / "db" / "ingestor.lock") == [str(os.getpid())]


def test_descriptions_of_collections_are_kept_in_memory(tmp_path):
    with server(tmp_path) as running:
        said = running.log_path.read_text()  # Chroma shows the settings that it takes
    assert '"collections_with_segments_provider": {"cache": {"memory"' in said


def test_hanging_server_is_noticed_and_started_again(tmp_path, monkeypatch):
    monkeypatch.setattr(chroma_server, "_ANSWER_TIMEOUT", 0.2)
    monkeypatch.setattr(chroma_server, "_END_PATIENCE", 0.01)
    with server(tmp_path) as running:
        running.supervision.hanging_after = 0.3
        first = running.pid
        os.kill(first, signal.SIGSTOP)
        assert running.poll() is None  # it may only be busy
        time.sleep(0.3)
        assert "no answer for" in running.poll()
        monkeypatch.undo()
        monkeypatch.setattr(chroma_server, "STOP_PATIENCE", 0.2)
        running.restart()
        assert running.pid != first
        assert running.poll() is None


def test_server_ends_with_its_daemon(tmp_path):
    port = free_port()
    code = (
        "import sys, time; from pathlib import Path; from tests.serving import server\n"
        "running = server(Path(sys.argv[1]), int(sys.argv[2])); running.start()\n"
        "print(running.pid, flush=True); time.sleep(60)"
    )
    daemon = subprocess.Popen([sys.executable, "-c", code, tmp_path, str(port)], stdout=subprocess.PIPE)
    child = int(daemon.stdout.readline())
    assert answers(port)
    daemon.kill()
    daemon.wait()
    daemon.stdout.close()
    with server(tmp_path, port) as running:  # at once, as a service manager would
        await_end(child)
        assert running.poll() is None


# --- the port -----------------------------------------------------------------------------------------------


def test_chroma_of_another_program_on_the_port_is_refused(tmp_path):
    with server(tmp_path / "theirs") as theirs:
        ours = server(tmp_path / "ours", theirs.port)
        with pytest.raises(
            NeedsHuman, match=rf"port {theirs.port} is taken by process {theirs.pid} .*chroma"
        ):
            ours.start()
        assert theirs.poll() is None
        assert not is_held(tmp_path / "ours" / "db" / "ingestor.lock")


def test_stranger_who_takes_the_port_in_between_is_named(tmp_path, monkeypatch):
    """The child finds the port taken when it is about to listen."""
    port = free_port()

    def spawn(self, listener):
        stranger.listen()
        original(self, listener)

    original = chroma_server.ChromaServer._spawn
    monkeypatch.setattr(chroma_server.ChromaServer, "_spawn", spawn)
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stranger.bind((HOST, port))
        with pytest.raises(NeedsHuman, match=f"port {port} is taken by process {os.getpid()}"):
            server(tmp_path, port).start()


def test_foreign_server_answering_is_not_taken_for_ours(tmp_path, monkeypatch):
    """The child neither ends nor listens, while another Chroma answers every heartbeat."""
    idle = tmp_path / "idle.py"
    idle.write_text("import time; time.sleep(60)")
    with server(tmp_path / "theirs") as theirs:
        monkeypatch.setattr(chroma_server.ChromaServer, "_bind", lambda self: socket.socket())
        monkeypatch.setattr(chroma_server, "_CHILD", idle)
        monkeypatch.setattr(chroma_server, "_START_PATIENCE", 0.5)
        ours = server(tmp_path / "ours", theirs.port)
        with pytest.raises(Transient, match="did not start"):
            ours.start()
        assert ours.pid is None
        assert theirs.poll() is None


def test_port_of_another_program_is_refused(tmp_path):
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            NeedsHuman, match=rf"port {port} is taken by process {os.getpid()} .*chroma\.port"
        ):
            server(tmp_path, port).start()


def test_address_of_another_machine_is_refused(tmp_path):
    running = chroma_server.ChromaServer(tmp_path / "db", "192.0.2.1", free_port(), tmp_path / "log")
    with pytest.raises(NeedsHuman, match=r"192\.0\.2\.1"):
        running.start()


# --- the folder ---------------------------------------------------------------------------------------------


def test_second_ingestor_on_the_folder_is_refused(tmp_path):
    with server(tmp_path) as first:
        with pytest.raises(NeedsHuman, match=f"process {os.getpid()}"):
            server(tmp_path).start()
        assert first.poll() is None


@pytest.mark.slow
def test_server_started_by_hand_on_the_folder_is_refused(tmp_path):
    port = free_port()
    chroma = Path(sys.executable).with_name("chroma")
    by_hand = subprocess.Popen(
        [chroma, "run", "--path", tmp_path / "db", "--port", str(port)], stdout=subprocess.DEVNULL
    )
    try:
        wait(lambda: answers(port))
        with pytest.raises(NeedsHuman, match=f"in use by process {by_hand.pid}"):
            server(tmp_path).start()
        assert by_hand.poll() is None
    finally:
        by_hand.terminate()
        by_hand.wait()
    with server(tmp_path) as running:
        assert running.poll() is None


def test_folder_that_cannot_be_created_is_named(tmp_path):
    (tmp_path / "db").write_text("a file")
    with pytest.raises(NeedsHuman, match="db"):
        server(tmp_path).start()


@pytest.mark.slow
def test_segments_of_deleted_collections_are_swept(tmp_path):
    running, vectors = server(tmp_path), {}
    with running, client_of(running) as client:
        for name in ("kept", "deleted"):
            index = opened(client, name)
            index.upsert(many(1200))
            vectors[name] = index.query(many(1)[0].vector[np.newaxis], 1)
        folders = _segments(tmp_path / "db")
        catalog(client).delete("deleted")
    assert len(folders) == 2
    assert _segments(tmp_path / "db") == folders  # as Chroma leaves it
    with running, client_of(running) as client:
        assert len(_segments(tmp_path / "db")) == 1
        assert opened(client, "kept").query(many(1)[0].vector[np.newaxis], 1) == vectors["kept"]
        assert opened(client, "kept").count() == 1200


def test_sweeping_spares_what_it_does_not_know(tmp_path):
    folders = [tmp_path / str(uuid4()), tmp_path / "mine", tmp_path / str(uuid4()).upper()]
    for folder in folders:
        folder.mkdir()
    assert sweep(tmp_path) == []  # no database: nothing is known
    database = sqlite3.connect(tmp_path / "chroma.sqlite3")
    database.execute("CREATE TABLE segments (id TEXT)")
    database.commit()
    assert sweep(tmp_path) == folders[:1]
    database.close()
    assert all(folder.exists() for folder in folders[1:])


def test_broken_database_is_reported_and_not_cleaned(tmp_path):
    folder = tmp_path / str(uuid4())
    folder.mkdir()
    (tmp_path / "chroma.sqlite3").write_bytes(b"no database " * 1000)
    with pytest.raises(NeedsHuman, match=r"can't read .*chroma\.sqlite3"):
        claim(tmp_path)
    assert folder.exists()
    assert not is_held(tmp_path / "ingestor.lock")


def _segments(path):
    return sorted(file.parent.name for file in path.glob("*/header.bin"))


def test_pages_of_other_sites_may_not_read_its_answers(tmp_path):
    """No header lets a browser give an answer to a script of another site, or send what must be allowed."""
    with server(tmp_path) as running:
        connection = http.client.HTTPConnection(HOST, running.port, timeout=LONG)
        origin = {"Origin": "http://elsewhere.example", "Access-Control-Request-Method": "DELETE"}
        for method in ("GET", "OPTIONS"):
            connection.request(method, "/api/v2/heartbeat", headers=origin)
            answer = connection.getresponse()
            answer.read()
            assert not [name for name in answer.headers if name.lower().startswith("access-control")]
        connection.close()


def test_child_ends_also_if_its_parent_died_before_it_read_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then the socket is reset, where it ends otherwise. Seen in one of 200 kills."""
    sent: list[int] = []
    monkeypatch.setattr(child.os, "kill", lambda pid, signal: sent.append(signal))
    monkeypatch.setattr(child.time, "sleep", lambda seconds: None)
    parent, ours = socket.socketpair()
    with ours:
        ours.sendall(b"an answer\n")
        parent.close()
        child._end_with_parent(ours, [])
    assert sent == [signal.SIGTERM, signal.SIGKILL]


def test_server_log_is_truncated_while_the_server_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("ingestor.chroma.server._LOG_SIZE", 100_000)
    with server(tmp_path) as running:
        with running.log_path.open("ab") as log:
            log.write(b"x" * 100_001)
        assert running.poll() is None
        assert running.log_path.stat().st_size == 0
    with server(tmp_path):
        pass
    written = running.log_path.read_bytes()
    assert written.strip(b"\0") == written, "it appends"
